import type { NativeAddon } from '../native.ts'

/** Position of the smallest mean; the first of equals. `costs[k]` holds the costs of alternative k by replication. */
export function bestOf(costs: readonly Float64Array[]): number {
  let best = 0
  const means = costs.map(mean)
  for (const [k, value] of means.entries()) if (value < means[best]!) best = k
  return best
}

/**
 * The alternatives that the data cannot tell from the best: those whose paired 95 % confidence interval of the
 * difference includes 0. One replication separates nothing, so then it is all of them.
 */
export function indistinguishable(
  native: Pick<NativeAddon, 'pairedT'>,
  costs: readonly Float64Array[],
  best: number,
): number[] {
  const reference = costs[best]!
  const found: number[] = []
  for (const [k, own] of costs.entries()) {
    if (k !== best && sameAs(native, own, reference)) found.push(k)
  }
  return found
}

function sameAs(native: Pick<NativeAddon, 'pairedT'>, own: Float64Array, reference: Float64Array): boolean {
  if (own.length < 2) return true
  // Unfinished workflows make a cost infinite; intervals need finite numbers.
  if (!own.every(Number.isFinite) || !reference.every(Number.isFinite)) {
    return own.every((value, i) => value === reference[i])
  }
  const { low, high } = native.pairedT(own, reference)
  return low <= 0 && high >= 0
}

/** In index order, so that it has the same bits wherever the values came from. */
export function mean(values: Float64Array): number {
  let sum = 0
  for (const value of values) sum += value
  return sum / values.length
}
