import { LaxityError } from '../../errors.ts'
import { type Column, type ColumnType, decodeColumn, type EncodedColumn } from './columns.ts'
import { CALL_COLUMNS, type PerCallDocument, type PerCallInstance, WORKFLOW_COLUMNS } from './per-call.ts'

type Decoded<T extends Record<string, ColumnType>> = { [K in keyof T]: Column<T[K]> }

/** What happened to every call of a run, decoded and checked. Times are whole nanoseconds. */
export interface CallTable {
  readonly stages: readonly string[]
  readonly tenants: readonly string[]
  readonly instances: readonly PerCallInstance[]
  readonly workflowIds: readonly string[] | undefined
  readonly callIds: readonly string[] | undefined
  /** [workflows + 1] */
  readonly firstCall: Uint32Array
  /** [calls + 1], into `parents`: positions inside the workflow. */
  readonly parentOffset: Uint32Array
  readonly parents: Uint32Array
  readonly workflows: Decoded<Omit<typeof WORKFLOW_COLUMNS, 'calls'>>
  /** [calls] each; NaN where it did not happen. */
  readonly stage: Uint16Array
  readonly instance: Uint16Array
  readonly promptTokens: Uint32Array
  readonly outputTokens: Uint32Array
  readonly readyNs: Float64Array
  readonly leasedNs: Float64Array
  readonly firstTokenNs: Float64Array
  readonly finishedNs: Float64Array
}

/** @throws LaxityError ERR_LAXITY_FIELD with the place of what is wrong. */
export function readCallTable(document: PerCallDocument, place: string): CallTable {
  const workflows = decodeAll(document.workflows, WORKFLOW_COLUMNS, `${place}.workflows`)
  const calls = decodeAll(document.calls, CALL_COLUMNS, `${place}.calls`)
  const firstCall = offsets(workflows.calls, calls.stage.length, `${place}.workflows.calls`)
  const parents = decodeColumn(document.parents, 'u32', `${place}.parents`)
  const parentOffset = offsets(calls.parents, parents.length, `${place}.calls.parents`)
  const { stages, tenants, instances } = document
  below(calls.stage, stages.length, `${place}.calls.stage`)
  below(calls.instance, instances.length, `${place}.calls.instance`, 65535)
  below(workflows.tenant, tenants.length, `${place}.workflows.tenant`)
  checkParents(firstCall, parentOffset, parents, `${place}.parents`)
  nonNegative(workflows.arrivalNs, `${place}.workflows.arrivalNs`)
  nonNegative(workflows.latencyNs, `${place}.workflows.latencyNs`)
  nonNegative(workflows.baseNs, `${place}.workflows.baseNs`)
  checkIds(document.workflowIds, workflows.calls.length, `${place}.workflowIds`)
  checkIds(document.callIds, calls.stage.length, `${place}.callIds`)

  const leasedNs = sums(calls.readyNs, calls.waitNs)
  const firstTokenNs = sums(leasedNs, calls.prefillNs)
  const times = {
    readyNs: calls.readyNs,
    leasedNs,
    firstTokenNs,
    finishedNs: sums(firstTokenNs, calls.decodeNs),
  }
  checkTimes(times, `${place}.calls`)
  return {
    stages,
    tenants,
    instances,
    workflowIds: document.workflowIds,
    callIds: document.callIds,
    firstCall,
    parentOffset,
    parents,
    workflows,
    stage: calls.stage,
    instance: calls.instance,
    promptTokens: calls.promptTokens,
    outputTokens: calls.outputTokens,
    ...times,
  }
}

/** Whether the call ran to its end. */
export function isFinished(table: CallTable, call: number): boolean {
  return table.instance[call] !== 65535 && Number.isFinite(table.finishedNs[call])
}

export function workflowName(table: CallTable, workflow: number): string {
  return table.workflowIds?.[workflow] ?? `w${workflow}`
}

export function callName(table: CallTable, workflow: number, call: number): string {
  return table.callIds?.[call] ?? `c${call - table.firstCall[workflow]!}`
}

function decodeAll<T extends Record<string, ColumnType>>(
  encoded: Record<keyof T, EncodedColumn>,
  types: T,
  place: string,
): Decoded<T> {
  const entries = Object.entries(types).map(
    ([name, type]) => [name, decodeColumn(encoded[name]!, type, `${place}.${name}`)] as const,
  )
  const length = entries[0]![1].length
  for (const [name, column] of entries) {
    if (column.length !== length) throw wrong(`Expected ${length} values`, `${place}.${name}`)
  }
  return Object.fromEntries(entries) as Decoded<T>
}

/** Running sums, which must end at `total`. */
function offsets(counts: Uint32Array, total: number, place: string): Uint32Array {
  const from = new Uint32Array(counts.length + 1)
  let sum = 0
  for (const [i, count] of counts.entries()) {
    sum += count
    if (sum > total) break
    from[i + 1] = sum
  }
  if (sum !== total) throw wrong(`Expected counts that sum to ${total}`, place)
  return from
}

function below(column: Uint16Array, limit: number, place: string, except = -1): void {
  for (const value of column) {
    if (value >= limit && value !== except)
      throw wrong(`Expected indices below ${limit}, got ${value}`, place)
  }
}

function checkParents(
  firstCall: Uint32Array,
  parentOffset: Uint32Array,
  parents: Uint32Array,
  place: string,
): void {
  for (let w = 0; w + 1 < firstCall.length; w++) {
    const first = firstCall[w]!
    for (let call = first; call < firstCall[w + 1]!; call++) {
      for (let p = parentOffset[call]!; p < parentOffset[call + 1]!; p++) {
        if (parents[p]! >= call - first) throw wrong('Expected parents that stand before their child', place)
      }
    }
  }
}

const LATEST_NS = 2 ** 53

/** Each time is NaN or in order: ready <= lease, first token <= finish, lease <= finish. */
function checkTimes(
  times: Pick<CallTable, 'readyNs' | 'leasedNs' | 'firstTokenNs' | 'finishedNs'>,
  place: string,
) {
  const { readyNs, leasedNs, firstTokenNs, finishedNs } = times
  for (let i = 0; i < readyNs.length; i++) {
    const [ready, leased, first, finished] = [readyNs[i]!, leasedNs[i]!, firstTokenNs[i]!, finishedNs[i]!]
    const isWrong =
      ready < 0 ||
      leased < ready ||
      first < ready ||
      finished < first ||
      finished < leased ||
      !(finished < LATEST_NS || Number.isNaN(finished))
    if (isWrong) throw wrong(`Call ${i}: expected times in order from 0 to 2^53 ns`, place)
  }
}

function nonNegative(column: Float64Array, place: string): void {
  for (const value of column) if (!(value >= 0)) throw wrong(`Expected numbers >= 0, got ${value}`, place)
}

function checkIds(ids: readonly string[] | undefined, length: number, place: string): void {
  if (ids !== undefined && ids.length !== length)
    throw wrong(`Expected ${length} ids, got ${ids.length}`, place)
}

function sums(a: Float64Array, b: Float64Array): Float64Array {
  return Float64Array.from(a, (value, i) => value + b[i]!)
}

function wrong(message: string, place: string): LaxityError {
  return new LaxityError('ERR_LAXITY_FIELD', message, place)
}
