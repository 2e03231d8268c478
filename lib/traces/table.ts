import type { TraceColumns } from '../native.ts'

/** One entry of a stage template: what a workflow of this kind is expected to do, in order (CONTRACT 9 of the design). */
export interface TemplateEntry {
  stage: string
  promptTokens: number
  outputTokens: number
}

/**
 * A whole trace in memory: columns over SharedArrayBuffer (so that workers read them without a copy) and the names
 * that the columns' ids stand for. Built by the readers and generators of this folder, bound once to the core.
 */
export interface TraceTable {
  /** Where it came from, for messages and results: a file name or a generator's name. */
  readonly source: string
  readonly workflows: number
  readonly calls: number
  /** See `native/workload/trace.h`. Every array is backed by a SharedArrayBuffer. */
  readonly columns: TraceColumns
  /** Stage, model and tenant names by id. */
  readonly stages: readonly string[]
  readonly models: readonly string[]
  readonly tenants: readonly string[]
  /** Workflow ids by row; absent = `w0`, `w1`, … (generators and traces without ids). */
  readonly workflowIds?: readonly string[]
  /** Call ids by row; absent = `c0`, `c1`, … inside each workflow. */
  readonly callIds?: readonly string[]
  /** The template the workload ships, if any. */
  readonly template?: readonly TemplateEntry[]
  /** Paper stage groups (for stage-mix tables): group name by stage id. */
  readonly stageGroups?: readonly string[]
}
