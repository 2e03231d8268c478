import type { ClusterConfig } from '../cluster/config.ts'
import type { Feedback, Knowledge, NativeAddon, PairOptions, Planning, SloBase } from '../native.ts'
import type { Progress, RunOptions } from '../simulator/options.ts'
import { isTable } from '../simulator/prepare.ts'
import { FEEDBACK, KNOWLEDGE, readOptions } from '../simulator/read-options.ts'
import { addReserveProblem, DECODE_ADMISSIONS, LINKS, RESERVES, STAGINGS } from '../simulator/read-pairs.ts'
import {
  addLatencyProblem,
  isPlanLatency,
  PLAN_LATENCY,
  PLANNINGS,
  readRemaining,
  type ToldFuture,
} from '../simulator/read-planning.ts'
import { OptionReader } from '../simulator/validate.ts'
import { CONTEXT_PRESETS, type ContextPreset } from '../traces/context.ts'
import type { TraceTable } from '../traces/table.ts'

type OneOrMore<T> = T | readonly T[]

/**
 * What to compare. Options that take several values span a grid; every combination is a group of rows, one row per policy.
 * Text may hold several values with commas between (not where it may be a path).
 */
export interface CompareOptions {
  /** A generator's name, the path of a trace file, or a table. Recorded arrivals are not used. */
  workload: OneOrMore<string | TraceTable>
  /** As for `simulate`; default `hexagent-hetero-1`. */
  cluster?: OneOrMore<string | ClusterConfig> | undefined
  /** Model of every instance with a GPU, calibrated; default: the cluster's own. */
  model?: OneOrMore<string> | undefined
  /** Arrival rate in parts of what the cluster sustains (docs/compare.md); default 0.9. */
  load?: OneOrMore<number> | string | undefined
  /**
   * Presets, or `order/placement[/binding]`; the first is what the others are compared with. Default: `hexagent` and
   * `workflow-fcfs/least-loaded` on prefill-decode clusters, `laxity`, `hexgen-flow` and `vllm` on unified ones.
   */
  policy?: OneOrMore<string> | undefined
  /** Per run; default 1,000 generated ones, or all of a trace. A trace with fewer begins again. */
  workflows?: number | undefined
  /** How many: seed k = 1, 2, … draws workload and arrivals, the same for all policies. Default 3. */
  seeds?: number | undefined
  /** Default `online`. */
  knowledge?: OneOrMore<Knowledge> | string | undefined
  /** Default `boundary`. */
  feedback?: OneOrMore<Feedback> | string | undefined
  /** Prefill-decode clusters, as for `simulate`. */
  links?: OneOrMore<PairOptions['links']> | string | undefined
  reserve?: OneOrMore<PairOptions['reserve']> | string | undefined
  decodeAdmission?: OneOrMore<PairOptions['decodeAdmission']> | string | undefined
  staging?: OneOrMore<PairOptions['staging']> | string | undefined
  /** How plans arrive, as for `simulate`; policies that do not plan take no notice. */
  planning?: OneOrMore<Planning> | string | undefined
  /** With asynchronous `planning`; default 0. */
  planLatencyMs?: OneOrMore<number> | string | undefined
  /** As for `simulate`, or `none` (default); policies whose order does not use it take no notice. */
  remaining?: OneOrMore<'none' | ToldFuture> | string | undefined
  /** What prompts hold: `new` tokens, or the `full` context. Default: `new` of generated agents, as recorded of a trace. */
  context?: OneOrMore<ContextPreset> | string | undefined
  /** The HexAGenT paper's simulator: `links` free, `staging` unlimited. */
  paper?: boolean | undefined
  /** Also what no scheduler can be below (docs/bounds.md): prefill-decode clusters, base `horizon`. Default false. */
  bound?: boolean | undefined
  /** What Req95, Req99 and attainment are multiples of; default as for `simulate`. */
  sloBase?: SloBase | undefined
  /** The same in all runs, as for `simulate`. */
  sloScale?: RunOptions['sloScale']
  deadlines?: RunOptions['deadlines']
  error?: RunOptions['error']
  prefixCache?: RunOptions['prefixCache']
  parameters?: RunOptions['parameters']
  backfill?: RunOptions['backfill']
  lateDecode?: RunOptions['lateDecode']
  overlap?: RunOptions['overlap']
  /** Threads; 0 runs in this thread. No result but the times depends on it. */
  workers?: number | undefined
  signal?: AbortSignal | undefined
  onProgress?: ((progress: Progress) => void) | undefined
}

/** Options of a run that are the same in all of them. */
export const COMMON = [
  'sloBase',
  'sloScale',
  'deadlines',
  'error',
  'prefixCache',
  'parameters',
  'backfill',
  'lateDecode',
  'overlap',
] as const satisfies readonly (keyof CompareOptions & keyof RunOptions)[]

/** Of them, those that need a prefill-decode cluster. */
const PAIRED = [
  'links',
  'reserve',
  'decodeAdmission',
  'staging',
  'backfill',
  'lateDecode',
  'overlap',
  'paper',
  'planning',
  'planLatencyMs',
  'bound',
]

export const COMPARE_KEYS: readonly string[] = [
  ...COMMON,
  ...([
    'workload',
    'cluster',
    'model',
    'load',
    'policy',
    'workflows',
    'seeds',
    'knowledge',
    'feedback',
    'links',
    'reserve',
    'decodeAdmission',
    'staging',
    'planning',
    'planLatencyMs',
    'remaining',
    'context',
    'paper',
    'bound',
    'workers',
    'signal',
    'onProgress',
  ] satisfies (keyof CompareOptions)[]),
]

export const DEFAULT_CLUSTER = 'hexagent-hetero-1'
const DEFAULT_LOAD = 0.9
const MOST_LOAD = 100
const DEFAULT_SEEDS = 3
const MOST_SEEDS = 1000
const MOST_WORKFLOWS = 1_000_000
const MOST_WORKERS = 256

/** Checked, before clusters and workloads are known. */
export interface CheckedCompare {
  workloads: readonly (string | TraceTable)[]
  clusters: readonly (string | ClusterConfig)[]
  models: readonly (string | undefined)[]
  loads: readonly number[]
  /** Undefined: those of the kind of cluster. */
  policies: readonly string[] | undefined
  workflows: number | undefined
  seeds: number
  knowledge: readonly Knowledge[]
  feedback: readonly Feedback[]
  pairs: readonly PairSetting[]
  plannings: readonly PlanSetting[]
  /** Undefined = nothing is told. */
  remaining: readonly (ToldFuture | undefined)[]
  contexts: readonly (ContextPreset | undefined)[]
  bound: boolean
  common: Pick<CompareOptions, (typeof COMMON)[number]>
  workers: number | undefined
  signal: AbortSignal | undefined
  onProgress: CompareOptions['onProgress']
}

/** How the pools of a prefill-decode cluster work together, in one group of rows. */
export interface PairSetting {
  links: PairOptions['links']
  staging: PairOptions['staging']
  decodeAdmission: PairOptions['decodeAdmission']
  /** Undefined with staging `unlimited`, where it has no meaning. */
  reserve: PairOptions['reserve'] | undefined
}

/** How plans arrive, in one group of rows. */
export interface PlanSetting {
  planning: Planning
  /** Undefined with `sync`, where it has no meaning. */
  latencyMs: number | undefined
}

/** Problems are left in the reader. */
export function readCompare(reader: OptionReader, native: NativeAddon): CheckedCompare {
  return {
    workloads: items<string | TraceTable>(
      reader,
      'workload',
      isTable,
      "a workload's name, a path or a table",
    ),
    clusters: reader.given('cluster')
      ? items<string | ClusterConfig>(reader, 'cluster', isObject, "a preset's name, a path or an object")
      : [DEFAULT_CLUSTER],
    models: reader.given('model') ? texts(reader, 'model', "a model's id") : [undefined],
    loads: readLoads(reader),
    policies: reader.given('policy') ? texts(reader, 'policy', 'a name') : undefined,
    workflows: reader.whole('workflows', undefined, 1, MOST_WORKFLOWS),
    seeds: reader.whole('seeds', DEFAULT_SEEDS, 1, MOST_SEEDS),
    knowledge: choices(reader, 'knowledge', KNOWLEDGE, 'online'),
    feedback: choices(reader, 'feedback', FEEDBACK, 'boundary'),
    pairs: readPairSettings(reader),
    plannings: readPlanSettings(reader),
    remaining: unique(
      list(reader, 'remaining', ['none']).map((value) =>
        value === 'none' ? undefined : readRemaining(reader, value),
      ),
    ),
    contexts: reader.given('context') ? choices(reader, 'context', CONTEXT_PRESETS, 'new') : [undefined],
    bound: readBound(reader),
    common: readCommon(reader, native),
    workers: reader.whole('workers', undefined, 0, MOST_WORKERS),
    signal: reader.signal(),
    onProgress: reader.callback('onProgress'),
  }
}

/** Options that only a prefill-decode cluster has a use for, where there is a unified one. */
export function checkUnified(reader: OptionReader, cluster: string): void {
  for (const name of PAIRED) {
    if (!reader.given(name) || reader.raw(name) === false) continue
    reader.add(`\`${name}\` needs prefill-decode clusters, and ${cluster} is unified`, name)
  }
}

function readPairSettings(reader: OptionReader): PairSetting[] {
  const paper = reader.boolean('paper')
  if (paper) {
    for (const name of ['links', 'staging']) {
      if (reader.given(name)) reader.add(`\`${name}\` is set by \`paper\`: leave one of them out`, name)
    }
  }
  const links = paper ? (['free'] as const) : choices(reader, 'links', LINKS, 'contended')
  const stagings = paper ? (['unlimited'] as const) : choices(reader, 'staging', STAGINGS, 'none')
  const reserves = choices(reader, 'reserve', RESERVES, 'early')
  const admissions = choices(reader, 'decodeAdmission', DECODE_ADMISSIONS, 'scheduler')
  if (reader.given('reserve') && stagings.includes('unlimited')) addReserveProblem(reader)
  return links.flatMap((links) =>
    stagings.flatMap((staging) =>
      (staging === 'unlimited' ? [undefined] : reserves).flatMap((reserve) =>
        admissions.map((decodeAdmission) => ({ links, staging, reserve, decodeAdmission })),
      ),
    ),
  )
}

function readPlanSettings(reader: OptionReader): PlanSetting[] {
  const plannings = choices(reader, 'planning', PLANNINGS, 'sync')
  const latencies = checked(
    reader,
    'planLatencyMs',
    list(reader, 'planLatencyMs', [0]),
    isPlanLatency,
    PLAN_LATENCY,
  ) as number[]
  if (reader.given('planLatencyMs') && !plannings.some((planning) => planning !== 'sync'))
    addLatencyProblem(reader)
  return plannings.flatMap((planning) =>
    (planning === 'sync' ? [undefined] : latencies).map((latencyMs) => ({ planning, latencyMs })),
  )
}

function readCommon(reader: OptionReader, native: NativeAddon): CheckedCompare['common'] {
  const common = Object.fromEntries(COMMON.map((name) => [name, reader.raw(name)]))
  const own = new OptionReader(common, COMMON)
  readOptions(own, native.parameters)
  try {
    own.problems.throwIfAny()
  } catch (error) {
    reader.problems.absorb(error)
  }
  return common as CheckedCompare['common']
}

function readBound(reader: OptionReader): boolean {
  const bound = reader.boolean('bound')
  if (bound && reader.given('sloBase') && reader.raw('sloBase') !== 'horizon')
    reader.add('`bound` is on multiples of the final horizon: leave `sloBase` out', 'bound')
  return bound
}

function readLoads(reader: OptionReader): number[] {
  const what = `a positive number up to ${MOST_LOAD}`
  const isLoad = (value: unknown) => typeof value === 'number' && value > 0 && value <= MOST_LOAD
  return checked(reader, 'load', list(reader, 'load', [DEFAULT_LOAD]), isLoad, what) as number[]
}

/** Numbers and names, as they are or as text with commas between; numbers in text become numbers. */
function list(reader: OptionReader, name: string, fallback: readonly unknown[]): unknown[] {
  const given = reader.raw(name)
  const parts = given === undefined ? [...fallback] : [given].flat().flatMap(split)
  return parts.map((part) => (typeof part === 'string' && /^\d+(\.\d+)?$/.test(part) ? Number(part) : part))
}

function choices<T extends string>(
  reader: OptionReader,
  name: string,
  names: readonly T[],
  fallback: T,
): readonly T[] {
  const given = reader.raw(name)
  if (given === undefined) return [fallback]
  const values = [given].flat().flatMap(split)
  if (values.length === 0) reader.wrong(`one of ${names.join(', ')}`, name, given)
  return unique(values.map((value) => reader.oneOf(name, names, fallback, name, value)))
}

/** Names without commas in them. */
function texts(reader: OptionReader, name: string, what: string): string[] {
  const values = [reader.raw(name)].flat().flatMap(split)
  return checked(reader, name, values, isText, what) as string[]
}

/** What may be a path, and so have a comma in it. */
function items<T extends string | object>(
  reader: OptionReader,
  name: string,
  isContent: (value: unknown) => boolean,
  what: string,
): T[] {
  const given = reader.raw(name)
  const accepts = (value: unknown) => isText(value) || isContent(value)
  return checked(reader, name, given === undefined ? [] : [given].flat(), accepts, what) as T[]
}

function checked(
  reader: OptionReader,
  name: string,
  values: readonly unknown[],
  accepts: (value: unknown) => boolean,
  what: string,
): unknown[] {
  if (values.length === 0) reader.wrong(what, name, reader.raw(name))
  for (const value of values) if (!accepts(value)) reader.wrong(what, name, value)
  return unique(values.filter(accepts))
}

function split(value: unknown): unknown[] {
  return typeof value === 'string' ? value.split(',').map((part) => part.trim()) : [value]
}

function unique<T>(values: readonly T[]): T[] {
  return [...new Set(values)]
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
