import type { StudyDocument } from '../result/schema.ts'
import { count } from '../units.ts'
import type { Fact } from './facts.ts'
import type { DataTable, DotFigure, LineFigure } from './figure.ts'
import { plain, share, time } from './figures/alpha.ts'
import {
  bestOf,
  distinct,
  policyFigure,
  rateText,
  type Setting,
  settingFigures,
  studySettings,
} from './figures/study.ts'
import type { PageFigure, PageSection } from './report.ts'

type Cell = StudyDocument['cells'][number]

/** Settings with figures; a page of a hundred figures answers nothing. */
const MOST_SETTINGS = 12
const MOST_ROWS = 400

/** The study as a whole, then each cluster with each workload. `next`: ids of figures. */
export function studySections(document: StudyDocument, next: () => string): PageSection[] {
  const settings = studySettings(document)
  const overview = policyFigure(settings.slice(0, MOST_SETTINGS))
  const shown = settings
    .slice(0, MOST_SETTINGS)
    .map((setting) => ({ setting, figures: settingFigures(setting) }))
    .filter(({ figures }) => figures.length > 0)
  const { runs, doneRuns } = document
  const rest = runs - doneRuns
  const missing = rest === 0 ? '' : ` ${count(rest)} runs are missing: what is shown is without them.`
  const hidden =
    settings.length > MOST_SETTINGS
      ? ` Figures show the first ${MOST_SETTINGS} of ${settings.length} pairs of cluster and workload.`
      : ''
  return [
    {
      title: 'The study',
      text: [`${count(doneRuns)} of ${count(runs)} runs are finished.${missing}${hidden}`],
      facts: studyFacts(document),
      tables: [{ title: 'Every policy at its best parameters', data: bestTable(settings) }],
      figures:
        overview === undefined ? [] : [{ figure: { ...overview, id: next() }, data: dotTable(overview) }],
    },
    ...shown.map(({ setting, figures }) => ({
      title: setting.name,
      text: findings(setting),
      facts: [],
      tables: [],
      figures: figures.map(
        (figure): PageFigure => ({ figure: { ...figure, id: next() }, data: lineTable(figure) }),
      ),
    })),
  ]
}

function studyFacts({ id, version, cells, seeds, options }: StudyDocument): Fact[] {
  const all = (of: (cell: Cell) => string) => distinct(cells.map(of)).join(', ')
  const names = distinct(cells.flatMap(({ parameters }) => Object.keys(parameters)))
  const given = Object.entries(options).map(
    ([name, value]) => `${name} = ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return [
    ['Study', `${id}, laxity ${version}`],
    ['Clusters', all(({ cluster }) => cluster)],
    ['Workloads', all(({ workload }) => workload)],
    ['Arrivals', all(({ rate }) => rateText(rate))],
    ['Policies', all(({ policy }) => policy)],
    ...names.map((name): Fact => [name, all(({ parameters }) => String(parameters[name]))]),
    [
      'Seeds',
      `${seeds.length > 12 ? `${count(seeds.length)} from ${seeds[0]} to ${seeds.at(-1)}` : seeds.join(', ')}, the same in every cell`,
    ],
    ['Options', given.length === 0 ? 'the defaults of laxity simulate' : given.join(', ')],
  ]
}

/** By rate: which policy has the least P95. */
function findings({ cells }: Setting): string[] {
  const rates = distinct(cells.map(({ rate }) => rate))
  const best = rates.map((rate) => ({ rate, cell: bestOf(cells.filter((cell) => cell.rate === rate))! }))
  const finite = best.filter(({ cell }) => typeof cell.p95Ms.mean === 'number')
  if (finite.length === 0) return ['Under no policy did every workflow finish.']
  const said = finite.length <= 3 ? finite : [finite[0]!, finite.at(-1)!]
  return [
    said
      .map(
        ({ rate, cell }) =>
          `At ${rateText(rate)} the least mean P95 is ${time(cell.p95Ms.mean)}, under ${cell.policy}${parameterText(cell, cells)}.`,
      )
      .join(' '),
  ]
}

/** Whether another value of a parameter gives another P95: some policies do not read it. */
function matters(name: string, cell: Cell, cells: readonly Cell[]): boolean {
  const { rate, policy, parameters, p95Ms } = cell
  const rest = Object.keys(parameters).filter((other) => other !== name)
  return cells.some(
    (other) =>
      other.p95Ms.mean !== p95Ms.mean &&
      other.rate === rate &&
      other.policy === policy &&
      rest.every((key) => other.parameters[key] === parameters[key]),
  )
}

function parameterText(cell: Cell, cells: readonly Cell[]): string {
  const list = Object.entries(cell.parameters)
    .filter(([name]) => matters(name, cell, cells))
    .map(([name, value]) => `${name} = ${value}`)
  return list.length === 0 ? '' : ` with ${list.join(', ')}`
}

function bestTable(settings: readonly Setting[]): DataTable {
  const settingOf = new Map(settings.flatMap(({ cells: own }) => own.map((cell) => [cell, own] as const)))
  const cells = settings.flatMap(({ cells: own }) => {
    const groups = new Map<string, Cell[]>()
    for (const cell of own) {
      const key = JSON.stringify([cell.rate, cell.policy])
      const group = groups.get(key)
      if (group === undefined) groups.set(key, [cell])
      else group.push(cell)
    }
    return [...groups.values()].map((group) => bestOf(group)!)
  })
  const names = distinct(cells.flatMap(({ parameters }) => Object.keys(parameters)))
  const scales = cells[0]?.attainment.map(({ scale }) => scale) ?? []
  const varying = (
    [
      ['Workload', ({ workload }) => workload],
      ['Cluster', ({ cluster }) => cluster],
      ['Arrivals', ({ rate }) => rateText(rate)],
    ] as [string, (cell: Cell) => string][]
  ).filter(([, of]) => new Set(cells.map(of)).size > 1)
  const columns: [string, (cell: Cell) => string][] = [
    ['Policy', ({ policy }) => policy],
    ...varying,
    ...names.map((name): [string, (cell: Cell) => string] => [
      name,
      (cell) => (matters(name, cell, settingOf.get(cell)!) ? String(cell.parameters[name]) : '–'),
    ]),
    ['P95', ({ p95Ms }) => time(p95Ms.mean)],
    ['95 % interval', ({ p95Ms: { ci95 } }) => (ci95 === null ? '–' : `${time(ci95[0])} – ${time(ci95[1])}`)],
    ['Mean', ({ meanMs }) => time(meanMs.mean)],
    ['SLO scale 95', ({ sloScale95 }) => plain(sloScale95.mean)],
    ...scales.map((scale, i): [string, (cell: Cell) => string] => [
      `Within scale ${scale}`,
      ({ attainment }) => share(attainment[i]?.mean),
    ]),
  ]
  return {
    head: columns.map(([name]) => name),
    rows: cells.slice(0, MOST_ROWS).map((cell) => columns.map(([, of]) => of(cell))),
    ...(cells.length > MOST_ROWS && {
      note: `The first ${MOST_ROWS} of ${count(cells.length)} rows; runs.csv has every run.`,
    }),
  }
}

function lineTable({ x, y, series }: LineFigure): DataTable {
  const write = y.unit === 'share' ? share : time
  const at = (means: readonly (number | null)[] | undefined, i: number) => means?.[i] ?? null
  return {
    head: [x.label, ...series.map(({ name }) => name)],
    rows: series[0]!.x.map((value, i) => [
      String(value),
      ...series.map(({ y: means, low, high }) => {
        const [a, b] = [at(low, i), at(high, i)]
        const interval = a === null || b === null ? '' : ` (${write(a)} – ${write(b)})`
        return write(at(means, i)) + interval
      }),
    ]),
  }
}

function dotTable({ rows }: DotFigure): DataTable {
  return {
    head: ['Policy', 'Setting', 'P95', '95 % interval'],
    rows: rows.map(({ name, group, x, low, high }) => [
      name,
      group,
      time(x),
      low === undefined || high === undefined ? '–' : `${time(low)} – ${time(high)}`,
    ]),
  }
}
