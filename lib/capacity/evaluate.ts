import type { ResolvedCluster } from '../cluster/resolve.ts'
import { expected, LaxityError } from '../errors.ts'
import type { RunOptions } from '../simulator/options.ts'
import { loadNative } from '../simulator/simulate.ts'
import { abortedError } from '../simulator/status.ts'
import { Cells } from '../study/cells.ts'
import { identified } from '../study/resolve.ts'
import { runInMemory } from '../study/run.ts'
import { runCount, type Study } from '../study/study.ts'
import { version } from '../study/version.ts'
import type { TraceTable } from '../traces/table.ts'

/** What all capacity questions share. */
export interface CapacityOptions extends Omit<RunOptions, 'trace' | 'cluster' | 'seed' | 'onProgress'> {
  trace: TraceTable
  alpha?: number | undefined
  /** Share of the workflows that must meet their deadline, in the mean over the seeds; default 0.95. */
  attainment?: number | undefined
  /** Streams of arrivals, the same for every alternative; default 8. */
  seeds?: number | undefined
  /** The first of them; default 1. */
  seed?: number | undefined
  /** Workers on a Redis run it. */
  redis?: unknown
  onNotice?: ((text: string) => void) | undefined
}

/** Of one alternative, seed by seed. */
export interface Outcome {
  attainment: Float64Array
  p95Ms: Float64Array
  /** First arrival to last finish. */
  makespanMs: Float64Array
}

export interface Demand {
  /** Mean attainment asked for. */
  target: number
  scale: number
  seeds: readonly number[]
}

const DEFAULT_TARGET = 0.95
const DEFAULT_SEEDS = 8
const MOST_SEEDS = 10_000

/** @throws LaxityError ERR_LAXITY_OPTION */
export function readDemand(options: CapacityOptions): Demand {
  const { attainment: target = DEFAULT_TARGET, seeds = DEFAULT_SEEDS, seed = 1, sloScale = 5 } = options
  number('attainment', target, 'a number above 0, up to 1', (value) => value > 0 && value <= 1)
  number(
    'seeds',
    seeds,
    `a whole number from 1 to ${MOST_SEEDS}`,
    (n) => Number.isInteger(n) && n >= 1 && n <= MOST_SEEDS,
  )
  number('seed', seed, 'a safe integer >= 0', (n) => Number.isSafeInteger(n) && n >= 0)
  number('sloScale', sloScale, 'a positive number up to 1000000', (value) => value > 0 && value <= 1e6)
  return { target, scale: sloScale, seeds: Array.from({ length: seeds }, (_, k) => seed + k) }
}

export function number(
  name: string,
  value: unknown,
  what: string,
  accepts: (value: number) => boolean,
): void {
  if (typeof value === 'number' && accepts(value)) return
  throw new LaxityError('ERR_LAXITY_OPTION', expected(what, name, value), name)
}

/** Options of capacity questions that are none of `simulate`. */
const OWN = ['trace', 'attainment', 'seeds', 'seed', 'rate', 'workers', 'signal', 'redis', 'onNotice']

/** A study of one workload: `clusters` at `rate`, by seed. */
export function capacityStudy(
  options: CapacityOptions,
  clusters: readonly { label: string; cluster: ResolvedCluster }[],
  rate: number | null,
  seeds: readonly number[],
  scale: number,
): Study {
  const own = Object.entries(options).filter(([name, value]) => !OWN.includes(name) && value !== undefined)
  return identified('capacity', {
    version: version(),
    clusters,
    workloads: [{ label: options.trace.source, trace: options.trace }],
    rates: [rate],
    policies: [{ label: 'policy', parts: {} }],
    parameters: [],
    seeds,
    scales: [scale],
    options: Object.fromEntries(own),
  })
}

/**
 * Runs it as a study and gives an outcome per cluster; runs with the same seed meet the same arrivals.
 *
 * @throws LaxityError as `simulate`; what a run fails with; ERR_LAXITY_ABORTED
 */
export async function evaluate(options: CapacityOptions, study: Study): Promise<Outcome[]> {
  const { workers, redis, signal, onNotice } = options
  if (signal?.aborted) throw abortedError(signal)
  const { chunks, layout, driven } = await runInMemory(study, { workers, redis, signal, onNotice })
  const [failed] = driven.aside
  if (failed !== undefined) {
    throw new LaxityError('ERR_LAXITY_STUDY', `A run failed ${failed.attempts} times: ${failed.error}`)
  }
  const seeds = study.seeds.length
  const outcomes = Array.from({ length: runCount(study) / seeds }, () => ({
    attainment: new Float64Array(seeds),
    p95Ms: new Float64Array(seeds),
    makespanMs: new Float64Array(seeds),
  }))
  const p95 = layout.columns.indexOf('p95Ms')
  const makespan = layout.columns.indexOf('makespanMs')
  for (const { from, to, rows } of chunks) {
    for (let run = from; run < to; run++) {
      const row = rows.subarray((run - from) * layout.width, (run - from + 1) * layout.width)
      const outcome = outcomes[Math.floor(run / seeds)]!
      outcome.attainment[run % seeds] = row[layout.attainment]!
      outcome.p95Ms[run % seeds] = row[p95]!
      outcome.makespanMs[run % seeds] = row[makespan]!
    }
  }
  return outcomes
}

/** Checks options, trace and cluster as `simulate` does, without a run. @throws LaxityError */
export async function checkRun(study: Study): Promise<void> {
  new Cells(await loadNative(), study).prepare(0)
}

/** A mean attainment with its 95 % Student-t interval over the seeds; no interval with one seed. */
export interface Attainment {
  mean: number
  ci95: [low: number, high: number] | null
}

export async function attainmentOf(values: Float64Array): Promise<Attainment> {
  const native = await loadNative()
  const interval = values.length > 1 ? native.meanInterval(values) : undefined
  return { mean: meanOf(values), ci95: interval ? [interval.low, interval.high] : null }
}

/** In index order, so that it has the same bits everywhere. */
export function meanOf(values: Float64Array): number {
  let sum = 0
  for (const value of values) sum += value
  return sum / values.length
}
