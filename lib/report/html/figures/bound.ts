import type { BoundDocument } from '../../result/schema.ts'
import { over } from '../../units.ts'
import type { Series } from '../figure.ts'

export const BOUND_NAME = 'no scheduler above'
export const BOUND_CAPTION = ` “${BOUND_NAME}”: no scheduler has 95, 99 and 100 % of the workflows within smaller scales than these (certified lower bound).`
export const REFERENCE_NAME = 'clairvoyant search'
export const REFERENCE_CAPTION = ` “${REFERENCE_NAME}”: reached by searches that know the future, one for each share; not optimal.`

const SHARES = [0.95, 0.99, 1]

/** At what scales the limit of attainment is known, and what a search reached. */
export function boundSeries(bound: BoundDocument | undefined): Series[] {
  if (bound === undefined) return []
  const { reference95, reference99, reference100 } = bound
  return [
    points(BOUND_NAME, [bound.bound95, bound.bound99, bound.bound100]),
    points(REFERENCE_NAME, [reference95, reference99, reference100]),
  ].filter(({ x }) => x.length > 0)
}

function points(name: string, scales: readonly (number | null | undefined)[]): Series {
  const known = scales.flatMap((x, i) => (typeof x === 'number' ? [{ x, y: SHARES[i]! }] : []))
  return { name, x: known.map(({ x }) => x), y: known.map(({ y }) => y) }
}

export function isBound({ name }: { name: string }): boolean {
  return name === BOUND_NAME || name === REFERENCE_NAME
}

export function boundCaption(series: readonly Series[]): string {
  const has = (wanted: string) => series.some(({ name }) => name === wanted)
  return `${has(BOUND_NAME) ? BOUND_CAPTION : ''}${has(REFERENCE_NAME) ? REFERENCE_CAPTION : ''}`
}

type Bounded = { bound?: BoundDocument | undefined }

/** Columns of ratios to the bound, for tables; empty where no row has one. */
export function boundColumns<Row extends Bounded>(rows: readonly Row[]): [string, (row: Row) => string][] {
  if (rows.every(({ bound }) => bound === undefined)) return []
  const ratio = (at: 'over95' | 'over99' | 'over100') => (row: Row) => over(row.bound?.[at])
  return [
    ['Req95 / bound', ratio('over95')],
    ['Req99 / bound', ratio('over99')],
    ['Largest / bound', ratio('over100')],
  ]
}
