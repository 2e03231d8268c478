import type { NativeBound } from '../native.ts'
import { mean } from '../tuning/choose.ts'

/** Of one seed: what the policy reached with all workflows counted, and what nobody can be below. */
export interface SeedBound {
  /** The largest latency / base. */
  req100: number
  bound95: number
  bound99: number
  bound100: number
}

/** Means over the seeds. */
export interface RowBound extends SeedBound {
  /**
   * Geometric means over the seeds of Req / bound. Null where a workflow never ended, or a call was evicted, which the
   * bound's model does not know.
   */
  over95: number | null
  over99: number | null
  over100: number | null
}

export function seedBound(req100: number, { bounds }: NativeBound): SeedBound {
  const [bound95, bound99, bound100] = bounds.map(({ ratio }) => ratio)
  return { req100, bound95: bound95!, bound99: bound99!, bound100: bound100! }
}

/** `seeds`: of one policy in one setting. */
export function rowBound(
  seeds: readonly { req95: number; req99: number; evictions: number; bound: SeedBound }[],
): RowBound {
  const average = (pick: (seed: SeedBound) => number) =>
    mean(Float64Array.from(seeds, ({ bound }) => pick(bound)))
  const over = (pick: (seed: (typeof seeds)[number]) => number): number | null => {
    const ratios = Float64Array.from(seeds, pick)
    const known = ratios.every((ratio, i) => Number.isFinite(ratio) && ratio > 0 && seeds[i]!.evictions === 0)
    return known ? Math.exp(mean(ratios.map(Math.log))) : null
  }
  return {
    req100: average(({ req100 }) => req100),
    bound95: average(({ bound95 }) => bound95),
    bound99: average(({ bound99 }) => bound99),
    bound100: average(({ bound100 }) => bound100),
    over95: over(({ req95, bound }) => req95 / bound.bound95),
    over99: over(({ req99, bound }) => req99 / bound.bound99),
    over100: over(({ bound }) => bound.req100 / bound.bound100),
  }
}
