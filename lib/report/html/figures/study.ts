import type { StudyDocument } from '../../result/schema.ts'
import type { DotFigure, LineFigure, Series } from '../figure.ts'

type Cell = StudyDocument['cells'][number]
type Mean = Cell['p95Ms']

/** Lines that dashes and markers tell apart. */
const MOST_SERIES = 6

/** Cells of one cluster and one workload. */
export interface Setting {
  name: string
  cells: Cell[]
}

export function studySettings({ cells }: StudyDocument): Setting[] {
  const found = new Map<string, Cell[]>()
  for (const cell of cells) {
    const name = `${cell.workload} on ${cell.cluster}`
    const own = found.get(name)
    if (own === undefined) found.set(name, [cell])
    else own.push(cell)
  }
  return [...found].map(([name, own]) => ({ name, cells: own }))
}

/** What a figure shows of a cell. */
interface Metric {
  label: string
  unit: 'ms' | 'share'
  of(cell: Cell): Mean | undefined
  /** Smaller is better. */
  cost(cell: Cell): number
}

const P95: Metric = { label: 'P95 latency', unit: 'ms', of: ({ p95Ms }) => p95Ms, cost: costOf }

function attainmentAt(scale: number): Metric {
  const of = ({ attainment }: Cell) => attainment.find((point) => point.scale === scale)
  return {
    label: `Within SLO scale ${scale}`,
    unit: 'share',
    of,
    cost: (cell) => -(of(cell)?.mean ?? Number.NEGATIVE_INFINITY),
  }
}

/** Infinite where workflows did not finish. */
export function costOf({ p95Ms }: Cell): number {
  return p95Ms.mean ?? Number.POSITIVE_INFINITY
}

/** Of equals the first. */
export function bestOf(cells: readonly Cell[], cost: Metric['cost'] = costOf): Cell | undefined {
  let best: Cell | undefined
  for (const cell of cells) if (best === undefined || cost(cell) < cost(best)) best = cell
  return best
}

/** A numeric axis of the grid with more than one value. */
interface GridAxis {
  name: string
  label: string
  values: number[]
  of(cell: Cell): number | null
}

function axesOf(cells: readonly Cell[]): GridAxis[] {
  const names = [...new Set(cells.flatMap(({ parameters }) => Object.keys(parameters)))]
  const all = [
    { name: 'rate', label: 'Workflows per second', of: ({ rate }: Cell) => rate },
    ...names.map((name) => ({ name, label: name, of: ({ parameters }: Cell) => parameters[name] ?? null })),
  ]
  return all
    .map((axis) => ({ ...axis, values: distinct(cells.map(axis.of).filter((value) => value !== null)) }))
    .filter(({ values }) => values.length > 1)
}

export function distinct<T>(values: readonly T[]): T[] {
  return [...new Set(values)]
}

/** The curves of a setting: a latency and an attainment along every numeric axis, attainment against SLO scale. */
export function settingFigures(setting: Setting): LineFigure[] {
  const { cells } = setting
  const axes = axesOf(cells)
  const scales = cells[0]!.attainment.map(({ scale }) => scale)
  const metrics = [P95, ...(scales.length > 0 ? [attainmentAt(scales[Math.floor(scales.length / 2)]!)] : [])]
  return [
    ...axes.flatMap((axis) => metrics.map((metric) => overAxis(setting, axis, axes, metric))),
    ...(scales.length > 1 ? spread(distinct(cells.map(({ rate }) => rate)), 3) : []).map((rate) =>
      overScales(setting, rate),
    ),
  ].filter(({ series }) => series.length > 0)
}

/** A line per policy, and along a parameter per policy and rate. */
function overAxis(setting: Setting, axis: GridAxis, axes: readonly GridAxis[], metric: Metric): LineFigure {
  const { cells } = setting
  const policies = distinct(cells.map(({ policy }) => policy))
  const rates = axis.name === 'rate' ? [undefined] : distinct(cells.map(({ rate }) => rate))
  const room = Math.max(1, Math.floor(MOST_SERIES / Math.min(policies.length, MOST_SERIES)))
  const lines = policies.flatMap((policy) =>
    spread(rates, room).map((rate) => {
      const own = cells.filter((cell) => cell.policy === policy && (rate === undefined || cell.rate === rate))
      const points = axis.values.map((value) =>
        bestOf(
          own.filter((cell) => axis.of(cell) === value),
          metric.cost,
        ),
      )
      const name = [
        ...(policies.length > 1 || rates.length === 1 ? [policy] : []),
        ...(rates.length > 1 ? [rateText(rate ?? null)] : []),
      ].join(', ')
      return { name, points }
    }),
  )
  const others = axes.filter(({ name }) => name !== axis.name && name !== 'rate').map(({ name }) => name)
  const chosen =
    others.length === 0
      ? ''
      : ` At every point ${others.join(' and ')} ${others.length > 1 ? 'are' : 'is'} at the best value of the grid.`
  const shown = fewest(lines, metric.cost)
  const left = lines.length - shown.length + (rates.length > room ? 1 : 0)
  return {
    kind: 'line',
    id: '',
    title: `${metric.label} against ${axis.name === 'rate' ? 'the rate' : axis.name}: ${setting.name}`,
    caption: `${over(cells)}${chosen}${left > 0 ? ` The best policies, and rates spread over the grid: at most ${MOST_SERIES} lines.` : ''}`,
    x: { label: axis.label, unit: 'number' },
    y: { label: metric.label, unit: metric.unit, ...(metric.unit === 'share' && { zero: true }) },
    series: shown.map(({ name, points }) =>
      seriesOf(
        name,
        axis.values,
        points.map((cell) => cell && metric.of(cell)),
      ),
    ),
    hasPoints: true,
  }
}

/** A line per policy, with the parameters of the least P95. */
function overScales({ name, cells }: Setting, rate: number | null): LineFigure {
  const own = cells.filter((cell) => cell.rate === rate)
  const scales = cells[0]!.attainment.map(({ scale }) => scale)
  const lines = distinct(own.map(({ policy }) => policy)).map((policy) => {
    const cell = bestOf(own.filter((other) => other.policy === policy))!
    return { name: policy, points: [cell] }
  })
  const shown = fewest(lines, costOf)
  const tuned = Object.keys(cells[0]!.parameters).length > 0
  return {
    kind: 'line',
    id: '',
    title: `SLO attainment at ${rateText(rate)}: ${name}`,
    caption: `Share of all workflows that finish within the SLO scale times their base time. ${over(own)}${tuned ? ' Parameters are those of the least P95.' : ''}${shown.length < lines.length ? ` The best ${MOST_SERIES} policies.` : ''}`,
    x: { label: 'SLO scale', unit: 'number' },
    y: { label: 'Workflows within it', unit: 'share', zero: true },
    series: shown.map(({ name: policy, points: [cell] }) => seriesOf(policy, scales, cell!.attainment)),
    hasPoints: true,
  }
}

/** Where there is one rate: every policy's P95 in every setting, parameters at their best. */
export function policyFigure(settings: readonly Setting[]): DotFigure | undefined {
  const cells = settings.flatMap((setting) => setting.cells)
  if (distinct(cells.map(({ rate }) => rate)).length > 1) return undefined
  const rows = settings.flatMap(({ name, cells: own }) =>
    distinct(own.map(({ policy }) => policy)).flatMap((policy) => {
      const { p95Ms } = bestOf(own.filter((cell) => cell.policy === policy))!
      if (typeof p95Ms.mean !== 'number') return []
      const interval = p95Ms.ci95 && { low: p95Ms.ci95[0], high: p95Ms.ci95[1] }
      return [{ name: policy, group: name, x: p95Ms.mean, ...interval }]
    }),
  )
  if (rows.length < 2) return undefined
  return {
    kind: 'dot',
    id: '',
    title: 'P95 latency by policy',
    caption: `Further left is better. ${over(cells)}`,
    x: { label: 'P95 latency', unit: 'ms', zero: true },
    rows,
  }
}

function seriesOf(name: string, x: readonly number[], means: readonly (Mean | undefined)[]): Series {
  const y = means.map((point) => point?.mean ?? null)
  if (!means.some((point) => point?.ci95)) return { name, x, y }
  return {
    name,
    x,
    y,
    low: means.map((point) => point?.ci95?.[0] ?? null),
    high: means.map((point) => point?.ci95?.[1] ?? null),
  }
}

function over(cells: readonly Cell[]): string {
  const most = Math.max(...cells.map(({ seeds }) => seeds))
  if (most < 2) return 'One seed: no intervals.'
  return `Means over ${most} seeds with 95 % Student-t intervals. The seeds are common to all, so differences are surer than the intervals look.`
}

export function rateText(rate: number | null): string {
  return rate === null ? 'the default arrivals' : `${rate}/s`
}

interface Line {
  name: string
  points: (Cell | undefined)[]
}

/** The MOST_SERIES lines of the least cost over all their points, in their order. */
function fewest(lines: readonly Line[], cost: Metric['cost']): Line[] {
  if (lines.length <= MOST_SERIES) return [...lines]
  const total = ({ points }: Line) =>
    points.reduce((sum, cell) => sum + (cell === undefined ? Number.NaN : cost(cell)), 0)
  const kept = new Set(lines.toSorted((a, b) => compareCosts(total(a), total(b))).slice(0, MOST_SERIES))
  return lines.filter((line) => kept.has(line))
}

/** What is not a number last. */
function compareCosts(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b))
  return a === b ? 0 : a < b ? -1 : 1
}

/** At most `most` of a list, the last among them, evenly. */
function spread<T>(list: readonly T[], most: number): T[] {
  if (list.length <= most) return [...list]
  return Array.from({ length: most }, (_, k) => list[Math.round(((k + 1) * list.length) / most) - 1]!)
}
