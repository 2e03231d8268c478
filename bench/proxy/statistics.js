// Paired comparisons of workflow latencies, by seed and workflow.
import { random } from '../quality/random.js'

const RESAMPLES = 10_000

/** The ceil(q n)-th smallest, as the simulator counts. */
export function quantile(values, q) {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.ceil(q * sorted.length) - 1]
}

/**
 * Own P95 / other P95 over the workflows of all seeds together, with a 95 % percentile interval: 10,000 resamples of workflows
 * inside each seed, the same for both. `own[k][w]` and `other[k][w]` are of one workflow.
 */
export function p95Ratio(own, other) {
  const next = random(1)
  const size = own.reduce((sum, latencies) => sum + latencies.length, 0)
  const a = new Float64Array(size)
  const b = new Float64Array(size)
  const rank = Math.ceil(0.95 * size) - 1
  const ratios = Float64Array.from({ length: RESAMPLES }, () => {
    let i = 0
    for (const [k, latencies] of own.entries()) {
      for (let n = latencies.length; n > 0; n -= 1) {
        const w = next.below(latencies.length)
        a[i] = latencies[w]
        b[i++] = other[k][w]
      }
    }
    return a.sort()[rank] / b.sort()[rank]
  }).sort()
  return {
    ratio: quantile(own.flat(), 0.95) / quantile(other.flat(), 0.95),
    low: ratios[Math.ceil(0.025 * RESAMPLES) - 1],
    high: ratios[Math.ceil(0.975 * RESAMPLES) - 1],
  }
}
