import type { RowBound } from '../bounds/row.ts'
import { expected, LaxityError } from '../errors.ts'
import type { Arrivals, Feedback, Knowledge, NativeAddon } from '../native.ts'
import { type BatchResult, runBatch } from '../simulator/batch.ts'
import type { COLUMNS, Column } from '../simulator/chunk.ts'
import { RUN_KEYS, type RunOptions } from '../simulator/options.ts'
import type { Policy } from '../simulator/policies.ts'
import { prepare } from '../simulator/prepare.ts'
import { type ArrivalShape, isRandom } from '../simulator/read-arrivals.ts'
import { isAlpha, readOptions } from '../simulator/read-options.ts'
import { policyOf, type RunSetup, setupOf } from '../simulator/setup.ts'
import { loadNative } from '../simulator/simulate.ts'
import { type Fairness, fairnessOf, meanTenants, type TenantMetrics } from '../simulator/tenants.ts'
import { OptionReader } from '../simulator/validate.ts'
import type { TraceTable } from '../traces/table.ts'
import { SweepBounds } from './bounds.ts'
import { bestOf, indistinguishable, mean } from './choose.ts'
import { ascending, parseGrid } from './grid.ts'
import { type Eliminated, halve, plannedRuns } from './halving.ts'
import { type Objective, objectiveColumn, readObjective } from './objective.ts'

export interface SweepOptions extends RunOptions {
  /** Values of HexGen-Flow's dispatch weight, or a grid; default `0:1:0.1`. */
  alphas?: readonly number[] | string | undefined
  /**
   * Streams of arrivals per alpha, the same for every alpha; default 16. Recorded and fixed arrivals do not differ
   * between replications: with them it is 1.
   */
  replications?: number | undefined
  /** Default `p95`. */
  objective?: Objective | `attainment@${number}` | undefined
  /**
   * `grid` (default): every alpha has all replications. `halving`: they double from round to round while the worse half of
   * the alphas goes; 0 and 1 always stay.
   */
  search?: Search | undefined
  /** Also what no scheduler can be below (docs/bounds.md), and how far every alpha is from it. Default false. */
  bound?: boolean | undefined
}

export type Search = 'grid' | 'halving'

/** Means over the replications of one alpha. */
export interface SweepPoint {
  alpha: number
  p95Ms: number
  p99Ms: number
  meanMs: number
  sloScale95: number
  throughputPerS: number
  /** 95 % Student-t interval of the mean P95 over the replications; null with fewer than two, or infinite ones. */
  ci95Ms: [low: number, high: number] | null
  /** Share of workflows within scale × base, at ascending scales. */
  attainment: [scale: number, share: number][]
  /** Where the trace has several tenants: means over the replications. */
  tenants?: TenantMetrics[]
  fairness?: Fairness
  /** With the option `bound`: geometric means over the replications of Req / bound. */
  bound?: RowBound
}

export interface SweepResult {
  objective: Objective
  policy: Policy
  knowledge: Knowledge
  feedback: Feedback
  arrivals: Arrivals
  /** Workflows per second; undefined with the arrivals of the trace. */
  rate: number | undefined
  /** The prediction errors as text; undefined without. */
  error: string | undefined
  replications: number
  trace: Pick<TraceTable, 'source' | 'workflows' | 'calls' | 'context'>
  cluster: string
  /** By ascending alpha; with `halving` those that were not eliminated. All have the same replications. */
  points: SweepPoint[]
  best: {
    /** The best mean objective; of equals the smallest alpha. */
    alpha: number
    /**
     * Other alphas that the data cannot tell from the best: the paired 95 % confidence interval of the difference in
     * the objective includes 0. One replication separates nothing: then it is every other alpha.
     */
    indistinguishable: number[]
  }
  search: Search
  /** By round, then alpha; none with `grid`. */
  eliminated: Eliminated[]
  /** Simulations made. */
  runs: number
  /** Parameters of generated arrivals beside their rate. */
  arrivalShape: ArrivalShape
  /** Every assumption of the runs, as plain JSON. */
  setup: RunSetup
  timing: {
    /** Wall time of all runs, with the start of workers. */
    sweepMs: number
    /** Thread CPU time of all runs. */
    cpuMs: number
    simulatedCalls: number
    /** Threads; 0 = this one. */
    workers: number
    /** Mean thread CPU time of a run: one alpha, one replication. */
    perRunMs: number
  }
}

export const SWEEP_KEYS: readonly string[] = [
  ...RUN_KEYS,
  ...(['alphas', 'replications', 'objective', 'search', 'bound'] satisfies (keyof SweepOptions)[]),
]

const DEFAULT_GRID = '0:1:0.1'
const DEFAULT_REPLICATIONS = 16
const MOST_REPLICATIONS = 10_000
const MOST_RUNS = 1_000_000

/**
 * Simulates every alpha of a grid over common random arrivals (HexGen-Flow's tuning loop, arXiv 2505.05286 eq. 8) and
 * says which is best and which are not worse. The result is the same to the byte for any number of workers.
 *
 * @throws LaxityError as `simulate`.
 */
export async function sweep(options: SweepOptions): Promise<SweepResult> {
  const native = await loadNative()
  const reader = new OptionReader(options, SWEEP_KEYS)
  const checked = readOptions(reader, native.parameters)
  const alphas = readAlphas(reader)
  const asked = reader.whole('replications', undefined, 1, MOST_REPLICATIONS)
  const objective = readObjective(reader)
  const search = reader.oneOf('search', ['grid', 'halving'] as const, 'grid' as const)
  const isBounded = reader.boolean('bound')
  if (alphas.length * (asked ?? 1) > MOST_RUNS) reader.add(`More than ${MOST_RUNS} runs`, 'replications')
  const prepared = await prepare(native, reader, checked)

  const { trace, run } = prepared
  const replications = chooseReplications(asked, run.arrivals)
  const scales = curveScales(run.sloScale, objective)
  const started = performance.now()
  const table = new SweepTable(replications)
  const planned = search === 'grid' ? alphas.length * replications : plannedRuns(alphas, replications)
  let workers = 0
  const bounds = isBounded ? new SweepBounds(prepared, checked.workers, checked.signal) : undefined
  const evaluate = async (arms: readonly number[], from: number, to: number) => {
    const batch = await runBatch(prepared, {
      variants: arms.flatMap((arm) =>
        Array.from({ length: to - from }, (_, r) => ({ alpha: alphas[arm]!, replication: from + r })),
      ),
      scales,
      workers: checked.workers,
      background: checked.background,
      signal: checked.signal,
      onProgress: progressOf(checked.onProgress, table.runs, planned, trace.workflows),
    })
    workers = Math.max(workers, batch.workers)
    table.add(batch, arms, from, to)
    await bounds?.add(
      arms.map((arm) => alphas[arm]!),
      from,
      to,
    )
  }
  const costsOf = (arm: number, count: number) => table.costs(arm, objective, scales).subarray(0, count)
  let arms = [...alphas.keys()]
  let eliminated: Eliminated[] = []
  if (search === 'grid') await evaluate(arms, 0, replications)
  else ({ arms, eliminated } = await halve(alphas, replications, evaluate, costsOf))
  const sweepMs = performance.now() - started

  const costs = arms.map((arm) => costsOf(arm, replications))
  const best = bestOf(costs)
  const alphaOf = (k: number) => alphas[arms[k]!]!
  const cpuMs = table.total('cpuMs')
  return {
    objective,
    policy: policyOf(run),
    knowledge: run.knowledge,
    feedback: run.feedback,
    arrivals: run.arrivals,
    rate: run.arrivals === 'trace' ? undefined : run.rate,
    error: checked.error?.text,
    replications,
    trace: {
      source: trace.source,
      workflows: trace.workflows,
      calls: trace.calls,
      ...(trace.context !== undefined && { context: trace.context }),
    },
    cluster: prepared.cluster.name,
    points: arms.map((arm) => ({
      ...table.point(native, arm, alphas[arm]!, scales),
      ...(bounds && { bound: bounds.of(alphas[arm]!) }),
    })),
    best: {
      alpha: alphaOf(best),
      indistinguishable: indistinguishable(native, costs, best).map(alphaOf),
    },
    search,
    eliminated,
    runs: table.runs,
    arrivalShape: checked.shape,
    setup: setupOf(prepared, checked.error?.text, { replications }),
    timing: {
      sweepMs,
      cpuMs,
      simulatedCalls: table.total('calls'),
      workers,
      perRunMs: cpuMs / table.runs,
    },
  }
}

/** Progress of one batch as that of all. */
function progressOf(
  onProgress: RunOptions['onProgress'],
  doneBefore: number,
  planned: number,
  workflows: number,
): RunOptions['onProgress'] {
  if (onProgress === undefined) return undefined
  return ({ doneRuns, totalRuns, doneWorkflows }) => {
    const total = Math.max(planned, doneBefore + totalRuns)
    onProgress({
      doneRuns: doneBefore + doneRuns,
      totalRuns: total,
      doneWorkflows: doneBefore * workflows + doneWorkflows,
      totalWorkflows: total * workflows,
    })
  }
}

/** The runs of all batches, by arm and replication. */
class SweepTable {
  runs = 0
  readonly #replications: number
  readonly #cells: { batch: BatchResult; run: number }[][] = []

  constructor(replications: number) {
    this.#replications = replications
  }

  /** A batch of the replications `from` to `to − 1` of these arms; those before must be there. */
  add(batch: BatchResult, arms: readonly number[], from: number, to: number): void {
    let run = 0
    for (const arm of arms) {
      this.#cells[arm] ??= []
      for (let r = from; r < to; r++) this.#cells[arm]![r] = { batch, run: run++ }
    }
    this.runs += run
  }

  column(arm: number, name: Column): Float64Array {
    return this.#over(arm, ({ batch, run }) => batch.value(run, name))
  }

  total(name: (typeof COLUMNS)[number]): number {
    let sum = 0
    for (const cells of this.#cells) for (const { batch, run } of cells) sum += batch.value(run, name)
    return sum
  }

  /** Smaller is better. */
  costs(k: number, objective: Objective, scales: Float64Array): Float64Array {
    const column = objectiveColumn(objective)
    if (column !== undefined) return this.column(k, column)
    const scale = scales.indexOf((objective as { attainment: number }).attainment)
    return this.#over(k, ({ batch, run }) => -batch.attainment(run, scale))
  }

  point(native: NativeAddon, k: number, alpha: number, scales: Float64Array): SweepPoint {
    const p95 = this.column(k, 'p95Ms')
    const interval = p95.length > 1 && p95.every(Number.isFinite) ? native.meanInterval(p95) : undefined
    const share = (_: number, scale: number): [number, number] => [
      scales[scale]!,
      mean(this.#over(k, ({ batch, run }) => batch.attainment(run, scale))),
    ]
    return {
      alpha,
      p95Ms: mean(p95),
      p99Ms: mean(this.column(k, 'p99Ms')),
      meanMs: mean(this.column(k, 'meanMs')),
      sloScale95: mean(this.column(k, 'sloScale95')),
      throughputPerS: mean(this.column(k, 'throughputPerS')),
      ci95Ms: interval ? [interval.low, interval.high] : null,
      attainment: Array.from(scales, share),
      ...this.#tenants(k),
    }
  }

  #tenants(k: number): Pick<SweepPoint, 'tenants' | 'fairness'> {
    const runs = this.#cells[k]!.map(({ batch, run }) => batch.tenants(run))
    if (runs[0]!.length === 0) return {}
    const indices = runs.map(fairnessOf)
    const meanOf = (name: keyof Fairness) => mean(Float64Array.from(indices, (index) => index[name]))
    const fairness = { attainment: meanOf('attainment'), normalisedLatency: meanOf('normalisedLatency') }
    return { tenants: meanTenants(runs), fairness }
  }

  #over(k: number, value: (cell: { batch: BatchResult; run: number }) => number): Float64Array {
    return Float64Array.from(this.#cells[k]!.slice(0, this.#replications), value)
  }
}

function readAlphas(reader: OptionReader): number[] {
  const given = reader.raw('alphas') ?? DEFAULT_GRID
  let alphas: number[] = []
  if (typeof given === 'string') {
    try {
      alphas = parseGrid(given, 'alphas')
    } catch (error) {
      reader.problems.absorb(error)
      return []
    }
  } else if (Array.isArray(given) && given.length > 0) {
    alphas = given
  } else {
    reader.wrong('a grid or an array of numbers', 'alphas', given)
    return []
  }
  const bad = alphas.find((alpha) => !isAlpha(alpha))
  if (bad !== undefined) {
    reader.add(expected('numbers from 0 to 1', 'alphas', bad), 'alphas')
    return []
  }
  return ascending(alphas)
}

/** Recorded and fixed arrivals are the same in every replication. */
function chooseReplications(asked: number | undefined, arrivals: Arrivals): number {
  if (isRandom(arrivals)) return asked ?? DEFAULT_REPLICATIONS
  if (asked !== undefined && asked > 1) {
    const message = `Expected 1 for \`replications\`, got ${asked}: with ${arrivals} arrivals every replication is the same`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'replications')
  }
  return 1
}

/** 1, 1.5, …, 10, the deadline's scale and the objective's. */
function curveScales(sloScale: number, objective: Objective): Float64Array {
  const scales = Array.from({ length: 19 }, (_, i) => 1 + i / 2)
  scales.push(sloScale)
  if (typeof objective === 'object') scales.push(objective.attainment)
  return Float64Array.from(ascending(scales))
}
