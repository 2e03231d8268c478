/** A curve as two equally long lists. */
export interface Curve {
  x: number[]
  y: number[]
}

/**
 * The empirical distribution function of values that may be infinite: share of all that are <= x, at most `points`
 * steps. With more values it goes through evenly spaced ranks, the first and the last finite one included.
 */
export function distribution(values: ArrayLike<number>, points: number): Curve {
  const sorted = Float64Array.from(values).sort()
  const finite = sorted.findIndex((value) => !Number.isFinite(value))
  const count = finite < 0 ? sorted.length : finite
  const x: number[] = []
  const y: number[] = []
  const steps = Math.min(count, points)
  for (let k = 0; k < steps; k++) {
    const rank = steps === 1 ? count : 1 + Math.round((k * (count - 1)) / (steps - 1))
    // Of equal values only the last rank is a step.
    if (x.at(-1) === sorted[rank - 1]) {
      x.pop()
      y.pop()
    }
    x.push(sorted[rank - 1]!)
    y.push(rank / sorted.length)
  }
  return { x, y }
}

/** Share of workflows with latency <= scale × base, at every scale. */
export function attainment(
  latencies: ArrayLike<number>,
  bases: ArrayLike<number>,
  scales: readonly number[],
): number[] {
  const ratios = Float64Array.from(latencies, (latency, i) => latency / bases[i]!).sort()
  let met = 0
  return scales.map((scale) => {
    while (met < ratios.length && ratios[met]! <= scale) met++
    return met / ratios.length
  })
}
