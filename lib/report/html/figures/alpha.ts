import type { TuneDocument } from '../../result/schema.ts'
import { duration, percent, significant } from '../../units.ts'
import type { DataTable, LineFigure, Series, Unit } from '../figure.ts'
import { boundColumns } from './bound.ts'

type Point = TuneDocument['points'][number]

interface Shown {
  label: string
  unit: Unit
  value: (point: Point) => number | null
}

/** The objective over alpha, with intervals where the sweep has them. */
export function alphaFigure(document: TuneDocument, id: string): LineFigure {
  const { points, best, setup } = document
  const { label, unit, value } = objectiveOf(document.objective)
  const hasBand = label === P95 && points.some(({ ci95Ms }) => ci95Ms !== null)
  const series: Series = {
    name: label,
    x: points.map(({ alpha }) => alpha),
    y: points.map(value),
    ...(hasBand && {
      low: points.map(({ ci95Ms }) => ci95Ms?.[0] ?? null),
      high: points.map(({ ci95Ms }) => ci95Ms?.[1] ?? null),
    }),
  }
  const at = points.find(({ alpha }) => alpha === best.alpha)
  const y = at && value(at)
  const runs = setup?.replications
  const over = runs === undefined || runs < 2 ? '' : `Means over ${runs} common streams of arrivals. `
  const band = hasBand ? 'The band is the 95 % Student-t interval of each mean. ' : ''
  const others = best.indistinguishable.length
  const equal = `Paired differences tell the best α from all others but ${others === 0 ? 'none' : best.indistinguishable.join(', ')}.`
  return {
    kind: 'line',
    id,
    title: `${label} against the dispatch weight α`,
    caption: `${over}${band}${runs !== undefined && runs < 2 ? 'One stream of arrivals tells no α from another.' : equal}`,
    x: { label: 'Dispatch weight α', unit: 'number' },
    y: { label, unit },
    series: [series],
    hasPoints: true,
    ...(typeof y === 'number' && { marks: [{ x: best.alpha, y, label: `best: α = ${best.alpha}` }] }),
  }
}

export function alphaTable({ points, best }: TuneDocument): DataTable {
  const note = (alpha: number) => {
    if (alpha === best.alpha) return 'best'
    return best.indistinguishable.includes(alpha) ? 'not distinguishable' : ''
  }
  const bounds = boundColumns(points)
  return {
    head: [
      'α',
      'P95',
      '95 % interval',
      'P99',
      'mean',
      'SLO scale 95',
      'workflows/s',
      ...bounds.map(([name]) => name),
      'against the best',
    ],
    rows: points.map((point) => [
      String(point.alpha),
      time(point.p95Ms),
      point.ci95Ms === null ? '–' : `${time(point.ci95Ms[0])} – ${time(point.ci95Ms[1])}`,
      time(point.p99Ms),
      time(point.meanMs),
      plain(point.sloScale95),
      plain(point.throughputPerS),
      ...bounds.map(([, of]) => of(point)),
      note(point.alpha),
    ]),
  }
}

export const time = (ms: number | null | undefined): string => duration(ms ?? Number.POSITIVE_INFINITY)
export const plain = (value: number | null | undefined): string =>
  significant(value ?? Number.POSITIVE_INFINITY)
export const share = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : percent(value)

const P95 = 'P95 latency'

function objectiveOf(name: string): Shown {
  const scale = /^attainment@(.+)$/.exec(name)?.[1]
  if (scale !== undefined) {
    const value = ({ attainment }: Point) => attainment.find(([at]) => at === Number(scale))?.[1] ?? null
    return { label: `Attainment at SLO scale ${scale}`, unit: 'share', value }
  }
  if (name === 'p99') return { label: 'P99 latency', unit: 'ms', value: ({ p99Ms }) => p99Ms }
  if (name === 'mean') return { label: 'Mean latency', unit: 'ms', value: ({ meanMs }) => meanMs }
  if (name === 'sloScale95')
    return { label: '95 % SLO scale', unit: 'number', value: ({ sloScale95 }) => sloScale95 }
  return { label: P95, unit: 'ms', value: ({ p95Ms }) => p95Ms }
}
