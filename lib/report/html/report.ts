import { type CallTable, readCallTable } from '../result/call-table.ts'
import type {
  CompareDocument,
  ResultDocument,
  SimulateDocument,
  StudyDocument,
  TuneDocument,
} from '../result/schema.ts'
import { count, duration, percent, significant } from '../units.ts'
import { compareFacts, type Fact, runFacts } from './facts.ts'
import type { DataTable, Figure } from './figure.ts'
import { alphaFigure, alphaTable, time } from './figures/alpha.ts'
import {
  attainmentTable,
  type DetailedRun,
  deadlines,
  runAttainment,
  sweepAttainment,
} from './figures/attainment.ts'
import {
  attainmentRows,
  compareTable,
  requiredFigure,
  settingAttainment,
  settings,
} from './figures/compare.ts'
import { latencyFigure, latencyTable } from './figures/latency.ts'
import { kvFigure, kvTable, loadOf, queueFigure, queueTable } from './figures/load.ts'
import { pathFigure } from './figures/path.ts'
import { type Timeline, timeline } from './figures/timeline.ts'
import { runLabels } from './labels.ts'
import { renderPage } from './page.ts'
import { studySections } from './study-sections.ts'

/** One figure of the page with what stands behind it. */
export interface PageFigure {
  figure: Figure
  data: DataTable
  timeline?: Timeline
}

export interface PageTable {
  title: string
  data: DataTable
}

export interface PageSection {
  title: string
  /** Findings in full sentences. */
  text: readonly string[]
  facts: readonly Fact[]
  tables: readonly PageTable[]
  figures: readonly PageFigure[]
}

/**
 * One self-contained HTML page for results of `tune`, `simulate`, `compare` and `study`. Figures appear where the results hold
 * their data; several runs share the figures of attainment and latency.
 *
 * @throws LaxityError ERR_LAXITY_FIELD where columns per call are damaged.
 */
export function htmlReport(documents: readonly ResultDocument[]): string {
  const ids = new Ids()
  const tunes = documents.filter((document): document is TuneDocument => document.command === 'tune')
  const compares = documents.filter((document): document is CompareDocument => document.command === 'compare')
  const studies = documents.filter((document): document is StudyDocument => document.command === 'study')
  const runs = documents.filter((document): document is SimulateDocument => document.command === 'simulate')
  const best = tunes.flatMap(({ run }) => (run === undefined ? [] : [run]))
  const sections = [
    ...tunes.map((document) => tuneSection(document, ids)),
    ...compares.map((document) => compareSection(document, ids)),
    ...studies.flatMap((document) => studySections(document, () => ids.next())),
    ...runSections([...best, ...runs], best.length, ids),
  ]
  return renderPage(titleOf(documents), sections)
}

/** Ids of figures: `figure-1`, `figure-2`, … in the order of the page. */
class Ids {
  #last = 0
  next(): string {
    return `figure-${++this.#last}`
  }
}

function titleOf(documents: readonly ResultDocument[]): string {
  const of = (command: ResultDocument['command']) =>
    documents.filter((document) => document.command === command).length
  const [tunes, runs] = [of('tune'), of('simulate')]
  const where =
    of('compare') + of('study') > 0 ? '' : placeOf(documents as (TuneDocument | SimulateDocument)[])
  const parts = [
    ...documents.flatMap((document) => (document.command === 'study' ? [`Study: ${document.name}`] : [])),
    ...(tunes > 0 ? ['The dispatch weight α'] : []),
    ...(of('compare') > 0 ? ['Policies compared'] : []),
    ...(runs > 0 ? [runs === 1 ? 'One run' : `${runs} runs`] : []),
  ]
  return `${parts.join(', and ').replace(', and One', ', and one')}${where}`
}

/** Where all have it in common. */
function placeOf(documents: readonly (TuneDocument | SimulateDocument)[]): string {
  const sources = new Set(documents.map(({ setup }) => setup?.trace.source))
  const clusters = new Set(documents.map(({ cluster }) => cluster))
  const source = sources.size === 1 ? [...sources][0] : undefined
  const workload = source === undefined ? '' : ` for ${source}`
  return clusters.size === 1 ? `${workload} on ${[...clusters][0]}` : workload
}

function tuneSection(document: TuneDocument, ids: Ids): PageSection {
  const { points, best, setup } = document
  const point = points.find(({ alpha }) => alpha === best.alpha) ?? points[0]!
  const interval =
    point.ci95Ms === null ? '' : ` (95 % interval ${time(point.ci95Ms[0])} to ${time(point.ci95Ms[1])})`
  const others = best.indistinguishable
  const equal =
    (setup?.replications ?? 2) < 2
      ? 'One stream of arrivals tells no α from another.'
      : others.length === 0
        ? 'It is better than every other α of the grid (paired 95 % intervals).'
        : `The data cannot tell it from α = ${others.join(', ')} (paired 95 % intervals).`
  const alpha = alphaFigure(document, ids.next())
  const attainment = sweepAttainment(document, ids.next())
  return {
    title: 'The sweep',
    text: [
      `For the objective ${document.objective} the best dispatch weight is α = ${best.alpha}: P95 latency ${time(point.p95Ms)}${interval}, mean ${time(point.meanMs)}. ${equal}`,
    ],
    facts: runFacts(document),
    tables:
      point.tenants === undefined
        ? []
        : [{ title: `Tenants at α = ${best.alpha}`, data: tenantData(point.tenants) }],
    figures: [
      { figure: alpha, data: alphaTable(document) },
      { figure: attainment, data: attainmentTable(attainment) },
    ],
  }
}

function compareSection(document: CompareDocument, ids: Ids): PageSection {
  const groups = settings(document)
  const figures: PageFigure[] = []
  const required = requiredFigure(groups, 'figure-0')
  if (required !== undefined)
    figures.push({ figure: { ...required, id: ids.next() }, data: compareTable(document) })
  for (const group of groups) {
    const figure = settingAttainment(group, 'figure-0')
    if (figure !== undefined)
      figures.push({ figure: { ...figure, id: ids.next() }, data: attainmentRows(figure) })
  }
  return {
    title: 'The comparison',
    text: [],
    facts: compareFacts(document),
    tables: [{ title: 'Every policy in every setting', data: compareTable(document) }],
    figures,
  }
}

/** First what the runs have in common, then each by itself. `best` of them belong to sweeps. */
function runSections(runs: readonly SimulateDocument[], best: number, ids: Ids): PageSection[] {
  if (runs.length === 0) return []
  const labels = runLabels(runs)
  const tables = runs.map((run, i) => callTableOf(run, labels[i]!))
  const detailed: DetailedRun[] = tables.flatMap((table, i) =>
    table === undefined ? [] : [{ label: labels[i]!, table }],
  )
  const figures: PageFigure[] = []
  if (detailed.length > 0) {
    const rules = deadlines(
      runs.map(({ setup }) => setup?.sloScale),
      runs.map(({ tenants }) => tenants),
    )
    const attainment = runAttainment(detailed, rules, ids.next())
    figures.push({ figure: attainment, data: attainmentTable(attainment) })
    figures.push({ figure: latencyFigure(detailed, ids.next()), data: latencyTable(detailed) })
  }
  if (runs.length === 1) {
    const own = ownFigures(tables[0], ids, '')
    return [{ ...oneRun(runs[0]!, best === 1, true), figures: [...figures, ...own] }]
  }
  const facts = runs.map(runFacts)
  const isCommon = ([name, text]: Fact) =>
    facts.every((own) => own.some(([other, its]) => other === name && its === text))
  const common: PageSection = {
    title: 'The runs',
    text: [],
    facts: facts[0]!.filter(isCommon),
    tables: [{ title: 'Metrics', data: metricData(runs, labels) }],
    figures,
  }
  return [
    common,
    ...runs.map((run, i) => ({
      ...oneRun(run, i < best, false),
      title: labels[i]!,
      facts: facts[i]!.filter((fact) => !isCommon(fact)),
      figures: ownFigures(tables[i], ids, `: ${labels[i]}`),
    })),
  ]
}

function callTableOf(run: SimulateDocument, label: string): CallTable | undefined {
  return run.perCall === undefined ? undefined : readCallTable(run.perCall, `${label}: perCall`)
}

function oneRun(run: SimulateDocument, isBest: boolean, isAlone: boolean): Omit<PageSection, 'figures'> {
  const { metrics, counts, tenants, cache } = run
  const done =
    counts.completed === counts.workflows
      ? `All ${count(counts.workflows)} workflows completed`
      : `${count(counts.completed)} of ${count(counts.workflows)} workflows completed`
  const evictions = counts.evictions + counts.hiddenEvictions
  const notes = [
    counts.rejected > 0 ? `${count(counts.rejected)} calls were rejected.` : '',
    evictions > 0
      ? `${count(evictions)} times a running call was evicted for want of KV cache; its lease below is the first, its instance the last.`
      : '',
    cache === undefined ? '' : `Prefix caches held ${percent(cache.hitRate)} of the prompt tokens.`,
  ].filter((note) => note !== '')
  const which = isBest ? `One run of the best α = ${run.setup?.alpha}, on the first stream of arrivals. ` : ''
  return {
    title: isBest ? 'One run in detail' : 'The run',
    text: [
      `${which}${done}, with mean latency ${time(metrics.meanMs)} and P95 ${time(metrics.p95Ms)}; 95 % finish within ${significant(metrics.sloScale95 ?? Number.POSITIVE_INFINITY)} times their base time. ${notes.join(' ')}`.trim(),
    ],
    facts: isBest ? [] : runFacts(run),
    tables: [
      ...(isAlone ? [{ title: 'Metrics', data: metricData([run], ['Value']) }] : []),
      ...(tenants === undefined || tenants.length === 0
        ? []
        : [{ title: 'Tenants', data: tenantData(tenants) }]),
    ],
  }
}

/** `suffix` of their titles tells them from those of other runs. */
function ownFigures(table: CallTable | undefined, ids: Ids, suffix: string): PageFigure[] {
  if (table === undefined) return []
  const figures: PageFigure[] = []
  const load = loadOf(table)
  if (load !== undefined) {
    figures.push({ figure: queueFigure(load, ids.next()), data: queueTable(load) })
    figures.push({ figure: kvFigure(load, ids.next()), data: kvTable(load) })
  }
  const path = pathFigure(table, '')
  const calls = timeline(table, '', path?.workflow)
  if (calls !== undefined) {
    const figure = { ...calls.figure, id: ids.next() }
    figures.push({ figure, data: calls.data, timeline: { ...calls, figure } })
  }
  if (path !== undefined) figures.push({ figure: { ...path.figure, id: ids.next() }, data: path.data })
  return figures.map((own) => {
    const figure = { ...own.figure, title: own.figure.title + suffix }
    return { ...own, figure }
  })
}

function metricData(runs: readonly SimulateDocument[], labels: readonly string[]): DataTable {
  const row = (name: string, value: (run: SimulateDocument) => string) => [name, ...runs.map(value)]
  return {
    head: ['Metric', ...labels],
    rows: [
      row('Mean latency', ({ metrics }) => time(metrics.meanMs)),
      row('P50', ({ metrics }) => time(metrics.p50Ms)),
      row('P95', ({ metrics }) => time(metrics.p95Ms)),
      row('P99', ({ metrics }) => time(metrics.p99Ms)),
      row('95 % SLO scale', ({ metrics }) => significant(metrics.sloScale95 ?? Number.POSITIVE_INFINITY)),
      row('Workflows per second', ({ metrics }) => significant(metrics.throughputPerS ?? 0)),
      row('Makespan', ({ metrics }) => duration(metrics.makespanMs ?? Number.POSITIVE_INFINITY)),
      row('Completed', ({ counts }) => `${count(counts.completed)} of ${count(counts.workflows)}`),
      row('Calls', ({ counts }) => count(counts.calls)),
      row('Rejected calls', ({ counts }) => count(counts.rejected)),
      row('Evictions', ({ counts }) => count(counts.evictions + counts.hiddenEvictions)),
    ],
  }
}

type Tenants = NonNullable<SimulateDocument['tenants']>

function tenantData(tenants: Tenants): DataTable {
  return {
    head: ['Tenant', 'SLO scale', 'Completed', 'P50', 'P95', 'P99', 'Mean', 'Attainment'],
    rows: tenants.map((tenant) => [
      tenant.name,
      significant(tenant.sloScale ?? Number.POSITIVE_INFINITY),
      `${count(tenant.completed)} of ${count(tenant.workflows)}`,
      time(tenant.p50Ms),
      time(tenant.p95Ms),
      time(tenant.p99Ms),
      time(tenant.meanMs),
      percent(tenant.attainment),
    ]),
  }
}
