import type { NativeAddon } from '../native.ts'

/** How one policy compares with the first, over the same seeds. */
export interface Ratio {
  /** Geometric mean over the seeds of own / first. */
  ratio: number
  /** 95 % Student-t interval of the mean of the paired differences of logarithms, as ratios; null with one seed. */
  low: number | null
  high: number | null
}

/**
 * Null where a value is not a positive number, as with workflows that never finish: such ratios have no logarithm.
 * `own[k]` and `first[k]` must come from the same seed.
 */
export function pairedRatio(
  native: Pick<NativeAddon, 'pairedT'>,
  own: Float64Array,
  first: Float64Array,
): Ratio | null {
  const positive = (value: number) => value > 0 && Number.isFinite(value)
  if (own.length === 0 || !own.every(positive) || !first.every(positive)) return null
  if (own.length === 1) return { ratio: own[0]! / first[0]!, low: null, high: null }
  const { mean, low, high } = native.pairedT(own.map(Math.log), first.map(Math.log))
  return { ratio: Math.exp(mean), low: Math.exp(low), high: Math.exp(high) }
}
