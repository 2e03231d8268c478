import type { NativeBound, NativeReference } from '../native.ts'
import { mean } from '../tuning/choose.ts'

/** Of one seed: what the policy reached with all workflows counted, and what nobody can be below. */
export interface SeedBound {
  /** The largest latency / base. */
  req100: number
  bound95: number
  bound99: number
  bound100: number
  /** With the option `reference`: what the search reached. */
  reference95?: number
  reference99?: number
  reference100?: number
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
  /** The same of the reference. */
  referenceOver95?: number | null
  referenceOver99?: number | null
  referenceOver100?: number | null
}

export function seedBound(
  req100: number,
  { bounds }: NativeBound,
  reference?: NativeReference | undefined,
): SeedBound {
  const [bound95, bound99, bound100] = bounds.map(({ ratio }) => ratio)
  const own = { req100, bound95: bound95!, bound99: bound99!, bound100: bound100! }
  if (reference === undefined) return own
  const [reference95, reference99, reference100] = reference.references.map(({ ratio }) => ratio)
  return { ...own, reference95: reference95!, reference99: reference99!, reference100: reference100! }
}

/** `seeds`: of one policy in one setting. */
export function rowBound(
  seeds: readonly { req95: number; req99: number; evictions: number; bound: SeedBound }[],
): RowBound {
  const average = (pick: (seed: SeedBound) => number) =>
    mean(Float64Array.from(seeds, ({ bound }) => pick(bound)))
  const geometric = (pick: (seed: (typeof seeds)[number]) => number): number | null => {
    const ratios = Float64Array.from(seeds, pick)
    const known = ratios.every((ratio) => Number.isFinite(ratio) && ratio > 0)
    return known ? Math.exp(mean(ratios.map(Math.log))) : null
  }
  const evicted = seeds.some(({ evictions }) => evictions > 0)
  const over: typeof geometric = (pick) => (evicted ? null : geometric(pick))
  const reference = seeds.every(({ bound }) => bound.reference100 !== undefined) && {
    reference95: average(({ reference95 }) => reference95!),
    reference99: average(({ reference99 }) => reference99!),
    reference100: average(({ reference100 }) => reference100!),
    // The search leaves out runs with evictions.
    referenceOver95: geometric(({ bound }) => bound.reference95! / bound.bound95),
    referenceOver99: geometric(({ bound }) => bound.reference99! / bound.bound99),
    referenceOver100: geometric(({ bound }) => bound.reference100! / bound.bound100),
  }
  return {
    req100: average(({ req100 }) => req100),
    bound95: average(({ bound95 }) => bound95),
    bound99: average(({ bound99 }) => bound99),
    bound100: average(({ bound100 }) => bound100),
    over95: over(({ req95, bound }) => req95 / bound.bound95),
    over99: over(({ req99, bound }) => req99 / bound.bound99),
    over100: over(({ bound }) => bound.req100 / bound.bound100),
    ...reference,
  }
}

/** What `largestRatio` needs of a run. */
export function workflowColumns(workflows: number) {
  const doubles = () => new Float64Array(new SharedArrayBuffer(8 * workflows))
  return { latencyMs: doubles(), baseMs: doubles() }
}

/** Of latency / base over all workflows: Req where every one of them counts. */
export function largestRatio({
  latencyMs,
  baseMs,
}: {
  latencyMs: Float64Array
  baseMs: Float64Array
}): number {
  let largest = 0
  for (const [w, latency] of latencyMs.entries()) {
    const base = baseMs[w]!
    largest = Math.max(largest, base > 0 ? latency / base : Number.POSITIVE_INFINITY)
  }
  return largest
}
