import type { SimulationResult } from '../../simulator/result.ts'
import { type EncodedColumn, encodeColumn } from './columns.ts'

/** Names of the columns per workflow and per call, with their types. Times are whole nanoseconds of simulated time. */
export const WORKFLOW_COLUMNS = {
  calls: 'u32', // how many; those of a workflow stand together, in trace order
  tenant: 'u16', // index into `tenants`
  arrivalNs: 'f64',
  latencyNs: 'f64', // Infinity where it did not complete
  baseNs: 'f64', // what SLO scales multiply
} as const

export const CALL_COLUMNS = {
  stage: 'u16', // index into `stages`
  instance: 'u16', // index into `instances`, of the last attempt; 65535 = never leased
  promptTokens: 'u32',
  outputTokens: 'u32',
  readyNs: 'f64', // NaN where it did not happen; so are the next
  waitNs: 'f64', // from ready to the first lease
  prefillNs: 'f64', // from the first lease to the first token
  decodeNs: 'f64', // from the first token to the finish
  parents: 'u32', // how many
} as const

export interface PerCallInstance {
  label: string
  kvTokens: number
  maxSequences: number
}

/** The `perCall` of a result document (docs/report.md): what happened to every call, as columns. */
export interface PerCallDocument {
  version: 1
  stages: string[]
  tenants: string[]
  instances: PerCallInstance[]
  /** Absent: `w0`, `w1`, … */
  workflowIds?: string[] | undefined
  /** Absent: `c0`, `c1`, … inside each workflow. */
  callIds?: string[] | undefined
  workflows: Record<keyof typeof WORKFLOW_COLUMNS, EncodedColumn>
  calls: Record<keyof typeof CALL_COLUMNS, EncodedColumn>
  /** For every parent of every call, its position in the workflow (u32). */
  parents: EncodedColumn
}

/** Of a simulation with `perCall`. Exact: a double in ms is within half a nanosecond of the core's integer. */
export function perCallDocument(result: SimulationResult): PerCallDocument {
  const { trace, cluster, perCall } = result
  if (perCall === undefined) throw new Error('Columns per call need a simulation with `perCall`')
  const { workflows, calls, columns } = trace
  const { readyMs, leasedMs, firstTokenMs, finishedMs } = perCall
  const sizes = Uint32Array.from(
    { length: workflows },
    (_, w) => columns.firstCall[w + 1]! - columns.firstCall[w]!,
  )
  const parents = Uint32Array.from(
    { length: calls },
    (_, i) => columns.parentOffset[i + 1]! - columns.parentOffset[i]!,
  )
  return {
    version: 1,
    stages: [...trace.stages],
    tenants: [...trace.tenants],
    instances: cluster.instances.map(({ label, kvTokens, maxSequences }) => ({
      label,
      kvTokens,
      maxSequences,
    })),
    ...(trace.workflowIds && { workflowIds: [...trace.workflowIds] }),
    ...(trace.callIds && { callIds: [...trace.callIds] }),
    workflows: {
      calls: encodeColumn(sizes),
      tenant: encodeColumn(columns.tenant ?? new Uint16Array(workflows)),
      arrivalNs: encodeColumn(nanos(result.arrivalMs)),
      latencyNs: encodeColumn(nanos(result.latencyMs)),
      baseNs: encodeColumn(nanos(result.baseMs)),
    },
    calls: {
      stage: encodeColumn(columns.stage),
      instance: encodeColumn(perCall.instance),
      promptTokens: encodeColumn(columns.promptTokens),
      outputTokens: encodeColumn(columns.outputTokens),
      readyNs: encodeColumn(nanos(readyMs)),
      waitNs: encodeColumn(between(readyMs, leasedMs)),
      prefillNs: encodeColumn(between(leasedMs, firstTokenMs)),
      decodeNs: encodeColumn(between(firstTokenMs, finishedMs)),
      parents: encodeColumn(parents),
    },
    parents: encodeColumn(columns.parents),
  }
}

function nanos(ms: Float64Array): Float64Array {
  return Float64Array.from(ms, toNanos)
}

function between(from: Float64Array, to: Float64Array): Float64Array {
  return Float64Array.from(from, (ms, i) => toNanos(to[i]!) - toNanos(ms))
}

function toNanos(ms: number): number {
  return Math.round(ms * 1e6)
}
