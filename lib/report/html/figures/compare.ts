import type { CompareDocument } from '../../result/schema.ts'
import type { DataTable, DotFigure, LineFigure } from '../figure.ts'
import { plain, share, time } from './alpha.ts'
import { boundCaption, boundColumns, boundSeries, isBound } from './bound.ts'

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
  const limits = groups.flatMap(({ name, rows: own }) => {
    const x = own[0]!.bound?.bound95
    return typeof x === 'number' ? [{ group: name, x, label: 'no scheduler below' }] : []
  })
  const note = limits.length > 0 ? ' Dashed: no scheduler is below it (certified lower bound).' : ''
  return {
    kind: 'dot',
    id,
    title: 'SLO scale that 95 % of the workflows need',
    caption: `Req95: the ceil(0.95 n)-th smallest latency over base. Further left is better.${note}`,
    x: { label: 'Req95', unit: 'number', zero: true },
    rows,
    ...(limits.length > 0 && { limits }),
  }
}

/** Up to the scale from which on no curve rises any more. */
export function settingAttainment({ name, rows }: Setting, id: string): LineFigure | undefined {
  const curves = rows.flatMap(({ policy, attainment }) =>
    attainment === undefined || attainment.length === 0 ? [] : [{ policy, attainment }],
  )
  if (curves.length === 0) return undefined
  const flat = (curve: readonly (readonly [number, number])[]) =>
    curve.findIndex(([, met]) => met === curve.at(-1)![1])
  const shown = Math.max(...curves.map(({ attainment }) => flat(attainment))) + 2
  const series = curves.map(({ policy, attainment }) => {
    const points = attainment.slice(0, shown)
    return { name: policy, x: points.map(([scale]) => scale), y: points.map(([, met]) => met) }
  })
  const limit = boundSeries(rows[0]!.bound)
  return {
    kind: 'line',
    id,
    title: `SLO attainment by policy: ${name}`,
    caption: `Share of all workflows that finish within the SLO scale times their base time.${boundCaption(limit)}`,
    x: { label: 'SLO scale', unit: 'number' },
    y: { label: 'Workflows within it', unit: 'share', zero: true },
    series: [...series, ...limit],
    hasPoints: true,
  }
}

export function compareTable({ rows }: CompareDocument): DataTable {
  const settings = (
    [
      ['Workload', (row) => row.workload],
      ['Cluster', (row) => row.cluster],
      ['Load', (row) => String(row.load)],
      ['Knowledge', (row) => row.knowledge],
      ['Feedback', (row) => row.feedback],
    ] as [string, (row: Row) => string][]
  ).filter(([, of]) => new Set(rows.map(of)).size > 1)
  const plan = (at: 'p50' | 'p99') => (row: Row) =>
    typeof row.planUs?.[at] === 'number' ? time(row.planUs[at] / 1000) : ABSENT
  const metrics = (
    [
      ['Req95', (row) => number(row.req95, plain)],
      ['Req99', (row) => number(row.req99, plain)],
      ['Mean', (row) => number(row.meanMs, time)],
      ['P95', (row) => number(row.p95Ms, time)],
      ['P99', (row) => number(row.p99Ms, time)],
      ['Workflows/s', (row) => number(row.throughputPerS, plain)],
      ['Plan P50', plan('p50')],
      ['Plan P99', plan('p99')],
    ] as [string, (row: Row) => string][]
  ).filter(([, of]) => rows.some((row) => of(row) !== ABSENT))
  const columns: [string, (row: Row) => string][] = [
    ['Policy', (row) => row.policy],
    ...settings,
    ...metrics,
    ...boundColumns(rows),
  ]
  return {
    head: columns.map(([name]) => name),
    rows: rows.map((row) => columns.map(([, of]) => of(row))),
  }
}

const ABSENT = '–'

/** null is infinite; what a row does not hold is a dash. */
function number(value: number | null | undefined, write: (value: number | null) => string): string {
  return value === undefined ? ABSENT : write(value)
}

export function attainmentRows({ series: all }: LineFigure): DataTable {
  const series = all.filter((one) => !isBound(one))
  return {
    head: ['SLO scale', ...series.map(({ name }) => name)],
    rows: series[0]!.x.map((scale, k) => [String(scale), ...series.map(({ y }) => share(y[k]))]),
  }
}
