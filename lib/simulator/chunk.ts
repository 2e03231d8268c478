import type {
  NativeAddon,
  NativeCluster,
  NativeOutputs,
  NativeRun,
  NativeSimulator,
  TraceColumns,
} from '../native.ts'
import type { PlacementFailure } from '../scheduler/placement.ts'

/** Trace and cluster as a thread binds them: once per id. */
export interface Setup {
  /** Unique in this process. */
  readonly id: number
  readonly columns: TraceColumns
  readonly cluster: NativeCluster
}

/** Which run of a batch: its row in the results and what sets it apart from the others. */
export interface Variant {
  row: number
  alpha: number | undefined
  replication: number
  /** In place of the base's; the seed of prediction errors follows it. */
  seed?: number | undefined
}

/**
 * Some runs of a batch, for one thread. All arrays lie over shared memory where the thread is another one; a row is
 * written by exactly one run, so results do not depend on how runs were spread.
 */
export interface Chunk {
  setup: Setup
  base: NativeRun
  variants: readonly Variant[]
  /** [runs × ROW.length], by COLUMNS. */
  rows: Float64Array
  /** Ascending SLO scales. */
  scales: Float64Array
  /** [runs × scales]. */
  attainment: Float64Array
  /** Two numbers for the core: see NativeOutputs. */
  control: Int32Array
  /** One counter for the whole batch: finished runs. */
  finished: Int32Array
  /** Further columns of a batch of one run. */
  outputs?: NativeOutputs
  /** [runs × tenants × TENANT_COLUMNS], where the trace has several tenants. */
  tenants?: Float64Array
  /** Numbers of one run in `tenants`. */
  tenantWidth?: number
  /** Record the log (a batch of one run). */
  record?: boolean
}

/** What stopped the chunk, if anything. */
export interface ChunkResult {
  /** 0 = nothing; otherwise the core's status, or THROWN. */
  status: number
  /** With THROWN: why the core's border refused the arguments. */
  message?: string
  badRow?: { status: number; workflow: number; call: number }
  log?: Uint8Array
  /** With `autoTune`: of a batch of one run. */
  tuner?: { events: Float64Array; runs: number }
  /** Why a placement function ended the run. */
  placementFailure?: PlacementFailure | null
}

export const THROWN = -1

/** The status of a run that its `control` asked to stop (`native/base/status.h`). */
export const CANCELLED = 21

/** Numbers kept of every run, in row order; NaN = not measured. */
export const COLUMNS = [
  'workflows',
  'completed',
  'calls',
  'rejected',
  'evictions',
  'events',
  'makespanMs',
  'meanMs',
  'p50Ms',
  'p95Ms',
  'p99Ms',
  'sloScale95',
  'throughputPerS',
  'cpuMs',
  'hiddenEvictions',
  'cacheHits',
  'cacheMisses',
  'cacheStale',
  'cachePromptTokens',
  'cacheSharedTokens',
  'cacheFoundTokens',
  'cacheLoadedTokens',
  'sloScale99',
  'prefillUtilisation',
  'decodeUtilisation',
  'decodeKvPeak',
  'planP50Us',
  'planP99Us',
  'planMeanUs',
  'plans',
  'plannedCalls',
] as const

export type Column = (typeof COLUMNS)[number]

/** What a thread bound last: the chunks of a batch find it again. */
export interface Cache {
  id?: number
  simulator?: NativeSimulator
}

/** Runs one variant; a status other than 0 ends the batch. */
export function runVariant(native: NativeAddon, cache: Cache, chunk: Chunk, variant: Variant): ChunkResult {
  try {
    return tryVariant(native, cache, chunk, variant)
  } catch (error) {
    // The border throws TypeErrors, which lose their class between threads.
    return { status: THROWN, message: error instanceof Error ? error.message : String(error) }
  }
}

/** All variants in order, until one fails. */
export function runChunk(native: NativeAddon, cache: Cache, chunk: Chunk): ChunkResult {
  let answer: ChunkResult = { status: 0 }
  for (const variant of chunk.variants) {
    answer = runVariant(native, cache, chunk, variant)
    if (answer.status !== 0) break
  }
  return answer
}

function tryVariant(native: NativeAddon, cache: Cache, chunk: Chunk, variant: Variant): ChunkResult {
  const { setup, base, rows, scales, attainment, control, finished } = chunk
  if (Atomics.load(control, 0) !== 0) return { status: CANCELLED }
  let { simulator } = cache
  if (simulator === undefined || cache.id !== setup.id) {
    const trace = new native.Trace(setup.columns)
    if (trace.status !== 0) {
      const { status, workflow, call } = trace
      return { status, badRow: { status, workflow, call } }
    }
    simulator = new native.Simulator(trace, setup.cluster)
    cache.id = setup.id
    cache.simulator = simulator
  }

  const { row, alpha, replication, seed } = variant
  const parameters = alpha === undefined ? base.parameters : { ...base.parameters, alpha }
  const run: NativeRun = { ...base, parameters, replication }
  if (seed !== undefined) {
    run.seed = seed
    if (base.error !== undefined) run.error = { ...base.error, seed }
  }
  const curve = attainment.subarray(row * scales.length, (row + 1) * scales.length)
  const outputs: NativeOutputs = { ...chunk.outputs, control }
  if (scales.length > 0) Object.assign(outputs, { scales, attainment: curve })

  const width = chunk.tenantWidth ?? 0
  if (chunk.tenants !== undefined) outputs.tenants = chunk.tenants.subarray(row * width, (row + 1) * width)

  const answer: ChunkResult = { status: 0 }
  let result: ReturnType<NativeSimulator['run']>
  if (chunk.record) {
    const recorded = simulator.record(run, outputs)
    result = recorded.result
    answer.log = recorded.log
  } else {
    result = simulator.run(run, outputs)
  }
  answer.status = result.status
  if (result.tunerEvents !== undefined)
    answer.tuner = { events: result.tunerEvents, runs: result.tunerRuns ?? 0 }
  if (result.placementFailure !== undefined) answer.placementFailure = result.placementFailure
  for (const [column, name] of COLUMNS.entries())
    rows[row * COLUMNS.length + column] = result[name] ?? Number.NaN
  Atomics.add(finished, 0, 1)
  return answer
}
