// Means of logarithms of ratios, with standard errors over independent draws.

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
export const geometric = (values) => Math.exp(mean(values.map(Math.log)))

function variance(values) {
  const centre = mean(values)
  return values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1)
}

/**
 * Mean change in % of `own` against `first`, pair by pair, and its standard error, from { workload, seed, own, first }.
 * What shares a workload and a seed shares its workflows (loads, clusters) and counts as one draw; workloads are strata.
 */
export function pairedChange(pairs) {
  const draws = new Map()
  for (const { workload, seed, own, first } of pairs) {
    const strata = draws.get(workload) ?? new Map()
    draws.set(workload, strata)
    strata.set(seed, [...(strata.get(seed) ?? []), Math.log(own / first)])
  }
  const strata = [...draws.values()].map((seeds) => [...seeds.values()].map(mean))
  const centre = mean(strata.map(mean))
  const squares = strata.map((values) => (values.length > 1 ? variance(values) / values.length : Number.NaN))
  const error = Math.sqrt(squares.reduce((sum, value) => sum + value, 0)) / strata.length
  return { percent: 100 * (Math.exp(centre) - 1), error: 100 * Math.exp(centre) * error }
}
