import type { EngineMode } from './cluster/modes.ts'
import type { Role } from './cluster/roles.ts'
import { loadAddon } from './load-addon.ts'
import type { PlacementFailure, PlacementFunction } from './scheduler/placement.ts'

/**
 * The addon, typed. Only the facade talks to it: columns are typed arrays (over SharedArrayBuffer where workers share
 * them), times are milliseconds at this border and integer nanoseconds behind it. Native calls never throw on data:
 * they return a status, which `errors.ts` turns into one coded error.
 */
export interface NativeAddon {
  /** Registered names, in registry order. */
  readonly orders: readonly string[]
  readonly placements: readonly string[]
  /** Those of prefill-decode clusters. */
  readonly pairPlacements: readonly string[]
  /** Parameter names a run accepts (`alpha`, `beta`, …). */
  readonly parameters: readonly string[]
  readonly parameterDefaults: Float64Array
  /** One sentence per status value, indexed by status. */
  readonly statusReasons: readonly string[]

  Trace: new (columns: TraceColumns) => NativeTrace
  Simulator: new (trace: NativeTrace, cluster: NativeCluster) => NativeSimulator
  /** `out`: what the last `decide` gave: header (decisions, refusals, freed: u32 each, pad, nextWake ns: f64), decisions. */
  Scheduler: new (
    config: NativeSchedulerConfig,
    ring: Uint8Array,
    out?: Uint8Array,
  ) => NativeScheduler
  readonly eventLayout: EventLayout
  /** The auto-tuner: fed with the scheduler's log. `cluster`: the latency models known at the start. */
  Tuner: new (
    options: NativeTunerOptions,
    cluster: Pick<NativeCluster, 'latencies'> & { pairs?: PairOptions },
    current: number,
  ) => NativeTuner
  /** What a window that `begin` gave says; for any thread. The numbers go to `arrived`. */
  sweepWindow(
    window: Uint8Array,
    cluster: Pick<NativeCluster, 'latencies' | 'templates'>,
    run: NativePolicy,
    options: NativeTunerOptions,
  ): Float64Array

  /** One latency model of any kind, by columns: what the simulator uses. */
  Latency: new (model: {
    latencies: [NativeLatency]
  }) => NativeLatencyModel
  /** The closed form of the calibrated roofline. */
  Roofline: new (
    spec: NativeRoofline,
  ) => NativeRooflineModel
  /** Built-in hardware, models, kernels and serving stacks (`native/model`). */
  readonly hardware: NativeHardware
  /**
   * Times of single kernels under trial constants, ms; the columns of `rows` stand in `native/binding/latency_wrap.cc`.
   */
  kernelTimes(
    kind: 'gemm' | 'prefill' | 'decode' | 'mixture',
    constants: Float64Array,
    rows: Float64Array,
    out: Float64Array,
  ): void

  /** Sizes of a generated CHESS-like workload, so that the caller can allocate the columns. */
  chessSize(options: ChessOptions): { workflows: number; calls: number; edges: number }
  /** Fills columns allocated with the sizes of `chessSize`. Stage ids follow CHESS_STAGES in lib/traces/chess.ts. */
  chessFill(options: ChessOptions, columns: TraceColumns): void
  /** The same for a MAC-SQL-like workload; stage ids follow MAC_SQL_STAGES in lib/traces/mac-sql.ts. */
  macSqlSize(options: MacSqlOptions): { workflows: number; calls: number; edges: number }
  macSqlFill(options: MacSqlOptions, columns: TraceColumns): void
  /** The same for workloads of agents; kinds, presets and stage ids follow lib/traces/agentic.ts. */
  agenticSize(options: AgenticSpec): { workflows: number; calls: number; edges: number }
  /** Wants the columns `cachedTokens` and `toolGapMs` too. */
  agenticFill(options: AgenticSpec, columns: TraceColumns): void

  /** Mean, its 95 % Student-t interval and the two-sided p value of the paired differences a − b (n ≥ 2). */
  pairedT(a: Float64Array, b: Float64Array): { mean: number; low: number; high: number; p: number }
  /** Mean of a and its 95 % Student-t interval (n ≥ 2). */
  meanInterval(a: Float64Array): { mean: number; low: number; high: number }
}

/** The columns of `native/workload/trace.h`, same names, same meaning. Optional columns may be left out. */
export interface TraceColumns {
  firstCall: Uint32Array
  arrivalMs?: Float64Array
  tenant?: Uint16Array
  sloMs?: Float64Array
  stage: Uint16Array
  model?: Uint16Array
  promptTokens: Uint32Array
  cachedTokens?: Uint32Array
  outputTokens: Uint32Array
  predictedTokens?: Uint32Array
  toolGapMs?: Float64Array
  parentOffset: Uint32Array
  parents: Uint32Array
}

export interface ChessOptions {
  workflows: number
  /** Which published trace's statistics to follow (HexGen-Flow traces 1, 2, 3). */
  preset: 1 | 2 | 3
  seed: number
}

export interface MacSqlOptions {
  workflows: number
  seed: number
}

/** `AgenticSpec` of native/workload/agentic.h. */
export interface AgenticSpec {
  kind: number
  context: number
  workflows: number
  chainCalls: number
  seed: number
}

export interface NativeTrace {
  /** 0 = bound; otherwise the status of the first bad row. */
  readonly status: number
  readonly workflow: number
  /** Position of the bad call inside its workflow. */
  readonly call: number
  readonly largestCall: number
}

/** Quirks of other simulators (`native/simulator/simulation.h`). */
export type Compat = 'none' | 'hexgen' | 'hexgen-ticks' | 'distserve' | 'splitwise'

export type NativeLatency =
  | {
      kind: 'constants'
      prefillBaseMs: number
      prefillPerTokenMs: number
      decodeBaseMs: number
      /** Per running sequence beyond the first. */
      decodePerSequenceMs: number
      /** Per token of context over all running sequences. */
      decodePerContextMs: number
    }
  | {
      kind: 'table'
      /** Prefill time by prompt length; linear between knots, proportional outside. Ascending. */
      tokens: Float64Array
      prefillMs: Float64Array
      decodeBaseMs: number
      decodePerSequenceMs: number
      decodePerContextMs: number
    }
  | ({ kind: 'roofline' } & NativeRoofline)
  | {
      kind: 'profile'
      /** Rows: batch. Columns: context per sequence. */
      decode: NativeGrid
      /** Rows: cached tokens. Columns: new tokens. */
      prefill: NativeGrid
    }
  | NativePolynomial

/** `native/model/polynomial.h`. Ascending; the first of each begins at 1. */
export interface NativePolynomial {
  kind: 'polynomial'
  prefill: { fromTokens: number; baseMs: number; perTokenMs: number; perTokenSquaredMs: number }[]
  decode: { fromSequences: number; baseMs: number; perSequenceMs: number; perContextMs: number }[]
}

/** Times over two axes of ascending knots, row by row; they never fall along either. Plain arrays: they go into logs. */
export interface NativeGrid {
  rows: number[]
  columns: number[]
  ms: number[]
}

/** `native/model/llm.h`. */
export interface NativeLlm {
  layers: number
  hidden: number
  queryHeads: number
  kvHeads: number
  headDim: number
  ffn: number
  vocabulary: number
  gated: boolean
  tiedEmbeddings: boolean
  experts: number
  expertsPerToken: number
  expertWidth: number
}

/** `native/model/gpu.h`: FLOP/s, B/s and bytes. */
export interface NativeGpu {
  flops16: number
  flops8: number
  bandwidth: number
  memory: number
  peer: number
  network: number
  pcie: number
  interconnect: 'switched' | 'pcie'
  kernels: string
  transferred: boolean
}

/** Time of an iteration = scale × kernels + fixed + perSequence × sequences that emit a token. */
export interface NativeStack {
  scale: number
  fixedMs: number
  perSequenceMs: number
}

export interface NativeRoofline {
  llm: NativeLlm
  gpu: NativeGpu
  tensorParallel: number
  weights: 'bf16' | 'fp8'
  kv: 'bf16' | 'fp8'
  stack: NativeStack
}

export interface NativeLatencyModel {
  /** ms of whole prefills. */
  prefill(newTokens: Uint32Array, cachedTokens: Uint32Array, out: Float64Array): void
  /** ms of decode iterations; context summed over the batch. */
  decode(batch: Uint32Array, context: Float64Array, out: Float64Array): void
  /** ms of one iteration that decodes `batch` sequences and computes one chunk on top of cached tokens. */
  mixed(batch: number, context: number, newTokens: number, cachedTokens: number): number
}

export interface NativeLink {
  efficiency?: number
  latencyMs?: number
  handshakeMs?: number
  compression?: number
  lanes?: number
  bandwidthGBps?: number
}

export interface NativeRooflineModel {
  /** 0, or why the core refused the description. */
  readonly status: number
  /** Rows of (sequences, context, pairs, new tokens, touched tokens, samples) to ms. */
  iterations(loads: Float64Array, out: Float64Array): void
  memory(
    utilisation: number,
    reserveBytes: number,
  ): {
    status: number
    kvTokens: number
    kvBytesPerToken: number
    weightBytes: number
    parameters: number
    activeParameters: number
  }
  /** ms; with `prefillMs` what remains after a prefill that layers are sent during. */
  transfer(to: NativeRooflineModel, tokens: number, link: NativeLink, prefillMs?: number): number
  load(tokens: number, tier: 'host' | 'disk' | 'network', link: NativeLink): number
}

export interface NativeHardware {
  readonly calibration: string
  readonly gpus: Readonly<Record<string, NativeGpu>>
  readonly models: Readonly<Record<string, NativeLlm>>
  /** Constants by kernel, in the order of `native/model/kernels.h`. */
  readonly kernelSets: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>
  readonly stacks: Readonly<Record<string, NativeStack>>
}

export interface NativeInstance {
  /** Index into `latencies`. Instances with the same model, latency and limits form one hardware class. */
  latency: number
  model: number
  kvTokens: number
  maxSequences: number
  mode: EngineMode
  /** Mode `chunked`: tokens of an iteration's budget; role `prefill`: of a batch of prompts; else 0. */
  chunkTokens: number
  /** Mode `decode-share`: speed of decode beside a prefill, in thousandths; else 0. */
  decodeShare: number
  /** Default `unified`. */
  role?: Role
  /** Other roles: time of a token's KV through this end of a link, alone, ms. */
  linkMsPerToken?: number
  /** The fixed part of a transfer at this end. */
  linkLatencyMs?: number
  /** Tiers of its prefix cache, the fastest (GPU memory, 0 ms) first; left out = none. */
  prefixCache?: { tokens: number; msPerToken: number }[]
}

export interface NativeCluster {
  instances: NativeInstance[]
  latencies: NativeLatency[]
  /** Stage templates (CONTRACT 9): the mean one, from which SLOs are derived, then the pessimistic one, if any. */
  templates: { stage: number; promptTokens: number; outputTokens: number }[][]
}

export type Binding = 'at-reveal' | 'at-credit'
export type Feedback = 'boundary' | 'lease'
export type Knowledge = 'online' | 'template' | 'declared' | 'oracle'
export type Arrivals = 'poisson' | 'fixed' | 'trace' | 'gamma' | 'bursts'

/** From `fromMs` on and for `lengthMs`, `factor` times the rate. */
export interface RateStep {
  fromMs: number
  lengthMs: number
  factor: number
}

/** A policy and what it may know. */
export interface NativePolicy {
  order: string
  /** A registered name, or a function that is called on this thread. */
  placement: string | PlacementFunction
  binding: Binding
  feedback: Feedback
  lookahead: number
  knowledge: Knowledge
  /** Values by name, see `NativeAddon.parameters`. */
  parameters: Record<string, number>
  /** Permutes ties between equal instances; 0 = identity. */
  tieSeed: number
  compat: Compat
  /** Seed of placements that draw (`power-of-two`); default 1. */
  placementSeed?: number
  /** Waiting calls may move to an instance that would finish them much sooner (`native/scheduler/migrate.h`). */
  migrate?: boolean
  /** How wrong its predictions are; left out = not at all. */
  error?: NativeError
  /** On prefill-decode clusters, and only there: then `placement` names a pair placement. */
  pairs?: PairOptions
}

export type Reserve = 'early' | 'late'
export type Staging = 'none' | 'unlimited'
export type DecodeAdmission = 'scheduler' | 'engine'
export type Links = 'contended' | 'free'
export type Planning = 'sync' | 'async' | 'async-paper'
export type SloBase = 'template' | 'exclusive' | 'horizon'

/** `native/cluster/pair_options.h`, same names, same meaning. */
export interface PairOptions {
  reserve: Reserve
  staging: Staging
  decodeAdmission: DecodeAdmission
  links: Links
  backfill: boolean
  lateDecode: boolean
  /** 0 to 1. */
  overlap: number
  /** Default `sync`. */
  planning?: Planning
}

/** `native/simulator/prediction_error.h`, same names, same meaning. */
export interface NativeError {
  length: 'none' | 'lognormal' | 'mean-absolute' | 'uniform' | 'bias' | 'heavy-tail'
  size: number
  share: number
  correlation: number
  gpu: number
  batch: number
  seed: number
}

/** `TunerOptions` of native/tuner/sweep.h. */
export interface NativeTunerOptions {
  parameter: number
  /** Ascending. */
  values: Float64Array
  windowMs: number
  latencyMs: number
  periodMs: number
  replications: number
  minGain: number
  significance: number
  agreement: number
  falseAlarmsPerHour: number
  calibrationRuns: number
  welchLevel: number
  welch: boolean
  ratio: boolean
  service: boolean
  load: boolean
  seed: number
}

/** Times in ns. */
export interface NativeTuner {
  feed(records: Uint8Array): void
  due(ns: number): boolean
  /** The recorded window; undefined where it holds too little. */
  begin(ns: number): Uint8Array | undefined
  arrived(ns: number, result: Float64Array): void
  /** From that event on; columns as in lib/tuning/auto-events.ts. */
  events(first: number): Float64Array
  /** -1 = nothing to wait for. */
  readonly nextWakeMs: number
}

/** `ScriptStep` of native/simulator/simulation.h. */
export interface ScriptStep {
  atMs: number
  /** Position in the cluster. */
  instance: number
  /** `down`: lost with its KV; `speed`: its times are multiplied by `factor` from now on, unknown to the scheduler. */
  kind: 'up' | 'drain' | 'down' | 'speed'
  factor?: number
}

export interface NativeRun extends NativePolicy {
  autoTune?: NativeTunerOptions
  script?: readonly ScriptStep[]
  arrivals: Arrivals
  /** Workflows per second; ignored for `trace`. */
  rate: number
  seed: number
  /** Replication number: another stream of arrivals from the same seed, common to every policy. */
  replication: number
  /** Deadline = arrival + sloScale × base. Overridden by the trace's own sloMs where it has one. */
  sloScale: number
  /** Base of deadlines and SLO scales: the template's time, or each workflow's exclusive time or final horizon. */
  sloBase: SloBase
  /** Which of the cluster's templates says what workflows are expected to do: 0 (default) or 1. SLOs always use 0. */
  template?: 'mean' | 'pessimistic'
  /** False: the scheduler is told of no deadline but a declared SLO's; default true. */
  deadlines?: boolean
  /** Assert the conservation laws at every event (slow). */
  laws: boolean
  /** For `gamma`: coefficient of variation of the gaps. */
  cv?: number
  /** For `bursts`: mean workflows per burst, and the gap inside one. */
  burstSize?: number
  burstGapMs?: number
  rateStep?: RateStep
  /** SLO scale by tenant, in place of `sloScale`. */
  tenantScales?: readonly number[]
  /** Asynchronous planning: ms from the decide that makes a plan to its arrival. */
  planLatencyMs?: number
  /** Measure the thread CPU time of plans. */
  timePlans?: boolean
  /**
   * Declared with every call: the standalone time after it, exact with sigma 0, else an estimate of that sigma; with `predictor` a
   * predicted final horizon with every workflow.
   */
  remaining?: { sigma: number; seed: number; predictor?: boolean }
}

export interface NativeOutputs {
  /** [workflows], ms from arrival to last finish; Infinity where the workflow did not complete. */
  latencyMs?: Float64Array
  /** [workflows], ms: the base of the workflow's SLO scale. */
  baseMs?: Float64Array
  /** [workflows], ms. */
  arrivalMs?: Float64Array
  /** [workflows]: 1 = put behind the others (parameter `sacrifice`). */
  sacrificed?: Uint8Array
  /** [calls] each: which instance, and when the call became ready, was leased, had its first token, finished (ms). */
  instance?: Uint16Array
  readyMs?: Float64Array
  leasedMs?: Float64Array
  firstTokenMs?: Float64Array
  finishedMs?: Float64Array
  /** Prefill-decode: which decode instance; when the transfer began, was done, and the call joined a batch. */
  decodeInstance?: Uint16Array
  transferStartMs?: Float64Array
  transferredMs?: Float64Array
  decodeMs?: Float64Array
  /** [scales] in, [scales] out: share of workflows within scale × base. */
  scales?: Float64Array
  attainment?: Float64Array
  /** [tenants × TENANT_COLUMNS] of lib/simulator/tenants.ts. */
  tenants?: Float64Array
  /** Int32 over shared memory: [0] ≠ 0 asks the run to stop, [1] counts finished workflows. */
  control?: Int32Array
}

export interface NativeResult {
  status: number
  workflows: number
  completed: number
  calls: number
  rejected: number
  evictions: number
  events: number
  makespanMs: number
  meanMs: number
  p50Ms: number
  p95Ms: number
  p99Ms: number
  /** Smallest scale that 95 % of the workflows meet. */
  sloScale95: number
  sloScale99: number
  throughputPerS: number
  /** Prefill-decode: busy share of the makespan, mean over the instances of the role. */
  prefillUtilisation: number
  decodeUtilisation: number
  /** Prefill-decode: largest share of a decode instance's KV in use. */
  decodeKvPeak: number
  /** Where the policy plans: how many plans, and calls that waited, summed over them. */
  plans?: number
  plannedCalls?: number
  /** Thread CPU time of a plan with its keys and leases, with `timePlans`. */
  planMeanUs?: number
  planP50Us?: number
  planP99Us?: number
  /** Evictions that an engine dealt with on its own (feedback `lease`); `evictions` are those the scheduler saw. */
  hiddenEvictions: number
  /** Leases that found some, or none, of their shared prefix; that found less than the hint had promised. */
  cacheHits: number
  cacheMisses: number
  cacheStale: number
  /** Prompt tokens of all leases; of these shared, found, found in a slower tier. All 0 without prefix caches. */
  cachePromptTokens: number
  cacheSharedTokens: number
  cacheFoundTokens: number
  cacheLoadedTokens: number
  /** Thread CPU time of the run. */
  cpuMs: number
  /** With `autoTune`: see lib/tuning/auto-events.ts; simulations that its sweeps made. */
  tunerEvents?: Float64Array
  tunerRuns?: number
  /** Leases that were lost with their instance. */
  lostLeases?: number
  /** Where a placement function ended the run. */
  placementFailure?: PlacementFailure | null
}

/** A lower bound on Req for some shares of the workflows (`native/bounds/bound.h`). */
export interface NativeBound {
  status: number
  bounds: {
    tau: number
    /** No schedule has a smaller Req; Infinity where never so many can end in time. */
    ratio: number
    /** It is that of the critical paths alone. */
    isolated: boolean
    /** What bounds: shares of the proof's capacity that sum to 1; all 0 where `isolated`. */
    shares: { prefill: number; kv: number; sequences: number; latency: number }
  }[]
  /** Ratios looked at, and linear programs solved. */
  evaluations: number
  rounds: number
  /** Thread CPU time. */
  cpuMs: number
}

/** What a search that knows the future reaches: achievable, not optimal (`native/bounds/clairvoyant.h`). */
export interface NativeReference {
  status: number
  references: {
    tau: number
    /** The smallest Req of any of its runs; Infinity where so many never end. */
    ratio: number
    /** Simulations until it was found, over all taus. */
    evaluations: number
  }[]
  /** Thread CPU time. */
  cpuMs: number
}

export interface NativeSimulator {
  /** `taus`: shares of the workflows, in (0, 1]. Status 17 with compat hexgen-ticks. */
  bound(options: NativeRun, taus: Float64Array): NativeBound
  /** `evaluations`: simulations for each tau. */
  reference(options: NativeRun, taus: Float64Array, evaluations: number): NativeReference
  run(options: NativeRun, outputs: NativeOutputs): NativeResult
  /** Like run, and returns the binary log: records of `native/scheduler/events.h` and decisions, in order. */
  record(options: NativeRun, outputs: NativeOutputs): { result: NativeResult; log: Uint8Array }
}

/** See lib/scheduler. */
export interface NativeSchedulerConfig extends NativePolicy {
  /** What deadlines are multiples of; default `exclusive`, as for deadlines of a caller. */
  sloBase?: NativeRun['sloBase']
  latencies: NativeLatency[]
  templates: NativeCluster['templates']
}

export interface NativeScheduler {
  /**
   * Drains the ring, applies its events in the contract's order and decides once at the t of the last. Returns the
   * number of decisions, −1 if the ring was empty, −2 if its counters make no sense, −3 if the placement function
   * failed: decisions made before it stand, the call keeps its state, and the next decide asks again.
   */
  decide(): number
  /** Decisions of the last `decide`, `eventLayout.decisionBytes` each. */
  readonly decisions: Uint8Array
  /** Events the last `decide` refused: pairs (record number, status). */
  readonly refusals: Uint32Array
  /** Why the last `decide` returned −3. */
  readonly placementFailure: PlacementFailure | null
  /** When a timer event is wanted; null = never. */
  readonly nextWakeMs: number | null
  /** Applies a whole log natively and compares its decisions byte for byte. */
  applyLog(records: Uint8Array): { decisions: number; firstMismatch: number }
  /** Derives the ledger again from the calls and compares (tests). */
  audit(): boolean
  /** Workflow slots whose records were freed by the last `decide`. */
  readonly freed: Uint32Array
  setLogging(on: boolean): void
  /** The records logged since the last call. */
  takeLog(): Uint8Array
  /** 21 columns per instance (`lib/scheduler/snapshot.ts`); returns the number of instances. */
  instances(out: Float64Array): number
  /** now ms, leases granted, live workflows, calls ready without a lease, retries refused, retry tokens, KV expired, revoked, plans, calls planned */
  totals(out: Float64Array): void
  /** Weighted tokens of finished calls and weight, by tenant id. */
  attained(): Float64Array
  /** Of a call that was leased in the last decide. */
  predictedTtftMs(slot: number): number
  /** 20 columns of a call; returns a status. */
  callInfo(slot: number, generation: number, out: Float64Array): number
  /** H of an open workflow. */
  horizonMs(workflow: number): number
  /** Waiting calls in pick order: slot, generation, key each. */
  queue(instance: number): Float64Array
  /** A reveal's record → status, chosen instance or −1, then instance, prefill, exec, projected finish (ms) each. */
  preview(record: Uint8Array): Float64Array
  /** observations, mean, high, observed calls, their tokens, summed absolute error, calls above the high */
  lengths(template: number, stage: number, out: Float64Array): void
  /** Stage, prompt tokens, output tokens for each stage of a template, as they are now. */
  stages(template: number): Float64Array | undefined
}

export interface EventField {
  readonly name: string
  readonly offset: number
  readonly type: 'u8' | 'u16' | 'u32' | 'i16' | 'i32' | 'i64' | 'u64' | 'f64'
}

/** `native/scheduler/events.h`, as the addon was compiled. */
export interface EventLayout {
  readonly recordBytes: number
  readonly decisionBytes: number
  readonly inlineParents: number
  readonly parentsOffset: number
  readonly moreParents: number
  readonly moreParentsOffset: number
  readonly kinds: readonly {
    readonly name: string
    readonly id: number
    readonly fields: readonly EventField[]
  }[]
}

export const native: NativeAddon = loadAddon()
