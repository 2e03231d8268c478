import { distribution } from '../../result/distribution.ts'
import type { DataTable, LineFigure, Series } from '../figure.ts'
import { time } from './alpha.ts'
import { type DetailedRun, groups, nameOf, pick } from './attainment.ts'

/** More steps than this no screen shows. */
const STEPS = 400

interface Group {
  name: string
  latencyMs: Float64Array
}

export function latencyFigure(runs: readonly DetailedRun[], id: string): LineFigure {
  const series = groupsOf(runs).map(
    ({ name, latencyMs }): Series => ({ name, ...distribution(latencyMs, STEPS) }),
  )
  return {
    kind: 'line',
    id,
    title: 'Distribution of workflow latency',
    caption: 'From the arrival of a workflow to the finish of its last call, waiting and tool time included.',
    x: { label: 'Latency', unit: 'ms' },
    y: { label: 'Share of workflows', unit: 'share', zero: true },
    series,
    isStep: true,
  }
}

/** Upper empirical quantiles, as everywhere: the ceil(q × n)-th smallest. */
export function latencyTable(runs: readonly DetailedRun[]): DataTable {
  const quantiles = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1]
  const columns = groupsOf(runs).map(({ name, latencyMs }) => ({ name, sorted: latencyMs.sort() }))
  return {
    head: ['Quantile', ...columns.map(({ name }) => name)],
    rows: quantiles.map((q) => [
      q === 1 ? 'largest' : `P${100 * q}`,
      ...columns.map(({ sorted }) => time(sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)])),
    ]),
  }
}

function groupsOf(runs: readonly DetailedRun[]): Group[] {
  return runs.flatMap(({ label, table }) =>
    groups(table).map(({ tenant, rows }) => ({
      name: nameOf(label, tenant, runs.length),
      latencyMs: pick(table.workflows.latencyNs, rows).map((ns) => ns / 1e6),
    })),
  )
}
