import type { NativeOutputs } from '../native.ts'
import {
  CANCELLED,
  type Cache,
  type Chunk,
  type ChunkResult,
  COLUMNS,
  type Column,
  runVariant,
  type Variant,
} from './chunk.ts'
import type { Progress } from './options.ts'
import { defaultWorkers, leasePool } from './pool.ts'
import type { Prepared } from './prepare.ts'
import { abortedError, batchError } from './status.ts'
import { readTenants, TENANT_COLUMNS, type TenantMetrics } from './tenants.ts'

/** Cost of a simulated call, for choosing where a batch runs; results never depend on it. */
export const MS_PER_CALL = 0.0004
/** Below this a batch is done before a pool would have started. */
const INLINE_MS = 30
/** Least work per message: a message costs some 40 µs. */
const CHUNK_MS = 10
const CHUNKS_PER_WORKER = 8
const PROGRESS_MS = 100

export interface BatchOptions {
  variants: readonly { alpha: number | undefined; replication: number }[]
  scales: Float64Array
  workers: number | undefined
  background?: boolean | undefined
  /** Size of the pool, where several batches share it; default: what this batch can use. */
  threads?: number
  signal: AbortSignal | undefined
  onProgress: ((progress: Progress) => void) | undefined
  outputs?: NativeOutputs
  record?: boolean
}

export interface BatchResult {
  /** Threads used; 0 = the caller's. */
  workers: number
  log: Uint8Array | undefined
  /** What an auto-tuner did in a batch of one run. */
  tuner: ChunkResult['tuner']
  /** Attainment of a run at scale number `scale`. */
  attainment(run: number, scale: number): number
  value(run: number, column: Column): number
  /** By tenant; empty where there is but one. */
  tenants(run: number): TenantMetrics[]
}

let setups = 0

/** Runs every variant of a prepared run, here or on a pool; the numbers are the same bytes either way. */
export async function runBatch(prepared: Prepared, options: BatchOptions): Promise<BatchResult> {
  const { native, trace } = prepared
  const { variants, scales, signal } = options
  const runs = variants.length
  const runMs = trace.calls * MS_PER_CALL
  // A function cannot go to another thread.
  const here = typeof prepared.run.placement === 'function'
  const workers = here ? 0 : (options.workers ?? (runMs * runs < INLINE_MS ? 0 : defaultWorkers()))

  const width = COLUMNS.length
  const tenantWidth = prepared.tenants.length > 1 ? prepared.tenants.length * TENANT_COLUMNS.length : 0
  const chunk: Chunk = {
    setup: { id: ++setups, columns: trace.columns, cluster: prepared.nativeCluster },
    base: prepared.run,
    variants: variants.map((variant, row) => ({ row, ...variant })),
    rows: sharedDoubles(runs * width),
    scales,
    attainment: sharedDoubles(runs * scales.length),
    control: sharedInts(2),
    finished: sharedInts(1),
    ...(options.outputs && { outputs: options.outputs }),
    ...(options.record && { record: true }),
    ...(tenantWidth > 0 && { tenantWidth, tenants: sharedDoubles(runs * tenantWidth) }),
  }
  const fail = (answer: ChunkResult): Error => {
    if (signal?.aborted || answer.status === CANCELLED) return abortedError(signal)
    return batchError(native, trace, answer)
  }

  if (signal?.aborted) throw abortedError(signal)
  const report = reporter(chunk, trace.workflows, options.onProgress)
  const last =
    workers === 0
      ? await inline(prepared, chunk, signal, report, fail)
      : await onPool(chunk, workers, options, runMs, report, fail)
  return {
    workers: Math.min(workers, runs),
    log: last?.log,
    tuner: last?.tuner,
    attainment: (run, scale) => chunk.attainment[run * scales.length + scale]!,
    value: (run, column) => chunk.rows[run * width + COLUMNS.indexOf(column)]!,
    tenants: (run) => {
      const rows = chunk.tenants?.subarray(run * tenantWidth, (run + 1) * tenantWidth)
      return rows === undefined ? [] : readTenants(rows, prepared.tenants)
    },
  }
}

type Report = (controls: readonly Int32Array[]) => void

/** Between two runs the event loop gets a turn, at most every CHUNK_MS, so that signals and progress come through. */
async function inline(
  { native }: Prepared,
  chunk: Chunk,
  signal: AbortSignal | undefined,
  report: Report,
  fail: (answer: ChunkResult) => Error,
): Promise<ChunkResult | undefined> {
  const cache: Cache = {}
  let last: ChunkResult | undefined
  let turn = performance.now()
  // Only a placement function can abort while a run has this thread.
  const stop = () => Atomics.store(chunk.control, 0, 1)
  signal?.addEventListener('abort', stop, { once: true })
  try {
    for (const variant of chunk.variants) {
      const answer = runVariant(native, cache, chunk, variant)
      if (answer.status !== 0) throw fail(answer)
      last = answer
      const now = performance.now()
      if (now - turn < CHUNK_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      turn = performance.now()
      if (signal?.aborted) throw abortedError(signal)
      report([])
    }
  } finally {
    signal?.removeEventListener('abort', stop)
  }
  return last
}

async function onPool(
  whole: Chunk,
  workers: number,
  { threads, background, signal }: BatchOptions,
  runMs: number,
  report: Report,
  fail: (answer: ChunkResult) => Error,
): Promise<ChunkResult | undefined> {
  const parts = split(whole.variants, workers, runMs)
  const controls = parts.map(() => sharedInts(2))
  const pool = await leasePool(threads ?? Math.min(workers, parts.length), background)
  const timer = setInterval(() => report(controls), PROGRESS_MS)
  // What runs stops at its next look at its control; what has not started finds it set.
  const stop = () => {
    for (const control of controls) Atomics.store(control, 0, 1)
  }
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const work = parts.map(async (variants, index) => {
    const answer = await pool.run({ ...whole, variants, control: controls[index]! })
    if (answer.status !== 0) throw fail(answer)
    return answer
  })
  let done = false
  try {
    const answers = await Promise.race([Promise.all(work), pool.failed])
    done = true
    return answers[0]
  } finally {
    clearInterval(timer)
    signal?.removeEventListener('abort', stop)
    if (!done) {
      // No thread is ended inside the core: it would find its environment gone.
      stop()
      await Promise.race([Promise.allSettled(work), pool.failed.catch(() => {})])
    }
    await pool.release(!done)
  }
}

/** Contiguous runs per message: several messages per worker for balance, each worth CHUNK_MS. */
function split(variants: readonly Variant[], workers: number, runMs: number): Variant[][] {
  const least = Math.ceil(CHUNK_MS / Math.max(runMs, 1e-6))
  const size = Math.max(1, least, Math.ceil(variants.length / (workers * CHUNKS_PER_WORKER)))
  const parts: Variant[][] = []
  for (let from = 0; from < variants.length; from += size) parts.push(variants.slice(from, from + size))
  return parts
}

/** Inline runs leave no time between; on a pool the running simulations' own counters are added. */
function reporter(chunk: Chunk, workflows: number, onProgress: BatchOptions['onProgress']): Report {
  const totalRuns = chunk.variants.length
  const totalWorkflows = totalRuns * workflows
  let last = Number.NEGATIVE_INFINITY
  return (controls) => {
    const now = performance.now()
    if (onProgress === undefined || now - last < PROGRESS_MS * 0.9) return
    last = now
    const doneRuns = Atomics.load(chunk.finished, 0)
    let doneWorkflows = doneRuns * workflows
    if (totalRuns === 1 && doneRuns === 0) {
      for (const control of controls) doneWorkflows += Atomics.load(control, 1)
    }
    onProgress({
      doneRuns,
      totalRuns,
      doneWorkflows: Math.min(doneWorkflows, totalWorkflows),
      totalWorkflows,
    })
  }
}

function sharedDoubles(length: number): Float64Array {
  return new Float64Array(new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT))
}

function sharedInts(length: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(length * Int32Array.BYTES_PER_ELEMENT))
}
