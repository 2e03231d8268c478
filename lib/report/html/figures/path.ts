import { type CallTable, callName, workflowName } from '../../result/call-table.ts'
import { criticalPath, workflowAt } from '../../result/critical-path.ts'
import { duration, percent } from '../../units.ts'
import type { DataTable, PathFigure, PathRow } from '../figure.ts'
import { instanceName } from './load.ts'

/** Calls beyond this are shown only where they are critical. */
const MOST_ROWS = 48

export interface ChosenPath {
  workflow: number
  figure: PathFigure
  data: DataTable
}

/** The workflow at the 95th percentile of latency, where its calls all finished. */
export function pathFigure(table: CallTable, id: string): ChosenPath | undefined {
  const workflow = workflowAt(table, 0.95)
  const path = workflow === undefined ? undefined : criticalPath(table, workflow)
  if (workflow === undefined || path === undefined) return undefined
  const name = workflowName(table, workflow)
  const arrival = table.workflows.arrivalNs[workflow]!
  const critical = new Set(path.map(({ call }) => call))
  const first = table.firstCall[workflow]!
  const size = table.firstCall[workflow + 1]! - first
  const calls = Array.from({ length: size }, (_, i) => first + i)
  const { readyNs, leasedNs, firstTokenNs, finishedNs } = table
  const chosen = (size > MOST_ROWS ? calls.filter((call) => critical.has(call)) : calls)
    .toSorted((a, b) => readyNs[a]! - readyNs[b]! || a - b)
    .slice(0, 4 * MOST_ROWS)
  const ms = (ns: number) => (ns - arrival) / 1e6
  const rows = chosen.map(
    (call): PathRow => ({
      name: `${table.stages[table.stage[call]!]} · ${callName(table, workflow, call)}`,
      instance: instanceName(table, table.instance[call]!),
      isCritical: critical.has(call),
      readyMs: ms(readyNs[call]!),
      leasedMs: ms(leasedNs[call]!),
      tokenMs: ms(Math.max(leasedNs[call]!, firstTokenNs[call]!)),
      finishedMs: ms(finishedNs[call]!),
    }),
  )

  const latency = table.workflows.latencyNs[workflow]!
  const parts = (['waitNs', 'prefillNs', 'decodeNs', 'gapNs'] as const).map((part) =>
    path.reduce((sum, call) => sum + call[part], 0),
  )
  const [wait, prefill, decode, gap] = parts.map((ns) => `${percent(ns / latency)}`)
  const left = size > MOST_ROWS ? ` Only the critical ones of its ${size} calls are shown.` : ''
  return {
    workflow,
    figure: {
      kind: 'path',
      id,
      title: `Critical path of workflow ${name}`,
      caption: `The workflow at the 95th percentile of latency, ${duration(latency / 1e6)} for ${size} calls. The ${path.length} critical calls, marked ▸, set it: each is the parent that finished last. Along them ${wait} of the time is waiting, ${prefill} prefill, ${decode} decode, ${gap} tools.${left}`,
      rows,
    },
    data: {
      head: ['Critical call', 'Instance', 'Tool before it', 'Wait', 'Prefill', 'Decode', 'Finished after'],
      rows: path.map(({ call, gapNs, waitNs, prefillNs, decodeNs }) => [
        `${table.stages[table.stage[call]!]} · ${callName(table, workflow, call)}`,
        instanceName(table, table.instance[call]!),
        duration(gapNs / 1e6),
        duration(waitNs / 1e6),
        duration(prefillNs / 1e6),
        duration(decodeNs / 1e6),
        duration(ms(finishedNs[call]!)),
      ]),
    },
  }
}
