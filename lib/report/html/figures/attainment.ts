import type { CallTable } from '../../result/call-table.ts'
import { attainment } from '../../result/distribution.ts'
import type { TuneDocument } from '../../result/schema.ts'
import type { DataTable, LineFigure, Series } from '../figure.ts'
import { share } from './alpha.ts'
import { boundCaption, boundSeries, isBound } from './bound.ts'

/** Named vertical lines at the SLO scales of the deadlines. */
export type Deadlines = readonly { x: number; label: string }[]

/** A run whose calls are known, by its name in figures. */
export interface DetailedRun {
  label: string
  table: CallTable
}

/** From 0.5 to 10, as fine as a screen shows. */
const SCALES = Array.from({ length: 191 }, (_, i) => (50 + 5 * i) / 100)
const CAPTION =
  'Share of all workflows that finish within the SLO scale times their base time; unfinished ones never do.'

/** The curves that a sweep keeps: the best alpha between both ends of the grid. */
export function sweepAttainment(document: TuneDocument, id: string): LineFigure {
  const { points, best } = document
  const shown = points.filter(
    ({ alpha }) => alpha === best.alpha || alpha === points[0]!.alpha || alpha === points.at(-1)!.alpha,
  )
  const ordered = [
    ...shown.filter(({ alpha }) => alpha === best.alpha),
    ...shown.filter(({ alpha }) => alpha !== best.alpha),
  ]
  const series = ordered.map(({ alpha, attainment: curve }): Series => {
    const name = alpha === best.alpha ? `α = ${alpha} (best)` : `α = ${alpha}`
    return { name, x: curve.map(([scale]) => scale), y: curve.map(([, met]) => met) }
  })
  const limit = boundSeries(points[0]!.bound)
  return figure(
    id,
    'SLO attainment of the best α and both ends of the grid',
    [...series, ...limit],
    deadlines([document.setup?.sloScale], [points[0]!.tenants]),
    true,
    boundCaption(limit),
  )
}

/** By run, or by run and tenant where there are several. */
export function runAttainment(runs: readonly DetailedRun[], rules: Deadlines, id: string): LineFigure {
  const series = runs.flatMap(({ label, table }) =>
    groups(table).map(({ tenant, rows }): Series => {
      const { latencyNs, baseNs } = table.workflows
      const y = attainment(pick(latencyNs, rows), pick(baseNs, rows), SCALES)
      return { name: nameOf(label, tenant, runs.length), x: SCALES, y }
    }),
  )
  const most = Math.max(...runs.map(({ table }) => table.tenants.length))
  const several = runs.some(({ table }) => groups(table).length > 1)
  const by = [...(runs.length > 1 ? ['policy'] : []), ...(several ? ['tenant'] : [])].join(' and ')
  return figure(
    id,
    `SLO attainment ${by === '' ? 'of the run' : `by ${by}`}`,
    series,
    rules,
    false,
    most > MOST_TENANTS ? ` Of up to ${most} tenants the ${MOST_TENANTS} largest of each run are shown.` : '',
  )
}

function figure(
  id: string,
  title: string,
  series: readonly Series[],
  rules: Deadlines,
  hasPoints: boolean,
  note = '',
): LineFigure {
  return {
    kind: 'line',
    id,
    title,
    caption: CAPTION + note,
    x: { label: 'SLO scale', unit: 'number' },
    y: { label: 'Workflows within it', unit: 'share', zero: true },
    series,
    ...(hasPoints ? { hasPoints } : { isStep: false }),
    rules,
  }
}

type Tenants = readonly { name: string; sloScale: number | null }[]

/** Of the runs of a figure: none where they differ, one, or one per tenant. */
export function deadlines(
  scales: readonly (number | undefined)[],
  tenants: readonly (Tenants | undefined)[],
): Deadlines {
  const own = tenants[0] ?? []
  const [scale] = scales
  if (scale === undefined || new Set(scales).size > 1) return []
  const key = (list: Tenants = []) => JSON.stringify(list.map((tenant) => [tenant.name, tenant.sloScale]))
  if (tenants.some((list) => key(list) !== key(own))) return []
  if (own.every((tenant) => tenant.sloScale === scale)) return [{ x: scale, label: 'deadline' }]
  return own.flatMap(({ name, sloScale: x }) => (x === null ? [] : [{ x, label: `deadline: ${name}` }]))
}

/** A row per SLO scale that people ask for. */
export function attainmentTable({ series: all }: LineFigure): DataTable {
  const series = all.filter((one) => !isBound(one))
  const scales = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]
  const known = scales.filter((scale) => series.every(({ x }) => x.includes(scale)))
  return {
    head: ['SLO scale', ...series.map(({ name }) => name)],
    rows: known.map((scale) => [String(scale), ...series.map(({ x, y }) => share(y[x.indexOf(scale)]))]),
  }
}

export function nameOf(label: string, tenant: string | undefined, runs: number): string {
  if (tenant === undefined) return label
  return runs > 1 ? `${label}: ${tenant}` : tenant
}

/** More tenants than this no figure shows apart. */
const MOST_TENANTS = 12

/** The workflows of each tenant, at most of the MOST_TENANTS largest; one group without a name where there is one. */
export function groups({ tenants, workflows }: CallTable): { tenant: string | undefined; rows: number[] }[] {
  const rows = tenants.map((): number[] => [])
  for (const [w, t] of workflows.tenant.entries()) rows[t]!.push(w)
  const present = tenants.flatMap((tenant, t) => (rows[t]!.length > 0 ? [{ tenant, rows: rows[t]! }] : []))
  if (present.length < 2) return present.map(({ rows: own }) => ({ tenant: undefined, rows: own }))
  const largest = new Set(present.toSorted((a, b) => b.rows.length - a.rows.length).slice(0, MOST_TENANTS))
  return present.filter((group) => largest.has(group))
}

export function pick(column: Float64Array, rows: readonly number[]): Float64Array {
  return Float64Array.from(rows, (row) => column[row]!)
}
