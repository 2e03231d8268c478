// What suites share: CPU time of this process, medians and quartiles, rounding, sizes that a run can afford.

export function median(values) {
  return quantile(values, 0.5)
}

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]
}

export function round(value, digits = 3) {
  return Number(value.toPrecision(digits))
}

/** The median of the samples as a row has it, with the quartiles that show their spread. `of` converts each. */
export function spread(samples, of = (sample) => sample) {
  const values = [...samples].map(of)
  return {
    value: round(median(values)),
    low: round(quantile(values, 0.25)),
    high: round(quantile(values, 0.75)),
    samples: values.length,
  }
}

/** CPU time of the process while `work` runs, ns. */
export function cpuNs(work) {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}

/**
 * Measures at growing sizes while a size is expected to take at most `limitS`: what the last one took more than the one before
 * grows by the power seen so far, 1.5 where two points show none. `measure(size)` measures; what was left out is told to
 * `skipped(size, expected seconds)`.
 */
export async function affordable(sizes, limitS, measure, skipped) {
  const took = []
  const expected = (size) => {
    const [before, last] = took.slice(-2)
    if (last === undefined) return before === undefined ? 0 : before.s
    const more = Math.max(last.s - before.s, 0.02 * last.s)
    const first = took.at(-3)
    const power =
      first === undefined || before.s <= first.s
        ? 1.5
        : Math.log(more / (before.s - first.s)) / Math.log(last.size / before.size)
    return last.s + more * (size / last.size) ** Math.min(2.2, Math.max(1, power))
  }
  for (const size of sizes) {
    const seconds = expected(size)
    if (seconds > limitS) {
      skipped(size, seconds)
      continue
    }
    const started = performance.now()
    await measure(size)
    took.push({ size, s: (performance.now() - started) / 1000 })
  }
}
