import type { CompareDocument } from '../../result/schema.ts'
import { percent } from '../../units.ts'
import type { DataTable, DotFigure, LineFigure } from '../figure.ts'
import { plain, time } from './alpha.ts'

type Row = CompareDocument['rows'][number]

/** Rows that differ in their policy only. */
export interface Setting {
  name: string
  rows: Row[]
}

export function settings({ rows }: CompareDocument): Setting[] {
  const found = new Map<string, Row[]>()
  for (const row of rows) {
    const name = `${row.workload}, ${row.cluster}, load ${row.load}, ${row.knowledge}, ${row.feedback}`
    const own = found.get(name)
    if (own === undefined) found.set(name, [row])
    else own.push(row)
  }
  return [...found].map(([name, own]) => ({ name, rows: own }))
}

/** The SLO scale that 95 % of the workflows need, by setting and policy. */
export function requiredFigure(groups: readonly Setting[], id: string): DotFigure | undefined {
  const rows = groups.flatMap(({ name, rows: own }) =>
    own.flatMap(({ policy, req95 }) =>
      typeof req95 === 'number' ? [{ name: policy, group: name, x: req95 }] : [],
    ),
  )
  if (rows.length === 0) return undefined
  return {
    kind: 'dot',
    id,
    title: 'SLO scale that 95 % of the workflows need',
    caption: 'Req95: the ceil(0.95 n)-th smallest latency over base. Further left is better.',
    x: { label: 'Req95', unit: 'number', zero: true },
    rows,
  }
}

export function settingAttainment({ name, rows }: Setting, id: string): LineFigure | undefined {
  const series = rows.flatMap(({ policy, attainment }) =>
    attainment === undefined
      ? []
      : [{ name: policy, x: attainment.map(([scale]) => scale), y: attainment.map(([, share]) => share) }],
  )
  if (series.length === 0) return undefined
  return {
    kind: 'line',
    id,
    title: `SLO attainment by policy: ${name}`,
    caption: 'Share of all workflows that finish within the SLO scale times their base time.',
    x: { label: 'SLO scale', unit: 'number' },
    y: { label: 'Workflows within it', unit: 'share', zero: true },
    series,
    hasPoints: true,
  }
}

export function compareTable({ rows }: CompareDocument): DataTable {
  return {
    head: ['Policy', 'Workload', 'Cluster', 'Load', 'Knowledge', 'Feedback', 'Req95', 'Req99', 'P95', 'Mean'],
    rows: rows.map((row) => [
      row.policy,
      row.workload,
      row.cluster,
      String(row.load),
      row.knowledge,
      row.feedback,
      plain(row.req95),
      plain(row.req99),
      time(row.p95Ms),
      time(row.meanMs),
    ]),
  }
}

export function attainmentRows({ series }: LineFigure): DataTable {
  return {
    head: ['SLO scale', ...series.map(({ name }) => name)],
    rows: series[0]!.x.map((scale, k) => [
      String(scale),
      ...series.map(({ y }) => percent(y[k] ?? Number.NaN)),
    ]),
  }
}
