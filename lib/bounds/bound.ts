import { extname } from 'node:path'
import type {
  NativeAddon,
  NativeBound,
  NativeCluster,
  NativeReference,
  NativeRun,
  TraceColumns,
} from '../native.ts'
import { THROWN } from '../simulator/chunk.ts'
import { leasePool } from '../simulator/pool.ts'
import type { Prepared } from '../simulator/prepare.ts'
import { abortedError, batchError } from '../simulator/status.ts'

/** Shares of the workflows that are to be within Req × base. */
export const TAUS = [0.95, 0.99, 1] as const

/** What one thread needs. */
export interface BoundTask {
  columns: TraceColumns
  cluster: NativeCluster
  run: NativeRun
  taus: Float64Array
  /** Simulations of the search for a reference; undefined: the bound is wanted. */
  evaluations?: number
}

/** Status 0: the bound or the reference; else what went wrong, as of a run. */
export interface BoundAnswer {
  status: number
  message?: string
  badRow?: { status: number; workflow: number; call: number }
  bound?: NativeBound
  reference?: NativeReference
}

/**
 * What no scheduler can be below on the workflows and arrivals of a prepared run (docs/bounds.md), by TAUS. In this
 * thread with `threads` 0.
 */
export async function lowerBound(
  prepared: Prepared,
  threads: number,
  signal?: AbortSignal,
): Promise<NativeBound> {
  return (await answered(prepared, {}, threads, signal)).bound!
}

/** What a search of so many simulations per entry of TAUS reaches that knows the future (docs/bounds.md). */
export async function searchReference(
  prepared: Prepared,
  evaluations: number,
  threads: number,
  signal?: AbortSignal,
): Promise<NativeReference> {
  return (await answered(prepared, { evaluations }, threads, signal)).reference!
}

async function answered(
  { native, trace, nativeCluster, run }: Prepared,
  wanted: Pick<BoundTask, 'evaluations'>,
  threads: number,
  signal: AbortSignal | undefined,
): Promise<BoundAnswer> {
  const task: BoundTask = {
    ...wanted,
    columns: trace.columns,
    cluster: nativeCluster,
    run,
    taus: Float64Array.from(TAUS),
  }
  const answer = threads === 0 ? computeBound(native, task) : await onPool(task, threads)
  if (signal?.aborted) throw abortedError(signal)
  if (answer.status === 0) return answer
  const { status, message, badRow } = answer
  throw batchError(native, trace, {
    status,
    ...(message !== undefined && { message }),
    ...(badRow && { badRow }),
  })
}

async function onPool(task: BoundTask, threads: number): Promise<BoundAnswer> {
  const pool = await leasePool(threads)
  let done = false
  try {
    const url = new URL(`./worker${extname(import.meta.url)}`, import.meta.url).href
    const answer = await Promise.race([pool.runModule(url, task), pool.failed])
    done = true
    return answer as BoundAnswer
  } finally {
    await pool.release(!done)
  }
}

export function computeBound(
  native: NativeAddon,
  { columns, cluster, run, taus, evaluations }: BoundTask,
): BoundAnswer {
  try {
    const trace = new native.Trace(columns)
    if (trace.status !== 0) {
      const { status, workflow, call } = trace
      return { status, badRow: { status, workflow, call } }
    }
    const simulator = new native.Simulator(trace, cluster)
    if (evaluations !== undefined) {
      const reference = simulator.reference(run, taus, evaluations)
      return reference.status === 0 ? { status: 0, reference } : { status: reference.status }
    }
    const bound = simulator.bound(run, taus)
    return bound.status === 0 ? { status: 0, bound } : { status: bound.status }
  } catch (error) {
    // The border throws TypeErrors, which lose their class between threads.
    return { status: THROWN, message: error instanceof Error ? error.message : String(error) }
  }
}
