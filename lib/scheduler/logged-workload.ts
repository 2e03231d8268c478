import { LaxityError } from '../errors.ts'
import type { NativeCluster, NativeInstance, NativeLatency, TraceColumns } from '../native.ts'
import { sharedColumn } from '../traces/columns.ts'
import type { EventLog } from './log.ts'
import { decodeRecord, type EventObject, RECORD_BYTES } from './records.ts'

/** What a log says of the work itself, apart from every decision: the part of it that another policy would have met too. */
export interface LoggedWorkload {
  columns: TraceColumns
  workflows: number
  calls: number
  cluster: NativeCluster
  /** By workflow, as it happened: ms from its arrival to its last finish; NaN where nothing finished. */
  recordedMs: Float64Array
  /** By workflow, ms; NaN where it declared none. The last that it declared. */
  deadlineMs: Float64Array
  /** What had to be filled in. */
  assumed: {
    /** Calls whose length the log does not tell (cancelled, rejected, lost, unreported): the prediction stands in. */
    lengths: number
    /** Changes of instances while it ran: the first description of each stays. */
    instanceChanges: number
    /** Deadlines that were changed on the way: the last one holds from the start. */
    deadlineChanges: number
    /** Calls with n > 1: one sequence with all the tokens. */
    parallelSamples: number
  }
}

interface Workflow {
  arrivedAt: number
  tenant: number
  deadline: number
  lastFinish: number
  calls: Call[]
  /** Finished calls none of whose children has finished (CONTRACT 3). */
  frontier: Set<Call>
}

interface Call {
  index: number
  stage: number
  model: number
  prompt: number
  predicted: number
  output: number
  sequences: number
  revealedAt: number
  finishedAt: number
  parents: Call[]
}

const NEVER = 2n ** 63n - 1n

/** @throws LaxityError ERR_LAXITY_LOG, ERR_LAXITY_EMPTY */
export function loggedWorkload({ header, records }: EventLog, place: string): LoggedWorkload {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  const assumed = { lengths: 0, instanceChanges: 0, deadlineChanges: 0, parallelSamples: 0 }
  const workflows: Workflow[] = []
  const open = new Map<string, Workflow>()
  const calls = new Map<string, Call & { workflow: Workflow }>()
  const instances = new Map<number, NativeInstance>()
  const latencies: NativeLatency[] = [...header.cluster.latencies]
  let pending: [number, number][] = []
  const key = (event: EventObject, name: 'call' | 'workflow') =>
    `${event[name]}.${event[`${name}Generation`]}`
  for (let at = 0; at < records.length; at += RECORD_BYTES) {
    const event = decodeRecord(view, at)
    if (event === undefined)
      throw new LaxityError('ERR_LAXITY_LOG', 'Unknown record', `${place}:${at / RECORD_BYTES + 2}`)
    const t = Number(event.t)
    const field = (name: string) => Number(event[name])
    if (event.kind === 'instance') {
      if (field('change') === 0 && !instances.has(field('instance')))
        instances.set(field('instance'), instanceOf(field))
      else assumed.instanceChanges += 1
    } else if (event.kind === 'setLatency') {
      latencies[field('latency')] = {
        kind: 'constants',
        prefillBaseMs: field('prefillBaseMs'),
        prefillPerTokenMs: field('prefillPerTokenMs'),
        decodeBaseMs: field('decodeBaseMs'),
        decodePerSequenceMs: field('decodePerSequenceMs'),
        decodePerContextMs: field('decodePerContextMs'),
      }
    } else if (event.kind === 'openWorkflow') {
      const workflow: Workflow = {
        arrivedAt: t,
        tenant: field('tenant'),
        deadline: deadlineOf(event.deadline),
        lastFinish: Number.NaN,
        calls: [],
        frontier: new Set(),
      }
      workflows.push(workflow)
      open.set(key(event, 'workflow'), workflow)
    } else if (event.kind === 'updateWorkflow') {
      const workflow = open.get(key(event, 'workflow'))
      if (workflow === undefined || Number(event.deadline) === -1) continue
      workflow.deadline = deadlineOf(event.deadline)
      assumed.deadlineChanges += 1
    } else if (event.kind === 'moreParents') {
      pending = [...pending, ...event.parents!]
    } else if (event.kind === 'reveal') {
      const workflow = open.get(key(event, 'workflow'))
      if (workflow === undefined) continue
      const named = [...pending, ...event.parents!].map(
        ([slot, generation]) => calls.get(`${slot}.${generation}`)!,
      )
      pending = []
      const sequences = field('sequences')
      if (sequences > 1) assumed.parallelSamples += 1
      const call = {
        index: workflow.calls.length,
        stage: field('stage'),
        model: field('model'),
        prompt: field('promptTokens'),
        predicted: field('predictedTokens') * sequences,
        output: 0,
        sequences,
        revealedAt: t,
        finishedAt: Number.NaN,
        parents: field('frontier') === 1 ? [...workflow.frontier] : named,
        workflow,
      }
      workflow.calls.push(call)
      calls.set(key(event, 'call'), call)
    } else if (event.kind === 'finished') {
      const call = calls.get(key(event, 'call'))
      if (call === undefined || !Number.isNaN(call.finishedAt)) continue
      call.finishedAt = t
      call.output = field('outputTokens') * call.sequences
      const { workflow } = call
      workflow.lastFinish = t
      for (const parent of call.parents) workflow.frontier.delete(parent)
      workflow.frontier.add(call)
    }
  }
  const kept = workflows.filter((workflow) => workflow.calls.length > 0)
  if (kept.length === 0) throw new LaxityError('ERR_LAXITY_EMPTY', 'No workflow in the log has a call', place)
  return {
    ...columnsOf(kept, assumed),
    cluster: { instances: [...instances.values()], latencies, templates: header.cluster.templates },
    assumed,
  }
}

function deadlineOf(value: unknown): number {
  return typeof value === 'bigint' && value === NEVER ? Number.NaN : Number(value)
}

const MODES = ['prefill-first', 'chunked', 'decode-share'] as const
const ROLES = ['unified', 'prefill', 'decode'] as const

function instanceOf(field: (name: string) => number): NativeInstance {
  const role = ROLES[field('role')]!
  return {
    latency: field('latency'),
    model: field('model'),
    kvTokens: field('kvTokens'),
    maxSequences: field('maxSequences'),
    mode: MODES[field('mode')]!,
    chunkTokens: field('chunkTokens'),
    decodeShare: field('decodeShare'),
    ...(role !== 'unified' && {
      role,
      linkMsPerToken: field('linkPerToken') / 2 ** 20 / 1e6,
      linkLatencyMs: field('linkLatency') / 1e6,
    }),
  }
}

function columnsOf(
  workflows: readonly Workflow[],
  assumed: LoggedWorkload['assumed'],
): Pick<LoggedWorkload, 'columns' | 'workflows' | 'calls' | 'recordedMs' | 'deadlineMs'> {
  const calls = workflows.reduce((sum, workflow) => sum + workflow.calls.length, 0)
  const edges = workflows.reduce(
    (sum, w) => sum + w.calls.reduce((n, { parents }) => n + parents.length, 0),
    0,
  )
  const columns = {
    firstCall: sharedColumn(Uint32Array, workflows.length + 1),
    arrivalMs: sharedColumn(Float64Array, workflows.length),
    tenant: sharedColumn(Uint16Array, workflows.length),
    sloMs: sharedColumn(Float64Array, workflows.length),
    stage: sharedColumn(Uint16Array, calls),
    model: sharedColumn(Uint16Array, calls),
    promptTokens: sharedColumn(Uint32Array, calls),
    outputTokens: sharedColumn(Uint32Array, calls),
    predictedTokens: sharedColumn(Uint32Array, calls),
    toolGapMs: sharedColumn(Float64Array, calls),
    parentOffset: sharedColumn(Uint32Array, calls + 1),
    parents: sharedColumn(Uint32Array, edges),
  }
  const recordedMs = new Float64Array(workflows.length)
  const deadlineMs = new Float64Array(workflows.length)
  const first = workflows[0]!.arrivedAt
  let row = 0
  let edge = 0
  for (const [w, workflow] of workflows.entries()) {
    columns.firstCall[w] = row
    columns.arrivalMs[w] = (workflow.arrivedAt - first) / 1e6
    columns.tenant[w] = workflow.tenant
    deadlineMs[w] = columns.sloMs[w] = (workflow.deadline - workflow.arrivedAt) / 1e6
    // A deadline that had passed when it was declared is missed whatever happens.
    if (columns.sloMs[w]! <= 0) columns.sloMs[w] = 1e-6
    recordedMs[w] = (workflow.lastFinish - workflow.arrivedAt) / 1e6
    for (const call of workflow.calls) {
      columns.stage[row] = call.stage
      columns.model[row] = call.model
      columns.promptTokens[row] = call.prompt
      if (call.output === 0) assumed.lengths += 1
      columns.outputTokens[row] = call.output > 0 ? call.output : Math.max(1, call.predicted)
      columns.predictedTokens[row] = Math.max(1, call.predicted)
      // Without parents a call came so long after its workflow; with parents, after the last of them, if they were over.
      const before = call.parents.reduce(
        (latest, { finishedAt }) => Math.max(latest, finishedAt),
        workflow.arrivedAt,
      )
      columns.toolGapMs[row] = before <= call.revealedAt ? (call.revealedAt - before) / 1e6 : 0
      columns.parentOffset[row] = edge
      for (const parent of call.parents) columns.parents[edge++] = parent.index
      row += 1
    }
  }
  columns.firstCall[workflows.length] = row
  columns.parentOffset[calls] = edge
  return { columns, workflows: workflows.length, calls, recordedMs, deadlineMs }
}
