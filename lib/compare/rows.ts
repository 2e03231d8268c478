import { type RowBound, rowBound, type SeedBound } from '../bounds/row.ts'
import type { Feedback, Knowledge, NativeAddon, PairOptions, Planning, SloBase } from '../native.ts'
import type { BatchResult } from '../simulator/batch.ts'
import type { Column } from '../simulator/chunk.ts'
import type { Policy } from '../simulator/policies.ts'
import { remainingText } from '../simulator/read-planning.ts'
import { pooledSacrifice, type Sacrifice } from '../simulator/sacrifice.ts'
import type { ContextPreset } from '../traces/context.ts'
import { mean } from '../tuning/choose.ts'
import { inForce, type Setting, type Site } from './grid.ts'
import { pairedRatio, type Ratio } from './intervals.ts'
import type { NamedPolicy } from './policies.ts'

/** Columns that are compared with those of the first policy. */
export const COMPARED = ['req95', 'req99', 'meanMs', 'p95Ms', 'p99Ms', 'throughputPerS'] as const
type Compared = (typeof COMPARED)[number]

/** Of one seed. Infinite where too many workflows never end. */
export interface SeedRow extends Record<Compared, number> {
  seed: number
  completed: number
  evictions: number
  /** With the option `bound`. */
  bound?: SeedBound
}

/** One policy in one setting: means over the seeds, if nothing else is said. */
export interface CompareRow extends Record<Compared, number> {
  /** As it was asked for. */
  policy: string
  order: string
  placement: string
  binding: Policy['binding']
  workload: string
  /** What prompts hold, where the workload has a choice. */
  context: ContextPreset | null
  cluster: string
  /** What latencies are estimated for; null where they are given. */
  model: string | null
  load: number
  /** load × what the cluster sustains. */
  ratePerS: number
  knowledge: Knowledge
  feedback: Feedback
  /** What req95, req99 and attainment are multiples of. */
  sloBase: SloBase
  /** What the scheduler is told of. */
  deadlines: 'slo' | 'none'
  /** Null on unified clusters; `reserve` also where staging gives it no meaning. */
  links: PairOptions['links'] | null
  reserve: PairOptions['reserve'] | null
  decodeAdmission: PairOptions['decodeAdmission'] | null
  staging: PairOptions['staging'] | null
  /** Null where the policy does not plan; the latency also where plans are never late. */
  planning: Planning | null
  planLatencyMs: number | null
  /** What is declared of the time after a call: `exact` or sigma of its error; null = nothing, or the order does not use it. */
  remaining: string | null
  /** The prediction errors as text. */
  error: string | null
  seeds: number
  /** Per seed. */
  workflows: number
  calls: number
  completed: number
  rejected: number
  /** Those that the scheduler saw and those that an engine dealt with. */
  evictions: number
  /** Share of workflows within scale × base, at ascending scales. */
  attainment: [scale: number, share: number][]
  /** Null on unified clusters. */
  prefillUtilisation: number | null
  decodeUtilisation: number | null
  /** Largest of all seeds. */
  kvPeak: number | null
  /** Thread CPU time of a plan, mean over the seeds of its quantiles; null where it was not measured. */
  planUs: { mean: number | null; p50: number | null; p99: number | null }
  /** Per seed: plans, and calls that waited, summed over them. Null where the policy does not plan. */
  plans: number | null
  plannedCalls: number | null
  /** Against the first policy of the setting: geometric mean ratio and its interval. Null for the first one itself. */
  versusFirst: ({ policy: string } & Record<Compared, Ratio | null>) | null
  /** With the option `bound`: what no scheduler can be below, and how far this policy is from it. */
  bound?: RowBound
  /** With the parameter `sacrifice`: means of the ratios, sums of the workflows over the seeds. */
  sacrifice?: Sacrifice
  perSeed: SeedRow[]
}

/** The attainment curve is shown at these multiples of the base. */
export const SCALES = Float64Array.of(
  1,
  1.25,
  1.5,
  1.75,
  2,
  2.5,
  3,
  3.5,
  4,
  4.5,
  5,
  6,
  7,
  8,
  9,
  10,
  12,
  14,
  16,
  18,
  20,
  25,
  30,
  40,
  50,
  75,
  100,
)

/** A finished run. */
export interface Run {
  seed: number
  batch: BatchResult
  context: ContextPreset | undefined
  sloBase: SloBase
  deadlines: 'slo' | 'none'
  error: string | undefined
  bound?: SeedBound
  sacrifice?: Sacrifice
}

/** The rows of one setting, by policy; `runs[policy][seed]`. */
export function rowsOf(
  native: Pick<NativeAddon, 'pairedT'>,
  setting: Setting,
  ratePerS: number,
  policies: readonly NamedPolicy[],
  runs: readonly (readonly Run[])[],
): CompareRow[] {
  const first = runs[0]!
  return policies.map((named, k) => {
    const own = runs[k]!
    const versus = Object.fromEntries(
      COMPARED.map((name) => [name, pairedRatio(native, column(own, name), column(first, name))]),
    ) as Record<Compared, Ratio | null>
    const perSeed = own.map((run) => seedRow(run))
    const sacrifices = own.flatMap(({ sacrifice }) => sacrifice ?? [])
    const bounded = perSeed.flatMap(({ bound, ...seed }) => (bound === undefined ? [] : [{ ...seed, bound }]))
    return {
      ...labels(setting, named, ratePerS, own[0]!),
      ...(Object.fromEntries(COMPARED.map((name) => [name, mean(column(own, name))])) as Record<
        Compared,
        number
      >),
      ...counts(own),
      attainment: Array.from(SCALES, (scale, i): [number, number] => [
        scale,
        mean(Float64Array.from(own, ({ batch }) => batch.attainment(0, i))),
      ]),
      ...use(setting, own),
      versusFirst: k === 0 ? null : { policy: policies[0]!.name, ...versus },
      ...(bounded.length > 0 && { bound: rowBound(bounded) }),
      ...(sacrifices.length > 0 && { sacrifice: pooledSacrifice(sacrifices) }),
      perSeed,
    }
  })
}

const SOURCE: Readonly<Record<Compared, Column>> = {
  req95: 'sloScale95',
  req99: 'sloScale99',
  meanMs: 'meanMs',
  p95Ms: 'p95Ms',
  p99Ms: 'p99Ms',
  throughputPerS: 'throughputPerS',
}

/** What names the rows of a site. */
export function siteLabels({ cluster, workload }: Site, context: ContextPreset | undefined) {
  const estimated = [...new Set(cluster.resolved.instances.flatMap(({ estimated }) => estimated ?? []))]
  return {
    workload: workload.name,
    context: context ?? null,
    cluster: cluster.resolved.name,
    model: estimated.length > 0 ? estimated.join('+') : null,
  }
}

function labels(setting: Setting, named: NamedPolicy, ratePerS: number, run: Run) {
  const { site, load, knowledge, feedback, pairs } = setting
  const { order, placement, binding } = named.policy
  const { planning, remaining } = inForce(setting, named.policy)
  return {
    policy: named.name,
    order,
    placement,
    binding,
    ...siteLabels(site, run.context),
    load,
    ratePerS,
    knowledge,
    feedback,
    sloBase: run.sloBase,
    deadlines: run.deadlines,
    links: pairs?.links ?? null,
    reserve: pairs?.reserve ?? null,
    decodeAdmission: pairs?.decodeAdmission ?? null,
    staging: pairs?.staging ?? null,
    planning: planning?.planning ?? null,
    planLatencyMs: planning?.latencyMs ?? null,
    remaining: remainingText(remaining),
    error: run.error ?? null,
  }
}

function counts(runs: readonly Run[]) {
  const average = (...names: Column[]) =>
    mean(Float64Array.from(runs, ({ batch }) => names.reduce((sum, name) => sum + batch.value(0, name), 0)))
  return {
    seeds: runs.length,
    workflows: average('workflows'),
    calls: average('calls'),
    completed: average('completed'),
    rejected: average('rejected'),
    evictions: average('evictions', 'hiddenEvictions'),
  }
}

function use({ pairs }: Setting, runs: readonly Run[]) {
  const values = (name: Column) => runs.map(({ batch }) => batch.value(0, name))
  const average = (name: Column) => {
    const value = mean(Float64Array.from(values(name)))
    return Number.isFinite(value) ? value : null
  }
  return {
    prefillUtilisation: pairs ? average('prefillUtilisation') : null,
    decodeUtilisation: pairs ? average('decodeUtilisation') : null,
    kvPeak: pairs ? Math.max(...values('decodeKvPeak')) : null,
    planUs: { mean: average('planMeanUs'), p50: average('planP50Us'), p99: average('planP99Us') },
    plans: average('plans'),
    plannedCalls: average('plannedCalls'),
  }
}

function seedRow({ seed, batch, bound }: Run): SeedRow {
  return {
    seed,
    ...(Object.fromEntries(COMPARED.map((name) => [name, batch.value(0, SOURCE[name])])) as Record<
      Compared,
      number
    >),
    completed: batch.value(0, 'completed'),
    evictions: batch.value(0, 'evictions') + batch.value(0, 'hiddenEvictions'),
    ...(bound && { bound }),
  }
}

function column(runs: readonly Run[], name: Compared): Float64Array {
  return Float64Array.from(runs, ({ batch }) => batch.value(0, SOURCE[name]))
}
