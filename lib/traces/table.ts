import type { TraceColumns } from '../native.ts'
import type { ContextPreset } from './context.ts'

/** One entry of a stage template: what a workflow of this kind is expected to do, in order (CONTRACT 9 of the design). */
export interface TemplateEntry {
  stage: string
  promptTokens: number
  outputTokens: number
}

/**
 * A whole trace in memory: columns over SharedArrayBuffer (so that they reach workers without a copy; each binding makes its own) and the names
 * that the columns' ids stand for. Built by the readers and generators of this folder, bound once to the core.
 */
export interface TraceTable {
  /** Where it came from, for messages and results: a file name or a generator's name. */
  readonly source: string
  readonly workflows: number
  readonly calls: number
  /** See `native/workload/trace.h`. Every array is backed by a SharedArrayBuffer. */
  readonly columns: TraceColumns
  /**
   * Stage, model and tenant names by id. Stages of the template come first, in its order; every other name stands in
   * the order of its first row. Calls without a model and workflows without a tenant have the name DEFAULT_NAME.
   */
  readonly stages: readonly string[]
  readonly models: readonly string[]
  readonly tenants: readonly string[]
  /** Workflow ids by row; absent = `w0`, `w1`, … (generators and traces without ids). */
  readonly workflowIds?: readonly string[]
  /** Call ids by row; absent = `c0`, `c1`, … inside each workflow. */
  readonly callIds?: readonly string[]
  /** The template the workload ships, if any. */
  readonly template?: readonly TemplateEntry[]
  /** The same with every optional round and the longest lengths, if the workload ships one beside `template`. */
  readonly pessimisticTemplate?: readonly TemplateEntry[]
  /** Paper stage groups (for stage-mix tables): group name by stage id, '' = none. */
  readonly stageGroups?: readonly string[]
  /** What prompts hold, where the source says it. */
  readonly context?: ContextPreset
}

/** The model or tenant of rows that name none. */
export const DEFAULT_NAME = 'default'

export function defaultWorkflowId(row: number): string {
  return `w${row}`
}

const callIds: string[] = []

/** The default id of a call at a position inside its workflow. */
export function defaultCallId(position: number): string {
  while (callIds.length <= position) callIds.push(`c${callIds.length}`)
  return callIds[position]!
}

/** The id of the workflow at a row. */
export function workflowId(table: TraceTable, row: number): string {
  return table.workflowIds?.[row] ?? defaultWorkflowId(row)
}

/** The id of a call: its workflow's row and its position inside that workflow. */
export function callId(table: TraceTable, workflow: number, position: number): string {
  return table.callIds?.[table.columns.firstCall[workflow]! + position] ?? defaultCallId(position)
}
