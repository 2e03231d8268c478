import { type ErrorCode, LaxityError, quote } from '../errors.ts'
import type { TraceColumns } from '../native.ts'
import { finished, grown, reordered, sharedColumn } from './columns.ts'
import type { ContextPreset } from './context.ts'
import { CallIds, WorkflowIds } from './ids.ts'
import { MAX_CALLS, MAX_EDGES, MAX_NAMES } from './limits.ts'
import { Names } from './names.ts'
import {
  DEFAULT_NAME,
  defaultCallId,
  defaultWorkflowId,
  type TemplateEntry,
  type TraceTable,
} from './table.ts'

const FIRST_LENGTH = 64

/** One workflow without its calls. Absent: default id, no recorded arrival, default tenant, no SLO. */
export interface WorkflowRow {
  id?: string
  arrivedAtMs?: number
  tenant?: string
  sloMs?: number
}

/** One call without its parents. Absent: default id, default model, nothing cached, prediction = output, no gap. */
export interface CallRow {
  id?: string
  stage: string
  model?: string
  promptTokens: number
  cachedTokens?: number
  outputTokens: number
  predictedTokens?: number
  toolGapMs?: number
}

/** Makes the error for a field of the workflow being added, named as in the JSONL format. */
export type RowError = (code: ErrorCode, field: string, message: string) => LaxityError

/**
 * Collects workflows, their calls and parents, in this order, into the columns of a TraceTable. Rows are trusted: the
 * readers have checked fields and ranges. What only the whole trace can show is checked here: unique workflow ids,
 * arrivals on all workflows or none, and the limits of the columns.
 */
export class TraceBuilder {
  readonly #error: RowError
  #workflows = 0
  #calls = 0
  #edges = 0
  #callsBefore = 0

  readonly #stages = new Names()
  readonly #models = new Names()
  readonly #tenants = new Names()
  readonly #workflowIds = new WorkflowIds()
  readonly #callIds = new CallIds()

  #firstCall = new Uint32Array(FIRST_LENGTH)
  #tenant = new Uint16Array(FIRST_LENGTH)
  #arrivalMs: Float64Array | undefined
  #ascending = true
  #sloMs: Float64Array | undefined

  #stage = new Uint16Array(FIRST_LENGTH)
  #promptTokens = new Uint32Array(FIRST_LENGTH)
  #outputTokens = new Uint32Array(FIRST_LENGTH)
  #parentOffset = new Uint32Array(FIRST_LENGTH)
  #parents = new Uint32Array(FIRST_LENGTH)
  // Columns below exist only once a value differs from the default.
  #model: Uint16Array | undefined
  #cachedTokens: Uint32Array | undefined
  #predictedTokens: Uint32Array | undefined
  #toolGapMs: Float64Array | undefined

  constructor(error: RowError = (code, field, message) => new LaxityError(code, message, field)) {
    this.#error = error
  }

  get workflows(): number {
    return this.#workflows
  }

  /** @throws LaxityError ERR_LAXITY_DUPLICATE, ERR_LAXITY_FIELD (arrivals on some workflows only), ERR_LAXITY_LIMIT */
  addWorkflow(row: WorkflowRow): void {
    const w = this.#workflows
    if (w === this.#firstCall.length) this.#growWorkflows()
    const id = row.id ?? defaultWorkflowId(w)
    if (!this.#workflowIds.push(id)) {
      throw this.#error('ERR_LAXITY_DUPLICATE', 'id', `Workflow id ${quote(id)} was used before`)
    }
    this.#callsBefore = this.#calls
    this.#firstCall[w] = this.#calls
    this.#tenant[w] = this.#name(this.#tenants, row.tenant ?? DEFAULT_NAME, 'tenant')
    this.#addArrival(w, row.arrivedAtMs)
    if (row.sloMs !== undefined) {
      this.#sloMs ??= new Float64Array(this.#firstCall.length).fill(Number.NaN)
      this.#sloMs[w] = row.sloMs
    }
    this.#workflows++
  }

  /** Adds a call to the last workflow. Parents follow by `addParent`. @throws LaxityError ERR_LAXITY_LIMIT */
  addCall(row: CallRow): void {
    const c = this.#calls
    if (c + 1 >= this.#parentOffset.length) this.#growCalls()
    if (c >= MAX_CALLS) throw this.#limit('calls', MAX_CALLS, 'calls')
    this.#stage[c] = this.#name(this.#stages, row.stage, 'stage')
    this.#promptTokens[c] = row.promptTokens
    this.#outputTokens[c] = row.outputTokens

    const model = this.#name(this.#models, row.model ?? DEFAULT_NAME, 'model')
    if (model !== 0) {
      this.#model ??= new Uint16Array(this.#stage.length)
      this.#model[c] = model
    }
    if (row.cachedTokens) {
      this.#cachedTokens ??= new Uint32Array(this.#stage.length)
      this.#cachedTokens[c] = row.cachedTokens
    }
    if (row.toolGapMs) {
      this.#toolGapMs ??= new Float64Array(this.#stage.length)
      this.#toolGapMs[c] = row.toolGapMs
    }
    const predicted = row.predictedTokens ?? row.outputTokens
    if (this.#predictedTokens !== undefined) this.#predictedTokens[c] = predicted
    else if (predicted !== row.outputTokens) {
      this.#predictedTokens = this.#outputTokens.slice()
      this.#predictedTokens[c] = predicted
    }

    const usual = defaultCallId(c - this.#callsBefore)
    this.#callIds.push(c, row.id ?? usual, usual, (at) => this.#defaultCallIdAt(at))
    this.#calls = c + 1
    this.#parentOffset[c + 1] = this.#edges
  }

  /** Adds a parent, by its position in the workflow, to the last call. @throws LaxityError ERR_LAXITY_LIMIT */
  addParent(position: number): void {
    if (this.#edges === this.#parents.length) this.#parents = grown(this.#parents)
    if (this.#edges >= MAX_EDGES) throw this.#limit('calls', MAX_EDGES, 'parents')
    this.#parents[this.#edges++] = position
    this.#parentOffset[this.#calls] = this.#edges
  }

  /**
   * The table, its workflows stably sorted by arrival. The builder is spent afterwards.
   * `stageGroups` gives group names by stage name; names of other stages are ignored.
   * @throws LaxityError ERR_LAXITY_EMPTY, without a place
   */
  finish(
    source: string,
    about: {
      template?: readonly TemplateEntry[]
      pessimisticTemplate?: readonly TemplateEntry[]
      stageGroups?: ReadonlyMap<string, string>
      context?: ContextPreset
    } = {},
  ): TraceTable {
    if (this.#workflows === 0) throw new LaxityError('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    const { template, pessimisticTemplate, stageGroups, context } = about
    const sorted = this.#sorted()
    const { columns } = sorted

    // Ids are renumbered so that the same trace gives the same table in whatever order names were met.
    const stages = new Names()
    for (const entry of [...(template ?? []), ...(pessimisticTemplate ?? [])])
      this.#name(stages, entry.stage, 'stage')
    this.#renumber(columns.stage, this.#stages, stages)
    const tenants = this.#renumberOptional(columns, 'tenant', this.#tenants)
    const models = this.#renumberOptional(columns, 'model', this.#models)

    const groups = stages.list.map((stage) => stageGroups?.get(stage) ?? '')
    return {
      source,
      workflows: this.#workflows,
      calls: this.#calls,
      columns,
      stages: stages.list,
      models,
      tenants,
      ...(sorted.workflowIds !== undefined && { workflowIds: sorted.workflowIds }),
      ...(sorted.callIds !== undefined && { callIds: sorted.callIds }),
      ...(template !== undefined && { template }),
      ...(pessimisticTemplate !== undefined && { pessimisticTemplate }),
      ...(groups.some((group) => group !== '') && { stageGroups: groups }),
      ...(context !== undefined && { context }),
    }
  }

  #name(names: Names, name: string, what: 'stage' | 'model' | 'tenant'): number {
    const id = names.id(name)
    if (id >= 0) return id
    const field = what === 'tenant' ? what : `calls[${this.#calls - this.#callsBefore}].${what}`
    throw this.#limit(field, MAX_NAMES, `different ${what}s`)
  }

  #limit(field: string, most: number, what: string): LaxityError {
    return this.#error('ERR_LAXITY_LIMIT', field, `More than ${most} ${what} in one trace`)
  }

  #addArrival(w: number, arrivedAtMs: number | undefined): void {
    if (w === 0 && arrivedAtMs !== undefined) this.#arrivalMs = new Float64Array(this.#firstCall.length)
    if ((arrivedAtMs === undefined) !== (this.#arrivalMs === undefined)) {
      const message =
        arrivedAtMs === undefined
          ? 'Missing: earlier workflows have an arrival, so all must'
          : 'Earlier workflows have no arrival, so none may'
      throw this.#error('ERR_LAXITY_FIELD', 'arrivedAtMs', message)
    }
    if (this.#arrivalMs === undefined || arrivedAtMs === undefined) return
    this.#arrivalMs[w] = arrivedAtMs
    if (w > 0 && arrivedAtMs < this.#arrivalMs[w - 1]!) this.#ascending = false
  }

  #growWorkflows(): void {
    this.#firstCall = grown(this.#firstCall)
    this.#tenant = grown(this.#tenant)
    if (this.#arrivalMs !== undefined) this.#arrivalMs = grown(this.#arrivalMs)
    if (this.#sloMs !== undefined) this.#sloMs = grown(this.#sloMs).fill(Number.NaN, this.#workflows)
  }

  #growCalls(): void {
    this.#stage = grown(this.#stage)
    this.#promptTokens = grown(this.#promptTokens)
    this.#outputTokens = grown(this.#outputTokens)
    this.#parentOffset = grown(this.#parentOffset)
    if (this.#model !== undefined) this.#model = grown(this.#model)
    if (this.#cachedTokens !== undefined) this.#cachedTokens = grown(this.#cachedTokens)
    if (this.#predictedTokens !== undefined) this.#predictedTokens = grown(this.#predictedTokens)
    if (this.#toolGapMs !== undefined) this.#toolGapMs = grown(this.#toolGapMs)
  }

  /** The last workflow that starts at or before the row holds it: workflows are never empty. */
  #defaultCallIdAt(row: number): string {
    let low = 0
    let high = this.#workflows - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#firstCall[middle]! <= row) low = middle
      else high = middle - 1
    }
    return defaultCallId(row - this.#firstCall[low]!)
  }

  #sorted(): { columns: TraceColumns; workflowIds?: string[] | undefined; callIds?: string[] | undefined } {
    const [workflows, calls, edges] = [this.#workflows, this.#calls, this.#edges]
    if (this.#ascending) {
      const firstCall = sharedColumn(Uint32Array, workflows + 1)
      firstCall.set(this.#firstCall.subarray(0, workflows))
      firstCall[workflows] = calls
      const columns: TraceColumns = {
        firstCall,
        tenant: finished(this.#tenant, workflows),
        ...(this.#arrivalMs && { arrivalMs: finished(this.#arrivalMs, workflows) }),
        ...(this.#sloMs && { sloMs: finished(this.#sloMs, workflows) }),
        stage: finished(this.#stage, calls),
        ...(this.#model && { model: finished(this.#model, calls) }),
        promptTokens: finished(this.#promptTokens, calls),
        ...(this.#cachedTokens && { cachedTokens: finished(this.#cachedTokens, calls) }),
        outputTokens: finished(this.#outputTokens, calls),
        ...(this.#predictedTokens && { predictedTokens: finished(this.#predictedTokens, calls) }),
        ...(this.#toolGapMs && { toolGapMs: finished(this.#toolGapMs, calls) }),
        parentOffset: finished(this.#parentOffset, calls + 1),
        parents: finished(this.#parents, edges),
      }
      return { columns, workflowIds: this.#workflowIds.list, callIds: this.#callIds.list }
    }
    return this.#reorderedByArrival(workflows, calls, edges)
  }

  #reorderedByArrival(workflows: number, calls: number, edges: number) {
    const arrivals = this.#arrivalMs!
    const byArrival = new Uint32Array(workflows).map((_, w) => w)
    byArrival.sort((a, b) => arrivals[a]! - arrivals[b]! || a - b)

    const firstCall = sharedColumn(Uint32Array, workflows + 1)
    const parentOffset = sharedColumn(Uint32Array, calls + 1)
    const parents = sharedColumn(Uint32Array, edges)
    const callOrder = new Uint32Array(calls)
    let [c, e] = [0, 0]
    for (let w = 0; w < workflows; w++) {
      firstCall[w] = c
      const from = byArrival[w]!
      const end = from + 1 < workflows ? this.#firstCall[from + 1]! : calls
      for (let row = this.#firstCall[from]!; row < end; row++) {
        for (let i = this.#parentOffset[row]!; i < this.#parentOffset[row + 1]!; i++)
          parents[e++] = this.#parents[i]!
        callOrder[c++] = row
        parentOffset[c] = e
      }
    }
    firstCall[workflows] = calls

    const columns: TraceColumns = {
      firstCall,
      tenant: reordered(this.#tenant, byArrival),
      arrivalMs: reordered(arrivals, byArrival),
      ...(this.#sloMs && { sloMs: reordered(this.#sloMs, byArrival) }),
      stage: reordered(this.#stage, callOrder),
      ...(this.#model && { model: reordered(this.#model, callOrder) }),
      promptTokens: reordered(this.#promptTokens, callOrder),
      ...(this.#cachedTokens && { cachedTokens: reordered(this.#cachedTokens, callOrder) }),
      outputTokens: reordered(this.#outputTokens, callOrder),
      ...(this.#predictedTokens && { predictedTokens: reordered(this.#predictedTokens, callOrder) }),
      ...(this.#toolGapMs && { toolGapMs: reordered(this.#toolGapMs, callOrder) }),
      parentOffset,
      parents,
    }
    // Default ids stand for rows, which have just moved.
    const ids = this.#workflowIds.list
    const moved = Array.from(byArrival, (w) => ids?.[w] ?? defaultWorkflowId(w))
    const workflowIds = moved.every((id, w) => id === defaultWorkflowId(w)) ? undefined : moved
    const callIds = this.#callIds.list
    return { columns, workflowIds, callIds: callIds && Array.from(callOrder, (row) => callIds[row]!) }
  }

  #renumber(column: Uint16Array, from: Names, to: Names): void {
    const ids = new Int32Array(from.list.length).fill(-1)
    let changed = false
    for (let i = 0; i < column.length; i++) {
      const old = column[i]!
      if (ids[old] === -1) {
        ids[old] = this.#name(to, from.list[old]!, 'stage')
        if (ids[old] !== old) changed = true
      }
    }
    if (changed) for (let i = 0; i < column.length; i++) column[i] = ids[column[i]!]!
  }

  /** Renumbers by first row, and leaves the column out where that makes it all zero. */
  #renumberOptional(columns: TraceColumns, field: 'tenant' | 'model', from: Names): string[] {
    const to = new Names()
    const column = columns[field]
    if (column === undefined) return from.list
    this.#renumber(column, from, to)
    if (to.list.length === 1) delete columns[field]
    return to.list
  }
}
