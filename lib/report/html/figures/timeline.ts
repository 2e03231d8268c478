import { type CallTable, workflowName } from '../../result/call-table.ts'
import { type Column, type EncodedColumn, encodeColumn } from '../../result/columns.ts'
import { assignLanes } from '../../result/lanes.ts'
import { count, duration, percent, significant } from '../../units.ts'
import type { DataTable, TIMELINE_COLUMNS, TimelineFigure } from '../figure.ts'
import { instanceName } from './load.ts'

export interface Timeline {
  figure: TimelineFigure
  columns: Record<keyof typeof TIMELINE_COLUMNS, EncodedColumn>
  data: DataTable
  /** What the picture shows, in words. */
  summary: string
}

/** Times of the page are whole ticks in 32 bits: 1 µs, or what fits the run. */
const MOST_TICKS = 2 ** 32 - 1

export function timeline(table: CallTable, id: string, highlight: number | undefined): Timeline | undefined {
  const { order, firstOf, lane, lanes } = assignLanes(table)
  if (order.length === 0) return undefined
  const { readyNs, leasedNs, firstTokenNs, finishedNs, instances } = table
  let from = Number.POSITIVE_INFINITY
  let to = 0
  for (const call of order) {
    from = Math.min(from, readyNs[call]!)
    to = Math.max(to, finishedNs[call]!)
  }
  const tickNs = Math.max(1000, (to - from) / MOST_TICKS)
  // Every time is rounded by itself, so that a length ends where the next begins.
  const tick = (ns: number) => Math.round((ns - from) / tickNs)
  const token = (call: number) => Math.max(leasedNs[call]!, firstTokenNs[call]!)
  const u32 = (value: (call: number) => number) => encodeColumn(Uint32Array.from(order, value))
  const workflowOf = new Uint32Array(table.stage.length)
  for (let w = 0; w + 1 < table.firstCall.length; w++)
    workflowOf.fill(w, table.firstCall[w]!, table.firstCall[w + 1]!)

  const rows = instances.map((_, i) => {
    let wait = 0
    let busy = 0
    for (let at = firstOf[i]!; at < firstOf[i + 1]!; at++) {
      const call = order[at]!
      wait += leasedNs[call]! - readyNs[call]!
      busy += finishedNs[call]! - leasedNs[call]!
    }
    const calls = firstOf[i + 1]! - firstOf[i]!
    return { calls, wait: calls === 0 ? 0 : wait / calls, running: busy / (to - from), most: lanes[i]! }
  })
  const unfinished = table.stage.length - order.length
  const left = unfinished > 0 ? ` ${count(unfinished)} calls that did not finish are left out.` : ''
  return {
    figure: {
      kind: 'timeline',
      id,
      title: 'Calls on every instance over time',
      caption: `Every call runs on a lane of its instance from its lease to its finish: prefill dark, decode light. Where more calls are in view than can be told apart, areas show how many run at once.${left}`,
      fromMs: from / 1e6,
      tickMs: tickNs / 1e6,
      stages: table.stages,
      instances: instances.map((_, i) => ({
        label: instanceName(table, i),
        calls: firstOf[i + 1]! - firstOf[i]!,
        lanes: lanes[i]!,
      })),
      workflowIds: table.workflowIds,
      calls: order.length,
      ...(highlight !== undefined && {
        highlight: { workflow: highlight, label: workflowName(table, highlight) },
      }),
    },
    columns: {
      workflow: u32((call) => workflowOf[call]!),
      position: u32((call) => call - table.firstCall[workflowOf[call]!]!),
      stage: encodeColumn(Uint16Array.from(order, (call) => table.stage[call]!)),
      lane: encodeColumn(lane as Column),
      promptTokens: u32((call) => table.promptTokens[call]!),
      outputTokens: u32((call) => table.outputTokens[call]!),
      leased: u32((call) => tick(leasedNs[call]!)),
      wait: u32((call) => tick(leasedNs[call]!) - tick(readyNs[call]!)),
      prefill: u32((call) => tick(token(call)) - tick(leasedNs[call]!)),
      decode: u32((call) => tick(finishedNs[call]!) - tick(token(call))),
    },
    data: {
      head: ['Instance', 'Calls', 'Share of calls', 'Mean running', 'Most at once', 'Mean wait'],
      rows: rows.map(({ calls, wait, running, most }, i) => [
        instanceName(table, i),
        count(calls),
        percent(calls / order.length),
        significant(running),
        count(most),
        duration(wait / 1e6),
      ]),
    },
    summary: summaryOf(rows, (to - from) / 1e6, order.length, (i) => instanceName(table, i)),
  }
}

function summaryOf(
  rows: readonly { calls: number; running: number; wait: number }[],
  lengthMs: number,
  calls: number,
  name: (i: number) => string,
): string {
  const most = rows.reduce((best, { running }, i) => (running > rows[best]!.running ? i : best), 0)
  const slowest = rows.reduce((best, { wait }, i) => (wait > rows[best]!.wait ? i : best), 0)
  const where = `${count(rows.length)} instance${rows.length > 1 ? 's' : ''}`
  return `${count(calls)} calls ran on ${where} in ${duration(lengthMs)}. Instance ${name(most)} ran the most at once on average, ${significant(rows[most]!.running)} calls; on instance ${name(slowest)} calls waited longest, ${duration(rows[slowest]!.wait / 1e6)} on average.`
}
