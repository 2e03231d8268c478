import { type CallTable, callName, isFinished, workflowName } from './result/call-table.ts'
import { assignLanes } from './result/lanes.ts'

/** Texts of about this many characters are handed on at once. */
const CHUNK = 1 << 16

/**
 * A run as Chrome trace events in JSON, which Perfetto and chrome://tracing open: one process per instance, one thread
 * per lane of calls that overlap no other, one slice per finished call with its prefill and decode inside, one flow from
 * every parent to its child. Times are µs with the nanoseconds as decimals.
 */
export function* traceEvents(table: CallTable): Generator<string, void, undefined> {
  let text = '{"displayTimeUnit":"ms","traceEvents":['
  let isFirst = true
  for (const event of events(table)) {
    text += `${isFirst ? '' : ','}\n${JSON.stringify(event)}`
    isFirst = false
    if (text.length < CHUNK) continue
    yield text
    text = ''
  }
  yield `${text}\n]}\n`
}

interface TraceEvent {
  ph: 'M' | 'X' | 's' | 'f'
  pid: number
  tid: number
  name: string
  [field: string]: unknown
}

function* events(table: CallTable): Generator<TraceEvent, void, undefined> {
  const { instances, stages, readyNs, leasedNs, firstTokenNs, finishedNs } = table
  const { order, firstOf, lane, lanes } = assignLanes(table)
  // Viewers take process 0 for their own, so both count from 1.
  for (const [i, { label }] of instances.entries()) {
    const pid = i + 1
    yield { ph: 'M', pid, tid: 0, name: 'process_name', args: { name: `${i} ${label}` } }
    yield { ph: 'M', pid, tid: 0, name: 'process_sort_index', args: { sort_index: i } }
    for (let l = 0; l < lanes[i]!; l++) {
      yield { ph: 'M', pid, tid: l + 1, name: 'thread_name', args: { name: `slot ${l}` } }
      yield { ph: 'M', pid, tid: l + 1, name: 'thread_sort_index', args: { sort_index: l } }
    }
  }

  const workflowOf = workflows(table)
  const trackOf = new Uint16Array(table.stage.length)
  for (const [at, call] of order.entries()) trackOf[call] = lane[at]! + 1
  for (let i = 0; i < instances.length; i++) {
    for (let at = firstOf[i]!; at < firstOf[i + 1]!; at++) {
      const call = order[at]!
      const workflow = workflowOf[call]!
      const track = { pid: i + 1, tid: trackOf[call]! }
      const leased = leasedNs[call]!
      const token = Math.max(leased, firstTokenNs[call]!)
      yield {
        ph: 'X',
        ...track,
        ...span(leased, finishedNs[call]!),
        name: stages[table.stage[call]!]!,
        cat: 'call',
        args: {
          workflow: workflowName(table, workflow),
          call: callName(table, workflow, call),
          promptTokens: table.promptTokens[call],
          outputTokens: table.outputTokens[call],
          waitMs: (leased - readyNs[call]!) / 1e6,
        },
      }
      if (token > leased) yield { ph: 'X', ...track, ...span(leased, token), name: 'prefill', cat: 'phase' }
      if (finishedNs[call]! > token)
        yield { ph: 'X', ...track, ...span(token, finishedNs[call]!), name: 'decode', cat: 'phase' }
      yield* flows(table, workflow, call, trackOf)
    }
  }
}

/** From each parent that finished to this call. A flow ends inside slices: the parent's last nanosecond, the call's first. */
function* flows(
  table: CallTable,
  workflow: number,
  call: number,
  trackOf: Uint16Array,
): Generator<TraceEvent, void, undefined> {
  const { firstCall, parentOffset, parents, instance, leasedNs, finishedNs } = table
  for (let id = parentOffset[call]!; id < parentOffset[call + 1]!; id++) {
    const parent = firstCall[workflow]! + parents[id]!
    if (!isFinished(table, parent)) continue
    const flow = { name: 'needs', cat: 'workflow', id }
    yield {
      ph: 's',
      pid: instance[parent]! + 1,
      tid: trackOf[parent]!,
      ts: micros(Math.max(leasedNs[parent]!, finishedNs[parent]! - 1)),
      ...flow,
    }
    yield {
      ph: 'f',
      bp: 'e',
      pid: instance[call]! + 1,
      tid: trackOf[call]!,
      ts: micros(leasedNs[call]!),
      ...flow,
    }
  }
}

function workflows({ firstCall, stage }: CallTable): Uint32Array {
  const of = new Uint32Array(stage.length)
  for (let w = 0; w + 1 < firstCall.length; w++) of.fill(w, firstCall[w]!, firstCall[w + 1]!)
  return of
}

function span(fromNs: number, toNs: number): { ts: number; dur: number } {
  return { ts: micros(fromNs), dur: micros(toNs - fromNs) }
}

/** The nearest double to the exact decimal; it prints with at most three decimals below 2^53 ns. */
function micros(ns: number): number {
  return ns / 1000
}
