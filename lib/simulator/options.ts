import type { ClusterConfig } from '../cluster/config.ts'
import type { EngineMode } from '../cluster/modes.ts'
import type {
  Arrivals,
  Binding,
  Feedback,
  Knowledge,
  PairOptions,
  Planning,
  RateStep,
  ScriptStep,
  SloBase,
} from '../native.ts'
import type { PlacementFunction } from '../scheduler/placement.ts'
import type { TraceTable } from '../traces/table.ts'
import type { AutoTuneOptions } from '../tuning/auto-options.ts'
import type { Policy } from './policies.ts'
import type { PredictionErrorOptions } from './prediction-error.ts'
import { PAIR_NAMES } from './read-pairs.ts'
import type { ToldFuture } from './read-planning.ts'
import type { TenantOptions, TenantSplit } from './read-tenants.ts'

export interface Progress {
  doneRuns: number
  totalRuns: number
  /** Over all runs. */
  doneWorkflows: number
  totalWorkflows: number
}

/** What `simulate` and `sweep` share. */
export interface RunOptions {
  /** A table in memory, the path of a trace file, or what gives a table: called when the options are known to be right. */
  trace: TraceTable | string | (() => Promise<TraceTable>)
  /** A preset's name (`clusterPresets`), the path of a JSON file, or its content. */
  cluster: string | ClusterConfig
  /**
   * A preset (`vllm`, `hexgen-flow`, `laxity`; on prefill-decode clusters `hexagent`, `laxity`) or the parts; `order`,
   * `placement` and `binding` override it.
   */
  policy?: string | (Pick<Policy, 'order' | 'placement'> & { binding?: Binding | undefined }) | undefined
  /** Default `urgency`; on prefill-decode clusters `ratio`. */
  order?: string | undefined
  /**
   * Default `workload-balanced`; on prefill-decode clusters `earliest-finish`. A function (unified clusters) is called for every call to place, in this thread: the run then uses no
   * worker, whatever `workers` says. Its failure is ERR_LAXITY_PLACEMENT.
   */
  placement?: string | PlacementFunction | undefined
  /** Default `at-reveal`; `at-credit` for placements with one shared queue. */
  binding?: Binding | undefined
  /** Scale of HexGen-Flow's queue term, s²; default: the square of the template's mean stage time, else of the calls seen so far. */
  beta?: number | undefined
  /** Further parameters of order and placement by name. */
  parameters?: Record<string, number> | undefined
  /** Engine mode of every instance; default: each instance's own. */
  mode?: EngineMode | undefined
  /** Budget of every instance in mode `chunked`, tokens; default: each instance's own, 512 where it has none. */
  chunkTokens?: number | undefined
  /** Decode share of every instance in mode `decode-share`, 0.001 to 0.999; default: each instance's own, else 0.5. */
  decodeShare?: number | undefined
  /**
   * Tokens of each instance's prefix cache in GPU memory, instead of the cluster's own `prefixCacheTokens`; 0 = no
   * prefix caches at all. Slower tiers stay those of the cluster.
   */
  prefixCache?: number | undefined
  /**
   * Errors of the scheduler's predictions, as parts or as text (`length=lognormal:0.4,time=gpu:0.2,batch=0.5`); none by
   * default. With knowledge `oracle` lengths stay true.
   */
  error?: string | PredictionErrorOptions | undefined
  /** What the scheduler is told of the future. Default `template` where the trace ships one, else `online`. */
  knowledge?: Knowledge | undefined
  /**
   * What the trace's stage template expects: the mean workflow (default), or the most it may do, of which budgets give
   * back what did not happen. SLOs are derived from the mean one in either case.
   */
  template?: 'mean' | 'pessimistic' | undefined
  /** Default `boundary`. */
  feedback?: Feedback | undefined
  /** Leases beyond the engine's room; default 0 with `boundary`, 1 with `lease`. */
  lookahead?: number | undefined
  /** Default `trace` where the trace records arrivals and no `rate` is given, else `poisson`. */
  arrivals?: Arrivals | undefined
  /** Workflows per second; default 0.5. */
  rate?: number | undefined
  /** Deadline = arrival + sloScale × base; default 5. */
  sloScale?: number | undefined
  /**
   * What SLO scales multiply: the template's time, each workflow's exclusive time, or its final horizon (alone on the
   * idle cluster). Default `horizon` on prefill-decode clusters, else `template` where the trace ships one, else `exclusive`.
   */
  sloBase?: SloBase | undefined
  /**
   * What the scheduler is told of: the deadlines of `sloScale` (`slo`), or none but a declared SLO's (`none`), so that orders that
   * need one take arrival + `horizonFactor` × the horizon so far. Default `slo`; `none` where the base is the final horizon, which no
   * scheduler can know, and neither `sloScale` nor `tenants` are given.
   */
  deadlines?: 'slo' | 'none' | undefined
  /** Default 1. */
  seed?: number | undefined
  /** Permutes ties between equal instances; 0 (default) keeps their order. */
  tieSeed?: number | undefined
  /** Seed of placements that draw, as `power-of-two`; default 1. */
  placementSeed?: number | undefined
  /**
   * Lets an instance with room take a waiting call of another queue where that saves more than `migrateMs` (a parameter,
   * 500 by default; `migrateCandidates`, 8, bounds the search in each queue). At-reveal only; default that of the preset (`laxity`: on), else off.
   */
  migrate?: boolean | undefined
  /**
   * Emulates quirks of another simulator, HexGen-Flow's, DistServe's or splitwise-sim's (docs/simulator.md); default
   * `none`.
   */
  compat?: 'none' | 'hexgen' | 'hexgen-ticks' | 'distserve' | 'splitwise' | undefined
  /** Checks the conservation laws at every event (slow). */
  laws?: boolean | undefined
  /** Worker threads; 0 runs in this thread. Default: 0 for small jobs, else max(1, cores − 1). */
  workers?: number | undefined
  /**
   * Worker threads give way to others (on Linux, by ten nice levels; elsewhere nothing changes). Default: true while a live `Scheduler` is
   * open in this process, so that what it decides does not wait for them.
   */
  background?: boolean | undefined
  /** Stops the run at once; the promise rejects with ERR_LAXITY_ABORTED. */
  signal?: AbortSignal | undefined
  /** Called at most about ten times a second. */
  onProgress?: ((progress: Progress) => void) | undefined
  /** With arrivals `gamma`: coefficient of variation of the gaps, 0.01 to 100; default 2. */
  cv?: number | undefined
  /** With arrivals `bursts`: mean workflows per burst (geometric, Poisson bursts), 1 to 10⁶; default 20. */
  burstSize?: number | undefined
  /** With arrivals `bursts`: time between the workflows of one burst, 0 to 10⁹ ms; default 60. */
  burstGapMs?: number | undefined
  /** Generated arrivals come at `factor` times the rate from `fromMs` on and for `lengthMs`; or `fromMs:lengthMs:factor`. */
  rateStep?: RateStep | string | undefined
  /** Tenants and their SLO scales, as a list or as `name=scale@share,…`; default: those of the trace, with `sloScale`. */
  tenants?: readonly TenantOptions[] | string | undefined
  /** Default `trace` where the trace names several tenants and no share is given, else `blocks`. */
  tenantSplit?: TenantSplit | undefined
  /** `calibrated`: built-in GPUs take the calibrated roofline instead of their constants; default `constants`. */
  latency?: 'constants' | 'calibrated' | undefined
  /** Model, GPU and tensor parallelism of every instance that has a GPU, by the ids of the calibrated roofline. */
  model?: string | undefined
  gpu?: string | undefined
  tp?: number | undefined
  /** Prefill-decode clusters: when a call asks for room on its decode instance, at its lease (default `early`) or first token. */
  reserve?: PairOptions['reserve'] | undefined
  /** Prefill-decode: KV waits for that room where it was computed (default `none`), or beside the decode instance. */
  staging?: PairOptions['staging'] | undefined
  /** Prefill-decode: who gives that room, the scheduler in the policy's order (default), or the engine, first come first served. */
  decodeAdmission?: PairOptions['decodeAdmission'] | undefined
  /** Prefill-decode: whether transfers that share an end slow each other down; default `contended`. */
  links?: PairOptions['links'] | undefined
  /** Prefill-decode: calls behind one that finds no room may go first; default false. */
  backfill?: boolean | undefined
  /** Prefill-decode: the decode instance is chosen again at the first token; default false. */
  lateDecode?: boolean | undefined
  /** Prefill-decode: share of the KV that has moved when the prefill ends, 0 (default) to 1. */
  overlap?: number | undefined
  /**
   * Policies that plan (placement `earliest-finish` or `kv-price`, at-credit): plans are ready in the decide that makes them (`sync`,
   * default) or `planLatencyMs` later. Until then lookahead leases keep prefill instances busy (`async`), or each idle
   * one takes the first call by workflow-FCFS (`async-paper`, HexAGenT's own fallback).
   */
  planning?: Planning | undefined
  /** With asynchronous `planning`: how late a plan is, 0 (default) to 10⁹ ms. */
  planLatencyMs?: number | undefined
  /**
   * What callers tell of the standalone time that follows a call (orders `ratio`, `level-laxity`, `level-ratio`; docs/horizon.md): `exact`; sigma
   * (0 to 10) of an estimate of which exp(−2 sigma) counts; or a predictor of every workflow's final horizon and its sigma, also as
   * text (`predictor:0.3`), which the scheduler calibrates. Errors are lognormal. Default: nothing.
   */
  remaining?: ToldFuture | { predictor: number } | undefined
}

export interface SimulateOptions extends RunOptions {
  /** HexGen-Flow's dispatch weight in [0, 1]; default 0.3. */
  alpha?: number | undefined
  /** Another stream of arrivals from the same seed; default 0. */
  replication?: number | undefined
  /** Keep columns per call. */
  perCall?: boolean | undefined
  /** Record the event log. */
  log?: boolean | undefined
  /** Measure the thread CPU time of plans; default false. No other number depends on it. */
  timePlans?: boolean | undefined
  /** Tunes a parameter while the run goes on, in virtual time; `true`: alpha, with the defaults. Unified clusters. */
  autoTune?: AutoTuneOptions | boolean | undefined
  /**
   * What happens to the cluster, by ascending `atMs`: instances that are lost, drained or return, and engines that change
   * their speed. Unified clusters without prefix caches.
   */
  script?: readonly ScriptStep[] | undefined
}

const RUN_KEYS = [
  'trace',
  'cluster',
  'policy',
  'order',
  'placement',
  'binding',
  'beta',
  'parameters',
  'mode',
  'chunkTokens',
  'decodeShare',
  'knowledge',
  'template',
  'feedback',
  'lookahead',
  'arrivals',
  'rate',
  'sloScale',
  'sloBase',
  'deadlines',
  'seed',
  'tieSeed',
  'placementSeed',
  'migrate',
  'compat',
  'laws',
  'workers',
  'background',
  'signal',
  'onProgress',
  'cv',
  'burstSize',
  'burstGapMs',
  'rateStep',
  'tenants',
  'tenantSplit',
  'prefixCache',
  'error',
  'latency',
  'model',
  'gpu',
  'tp',
  ...PAIR_NAMES,
  'planning',
  'planLatencyMs',
  'remaining',
] as const satisfies readonly (keyof RunOptions)[]

export const SIMULATE_KEYS: readonly string[] = [
  ...RUN_KEYS,
  ...([
    'alpha',
    'replication',
    'perCall',
    'log',
    'timePlans',
    'autoTune',
    'script',
  ] satisfies (keyof SimulateOptions)[]),
]

export { RUN_KEYS }
