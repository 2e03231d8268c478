import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import type { LatencyOverrides } from '../cluster/overrides.ts'
import { findPreset } from '../cluster/presets.ts'
import { expected, LaxityError, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import { RUN_KEYS } from '../simulator/options.ts'
import { loadNative } from '../simulator/simulate.ts'
import type { TraceTable } from '../traces/table.ts'
import { parseGrid } from '../tuning/grid.ts'
import { Cells } from './cells.ts'
import { overridesOf } from './overrides.ts'
import { digest, pack } from './pack.ts'
import type { Path, Positioned } from './positions.ts'
import type { StudyConfig } from './schema.ts'
import {
  type Coordinates,
  cellCount,
  coordinatesOf,
  type PolicyParts,
  runCount,
  type Study,
} from './study.ts'
import { version } from './version.ts'

/** Options that a study gives in another place, or that do not concern its results. */
const NOT_OPTIONS = [
  'trace',
  'cluster',
  'policy',
  'order',
  'placement',
  'binding',
  'migrate',
  'alpha',
  'beta',
  'parameters',
  'rate',
  'seed',
  'workers',
  'signal',
  'onProgress',
]
export const STUDY_OPTIONS = RUN_KEYS.filter((name) => !NOT_OPTIONS.includes(name))

/** More than this is refused whatever the caller says. */
export const MOST_RUNS = 10_000_000

export type OpenTrace = (argument: string, format: string | undefined) => Promise<TraceTable>

export interface ResolveOptions {
  /** Of the study's file: paths in it are relative to its folder. */
  folder: string
  openTrace: OpenTrace
  signal?: AbortSignal | undefined
  /** Called with the size, and in words, as soon as it is known and before anything is read; may throw. */
  onSize?: ((runs: number, text: string) => void | Promise<void>) | undefined
}

/**
 * Checks a study's content, reads its clusters and traces, and checks every cell of the grid as `simulate` would.
 *
 * @throws LaxityError with all problems, each with its place (line and column in the file).
 */
export async function resolveStudy(source: Positioned, options: ResolveOptions): Promise<Study> {
  const problems = new Problems()
  const add: Add = (path, message, key) => problems.add('ERR_LAXITY_FIELD', message, source.place(path, key))
  const config = await checkShape(source, add)
  problems.throwIfAny()
  const { clusters, workloads, policies = ['hexgen-flow'], parameters = {}, options: given = {} } = config!

  for (const name of Object.keys(given)) {
    if (STUDY_OPTIONS.includes(name as (typeof STUDY_OPTIONS)[number])) continue
    const message = NOT_OPTIONS.includes(name)
      ? `\`${name}\` is no option of a study: see docs/study.md for where it goes`
      : `Unknown option \`${name}\`${hint(name, STUDY_OPTIONS)}`
    add(['options', name], message, true)
  }
  const numbers = (path: Path, value: NumberList | undefined, fallback: number[]): number[] => {
    const list = value === undefined ? fallback : listOf(value, path, problems, source)
    const twice = list.find((item, i) => list.indexOf(item) < i)
    if (twice !== undefined) add(path, `${twice} is given twice`)
    return list
  }
  const rates = config!.rates === undefined ? [null] : numbers(['rates'], config!.rates, [])
  const axes = Object.entries(parameters).map(([name, values]) => ({
    name,
    values: numbers(['parameters', name], values, []),
  }))
  const seeds = numbers(['seeds'], config!.seeds, [1])
  const { sloScale } = given
  const scales = numbers(['scales'], config!.scales, [
    typeof sloScale === 'number' && sloScale > 0 ? sloScale : 5,
  ])
  if (scales.some((scale) => !(scale > 0 && scale <= 1e6)))
    add(['scales'], 'Expected positive numbers up to 1000000')
  const named = policies.map(policyOf)
  unique(named, 'policies', add)
  problems.throwIfAny()

  const grid = { clusters, workloads, rates, policies: named, parameters: axes, seeds }
  const runs = runCount({ ...grid } as unknown as Study)
  if (runs > MOST_RUNS) {
    const message = `${sizeText(grid as unknown as Study)}: at most ${MOST_RUNS} are supported`
    throw new LaxityError('ERR_LAXITY_LIMIT', message, source.place([]))
  }
  await options.onSize?.(runs, sizeText(grid as unknown as Study))

  let overrides: LatencyOverrides = {}
  try {
    overrides = overridesOf(given)
  } catch (error) {
    if (!(error instanceof LaxityError)) throw error
    const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
    for (const part of parts)
      problems.add(part.code, textOf(part), source.place(['options', part.place ?? '']))
  }
  const resolvedClusters = []
  for (const [i, entry] of clusters.entries()) {
    const cluster = await openCluster(entry, overrides, options.folder, ['clusters', i], problems, source)
    if (cluster !== undefined) resolvedClusters.push({ label: cluster.name, cluster })
  }
  problems.throwIfAny()
  unique(resolvedClusters, 'clusters', add)
  const traces = []
  for (const [i, entry] of workloads.entries()) {
    const workload = typeof entry === 'string' ? { trace: entry } : entry
    try {
      options.signal?.throwIfAborted()
      const trace = await options.openTrace(beside(options.folder, workload.trace), workload.format)
      traces.push({ label: workload.name ?? workload.trace, trace: withoutIds(trace, workload.trace) })
    } catch (error) {
      if (options.signal?.aborted) throw error
      absorb(error, ['workloads', i], problems, source)
    }
  }
  problems.throwIfAny()
  unique(traces, 'workloads', add)
  problems.throwIfAny()

  const content = {
    version: version(),
    clusters: resolvedClusters,
    workloads: traces,
    rates,
    policies: named,
    parameters: axes,
    seeds,
    scales: [...scales].sort((a, b) => a - b),
    options: given,
  }
  const study = identified(config!.name ?? 'study', content)
  await checkCells(study, source, options.signal)
  return study
}

/** A study of this content, by its id. */
export function identified(name: string, content: Omit<Study, 'id' | 'name'>): Study {
  return { id: digest(pack(content)).slice(0, 16), name, ...content }
}

/** A grid's size in words: `1 cluster × 2 workloads × … = 1200 runs`. */
export function sizeText(
  study: Pick<Study, 'clusters' | 'workloads' | 'rates' | 'policies' | 'parameters' | 'seeds'>,
): string {
  const many = (n: number, one: string, several = `${one}s`) => `${n} ${n === 1 ? one : several}`
  const parts = [
    many(study.clusters.length, 'cluster'),
    many(study.workloads.length, 'workload'),
    many(study.rates.length, 'rate'),
    many(study.policies.length, 'policy', 'policies'),
    ...study.parameters.map(({ name, values }) => `${values.length} of ${name}`),
    many(study.seeds.length, 'seed'),
  ]
  return `${parts.join(' × ')} = ${many(runCount(study as Study), 'run')}`
}

type NumberList = NonNullable<StudyConfig['rates']>
type Add = (path: Path, message: string, key?: boolean) => void

async function checkShape(source: Positioned, add: Add): Promise<StudyConfig | undefined> {
  const { studySchema } = await import('./schema.ts')
  const parsed = studySchema.safeParse(source.value)
  if (parsed.success) return parsed.data
  const seen = new Set<string>()
  for (const issue of parsed.error.issues) report(issue as Issue, [], source.value, seen, add)
  return undefined
}

interface Issue {
  code: string
  path: PropertyKey[]
  message: string
  keys?: string[]
  errors?: Issue[][]
}

const FIELDS: Readonly<Record<string, string[]>> = {
  '': ['name', 'clusters', 'workloads', 'rates', 'policies', 'parameters', 'seeds', 'scales', 'options'],
  workloads: ['trace', 'format', 'name'],
  policies: ['name', 'policy', 'order', 'placement', 'binding', 'migrate'],
}

function report(issue: Issue, above: Path, root: unknown, seen: Set<string>, add: Add): void {
  const path = [...above, ...issue.path]
  const got = path.reduce<unknown>(
    (value, part) => (value as Record<PropertyKey, unknown> | undefined)?.[part],
    root,
  )
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys ?? []) {
      add([...path, key], `Unknown field \`${key}\`${hint(key, FIELDS[String(path[0] ?? '')] ?? [])}`, true)
    }
    return
  }
  if (issue.code === 'invalid_union' && typeof got === 'object' && got !== null && !Array.isArray(got)) {
    // The alternative that is an object: what is wrong inside says more.
    const inner = issue.errors?.find((list) =>
      list.some((one) => one.path.length > 0 || one.code === 'unrecognized_keys'),
    )
    for (const one of inner ?? []) report(one, path, root, seen, add)
    if (inner !== undefined) return
  }
  const key = JSON.stringify(path)
  if (seen.has(key)) return
  seen.add(key)
  add(
    path,
    expected(issue.message, String(path.findLast((part) => typeof part !== 'number') ?? 'study'), got),
  )
}

function listOf(value: NumberList, path: Path, problems: Problems, source: Positioned): number[] {
  if (typeof value === 'number') return [value]
  if (typeof value !== 'string') return value
  try {
    return parseGrid(value, String(path.at(-1)))
  } catch (error) {
    absorb(error, path, problems, source)
    return [0]
  }
}

function policyOf(entry: NonNullable<StudyConfig['policies']>[number]): {
  label: string
  parts: PolicyParts
} {
  if (typeof entry === 'string') return { label: entry, parts: { policy: entry } }
  const { name, ...parts } = entry
  const label = name ?? Object.values(parts).join('/')
  return { label: label === '' ? 'hexgen-flow' : label, parts: parts as PolicyParts }
}

function unique(list: readonly { label: string }[], field: string, add: Add): void {
  for (const [i, { label }] of list.entries()) {
    if (list.findIndex((other) => other.label === label) < i) {
      add([field, i], `${quote(label)} is there twice: give each a \`name\``)
    }
  }
}

async function openCluster(
  entry: StudyConfig['clusters'][number],
  overrides: LatencyOverrides,
  folder: string,
  path: Path,
  problems: Problems,
  source: Positioned,
) {
  const given = typeof entry !== 'string' || findPreset(entry) !== undefined ? entry : beside(folder, entry)
  try {
    return await loadCluster(given as string | ClusterConfig, overrides)
  } catch (error) {
    absorb(error, path, problems, source)
    return undefined
  }
}

/** A file beside the study; anything else as it stands. */
function beside(folder: string, argument: string): string {
  const path = resolve(folder, argument)
  return existsSync(path) ? path : argument
}

/** Only messages about single rows would need the ids. */
function withoutIds(trace: TraceTable, source: string): TraceTable {
  const { workflowIds: _, callIds: __, ...rest } = trace
  return { ...rest, source }
}

/** A message without the name of the option before it: the study's own place says more. A file's place stays. */
function textOf({ message, place }: LaxityError): string {
  const prefix = `${place}: `
  const isOption = place !== undefined && /^[a-zA-Z.]+$/.test(place) && !place.endsWith('.json')
  return isOption && message.startsWith(prefix) ? message.slice(prefix.length) : message
}

/** Takes over what a part says, with the part's place in the study before it. */
function absorb(error: unknown, path: Path, problems: Problems, source: Positioned): void {
  if (!(error instanceof LaxityError)) throw error
  const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
  for (const part of parts) problems.add(part.code, textOf(part), source.place(path))
}

/** Between two turns of the event loop. */
const TURN_MS = 20

async function checkCells(study: Study, source: Positioned, signal: AbortSignal | undefined): Promise<void> {
  const cells = new Cells(await loadNative(), study)
  const problems = new Problems()
  const seen = new Set<string>()
  let turn = performance.now()
  for (let cell = 0; cell < cellCount(study); cell++) {
    try {
      cells.prepare(cell)
    } catch (error) {
      if (!(error instanceof LaxityError)) throw error
      const at = coordinatesOf(study, cell * study.seeds.length)
      const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
      for (const part of parts) {
        const place = source.place(pathOf(part.place, at, study))
        const known = `${place} ${part.message}`
        if (!seen.has(known)) problems.add(part.code, textOf(part), place)
        seen.add(known)
      }
      if (seen.size > 100) break
    }
    if (performance.now() - turn < TURN_MS) continue
    await new Promise((resume) => setImmediate(resume))
    if (signal?.aborted) throw new LaxityError('ERR_LAXITY_ABORTED', 'Stopped before it was done')
    turn = performance.now()
  }
  for (const [i, seed] of study.seeds.entries()) {
    if (Number.isSafeInteger(seed) && seed >= 0) continue
    problems.add(
      'ERR_LAXITY_OPTION',
      expected('a safe integer >= 0', 'seeds', seed),
      source.place(['seeds', i]),
    )
  }
  problems.throwIfAny()
}

/** Where a study gives the option that a message of `simulate` is about. */
function pathOf(option: string | undefined, at: Coordinates, study: Study): Path {
  const [name = '', field = ''] = (option ?? '').split('.')
  if (name === 'rate') return ['rates', at.rate]
  if (name === 'seed') return ['seeds', at.seed]
  if (name === 'cluster') return ['clusters', at.cluster]
  if (name === 'alpha' || name === 'beta') return ['parameters', name]
  if (name === 'parameters') return ['parameters', field]
  if (['policy', 'order', 'placement', 'binding', 'migrate'].includes(name)) return ['policies', at.policy]
  if (name in study.options) return ['options', name]
  return ['workloads', at.workload]
}

export function folderOf(file: string): string {
  return dirname(resolve(file))
}
