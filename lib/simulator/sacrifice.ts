import type { NativeRun } from '../native.ts'
import { mean } from '../tuning/choose.ts'
import { type BatchOptions, runBatch } from './batch.ts'
import { type Policy, plans } from './policies.ts'
import type { Prepared } from './prepare.ts'

/** What the parameter `sacrifice` cost and who paid (docs/simulator.md). */
export interface Sacrifice {
  /** The most that may be put behind, as a share of the workflows of declared size. */
  share: number
  /** How many were. */
  sacrificed: number
  /** Largest latency / base: of all workflows, of those not put behind, and of all in the same run without the option. */
  largest: number
  largestOthers: number
  largestWithout: number
  /** Where the trace has several. */
  tenants: (Payers & { name: string })[]
  /** Quarters of the workflows by base, ascending. */
  sizes: (Payers & { toMs: number })[]
}

interface Payers {
  workflows: number
  sacrificed: number
}

/** The share where the run has a use for it, else 0. */
export function sacrificeShare(
  run: Pick<NativeRun, 'parameters'> & Pick<Policy, 'order' | 'binding'> & { placement: unknown },
): number {
  return (run.order === 'ratio' || run.order === 'level-ratio') && plans(run)
    ? (run.parameters.sacrifice ?? 0)
    : 0
}

/** Over the seeds of one policy: means of the ratios and of the sizes, sums of the workflows. */
export function pooledSacrifice(seeds: readonly Sacrifice[]): Sacrifice {
  const average = (pick: (seed: Sacrifice) => number) => mean(Float64Array.from(seeds, pick))
  const sum = (pick: (seed: Sacrifice) => number) => seeds.reduce((total, seed) => total + pick(seed), 0)
  const payers = (pick: (seed: Sacrifice) => Payers): Payers => ({
    workflows: sum((seed) => pick(seed).workflows),
    sacrificed: sum((seed) => pick(seed).sacrificed),
  })
  const [first] = seeds
  return {
    share: first!.share,
    sacrificed: sum(({ sacrificed }) => sacrificed),
    largest: average(({ largest }) => largest),
    largestOthers: average(({ largestOthers }) => largestOthers),
    largestWithout: average(({ largestWithout }) => largestWithout),
    tenants: first!.tenants.map(({ name }, t) => ({ name, ...payers(({ tenants }) => tenants[t]!) })),
    sizes: first!.sizes.map((_, q) => ({
      toMs: average(({ sizes }) => sizes[q]!.toMs),
      ...payers(({ sizes }) => sizes[q]!),
    })),
  }
}

/** What the run fills in: by workflow, 1 = put behind. */
export function sacrificeColumn(workflows: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(workflows))
}

/** `columns`: what a run with a share above 0 gave; it is run again without. */
export async function sacrificeOf(
  prepared: Prepared,
  columns: { latencyMs: Float64Array; baseMs: Float64Array; sacrificed: Uint8Array },
  options: Pick<BatchOptions, 'variants' | 'workers' | 'threads' | 'signal'>,
): Promise<Sacrifice> {
  const { run, trace } = prepared
  const latencyMs = new Float64Array(new SharedArrayBuffer(8 * trace.workflows))
  const without = { ...prepared, run: { ...run, parameters: { ...run.parameters, sacrifice: 0 } } }
  await runBatch(without, {
    ...options,
    scales: new Float64Array(0),
    onProgress: undefined,
    outputs: { latencyMs },
  })
  const { baseMs, sacrificed } = columns
  const ratio = (latency: number, w: number) => (baseMs[w]! > 0 ? latency / baseMs[w]! : Infinity)
  const largest = (latency: Float64Array, counts: (w: number) => boolean = () => true) =>
    latency.reduce((most, value, w) => (counts(w) ? Math.max(most, ratio(value, w)) : most), 0)
  const payers = (members: readonly number[]): Payers => ({
    workflows: members.length,
    sacrificed: members.filter((w) => sacrificed[w] === 1).length,
  })
  const all = Array.from({ length: trace.workflows }, (_, w) => w)
  const bySize = [...all].sort((a, b) => baseMs[a]! - baseMs[b]! || a - b)
  const quarter = (q: number) => Math.ceil((q * bySize.length) / 4)
  return {
    share: sacrificeShare(run),
    sacrificed: payers(all).sacrificed,
    largest: largest(columns.latencyMs),
    largestOthers: largest(columns.latencyMs, (w) => sacrificed[w] === 0),
    largestWithout: largest(latencyMs),
    tenants:
      prepared.tenants.length > 1
        ? prepared.tenants.map(({ name }, tenant) => ({
            name,
            ...payers(all.filter((w) => (trace.columns.tenant?.[w] ?? 0) === tenant)),
          }))
        : [],
    sizes: [0, 1, 2, 3].map((q) => {
      const members = bySize.slice(quarter(q), quarter(q + 1))
      return { toMs: baseMs[members.at(-1) ?? 0] ?? 0, ...payers(members) }
    }),
  }
}
