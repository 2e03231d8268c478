import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/**
 * The addon, typed. Only the facade talks to it: columns are typed arrays (over SharedArrayBuffer where workers share
 * them), times are milliseconds at this border and integer nanoseconds behind it. Native calls never throw on data:
 * they return a status, which `errors.ts` turns into one coded error.
 */
export interface NativeAddon {
  /** Registered names, in registry order. */
  readonly orders: readonly string[]
  readonly placements: readonly string[]
  /** Parameter names a run accepts (`alpha`, `beta`, …). */
  readonly parameters: readonly string[]
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

  /** Sizes of a generated CHESS-like workload, so that the caller can allocate the columns. */
  chessSize(options: ChessOptions): { workflows: number; calls: number; edges: number }
  /** Fills columns allocated with the sizes of `chessSize`. Stage ids follow CHESS_STAGES in lib/traces/chess.ts. */
  chessFill(options: ChessOptions, columns: TraceColumns): void

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

export interface NativeTrace {
  /** 0 = bound; otherwise the status of the first bad row. */
  readonly status: number
  readonly workflow: number
  /** Position of the bad call inside its workflow. */
  readonly call: number
  readonly largestCall: number
}

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

export interface NativeInstance {
  /** Index into `latencies`. Instances with the same model, latency and limits form one hardware class. */
  latency: number
  model: number
  kvTokens: number
  maxSequences: number
  mode: 'prefill-first'
}

export interface NativeCluster {
  instances: NativeInstance[]
  latencies: NativeLatency[]
  /** Stage templates (CONTRACT 9); workflows of a trace use template 0 where there is one. */
  templates: { stage: number; promptTokens: number; outputTokens: number }[][]
}

export type Binding = 'at-reveal' | 'at-credit'
export type Feedback = 'boundary' | 'lease'
export type Knowledge = 'online' | 'template' | 'declared' | 'oracle'
export type Arrivals = 'poisson' | 'fixed' | 'trace'

/** A policy and what it may know. */
export interface NativePolicy {
  order: string
  placement: string
  binding: Binding
  feedback: Feedback
  lookahead: number
  knowledge: Knowledge
  /** Values by name, see `NativeAddon.parameters`. */
  parameters: Record<string, number>
  /** Permutes ties between equal instances; 0 = identity. */
  tieSeed: number
  compat: 'none' | 'hexgen' | 'hexgen-ticks'
}

export interface NativeRun extends NativePolicy {
  arrivals: Arrivals
  /** Workflows per second; ignored for `trace`. */
  rate: number
  seed: number
  /** Replication number: another stream of arrivals from the same seed, common to every policy. */
  replication: number
  /** Deadline = arrival + sloScale × base. Overridden by the trace's own sloMs where it has one. */
  sloScale: number
  /** Base of deadlines and SLO scales: the template's time, or each workflow's exclusive time. */
  sloBase: 'template' | 'exclusive'
  /** Assert the conservation laws at every event (slow). */
  laws: boolean
}

export interface NativeOutputs {
  /** [workflows], ms from arrival to last finish; Infinity where the workflow did not complete. */
  latencyMs?: Float64Array
  /** [workflows], ms: the base of the workflow's SLO scale. */
  baseMs?: Float64Array
  /** [workflows], ms. */
  arrivalMs?: Float64Array
  /** [calls] each: which instance, and when the call became ready, was leased, had its first token, finished (ms). */
  instance?: Uint16Array
  readyMs?: Float64Array
  leasedMs?: Float64Array
  firstTokenMs?: Float64Array
  finishedMs?: Float64Array
  /** [scales] in, [scales] out: share of workflows within scale × base. */
  scales?: Float64Array
  attainment?: Float64Array
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
  throughputPerS: number
  /** Thread CPU time of the run. */
  cpuMs: number
}

export interface NativeSimulator {
  run(options: NativeRun, outputs: NativeOutputs): NativeResult
  /** Like run, and returns the binary log: records of `native/scheduler/events.h` and decisions, in order. */
  record(options: NativeRun, outputs: NativeOutputs): { result: NativeResult; log: Uint8Array }
}

/** See lib/scheduler. */
export interface NativeSchedulerConfig extends NativePolicy {
  latencies: NativeLatency[]
  templates: NativeCluster['templates']
}

export interface NativeScheduler {
  /**
   * Drains the ring, applies its events in the contract's order and decides once at the t of the last. Returns the
   * number of decisions, −1 if the ring was empty, −2 if its counters make no sense.
   */
  decide(): number
  /** Decisions of the last `decide`, `eventLayout.decisionBytes` each. */
  readonly decisions: Uint8Array
  /** Events the last `decide` refused: pairs (record number, status). */
  readonly refusals: Uint32Array
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
  /** 18 columns per instance (`lib/scheduler/snapshot.ts`); returns the number of instances. */
  instances(out: Float64Array): number
  /** now ms, leases granted, live workflows, calls ready without a lease, retries refused, retry tokens */
  totals(out: Float64Array): void
  /** 19 columns of a call; returns a status. */
  callInfo(slot: number, generation: number, out: Float64Array): number
  /** H of an open workflow. */
  horizonMs(workflow: number): number
  /** Waiting calls in pick order: slot, generation, key each. */
  queue(instance: number): Float64Array
  /** A reveal's record → status, chosen instance or −1, then instance, prefill, exec, projected finish (ms) each. */
  preview(record: Uint8Array): Float64Array
  /** observations, mean, high, observed calls, their tokens, summed absolute error, calls above the high */
  lengths(template: number, stage: number, out: Float64Array): void
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

function load(): NativeAddon {
  const require = createRequire(import.meta.url)
  const root = fileURLToPath(new URL('..', import.meta.url))
  try {
    return require('node-gyp-build')(root) as NativeAddon
  } catch (cause) {
    throw new Error(
      'laxity: the native addon could not be loaded. Run `npm rebuild laxity` (it needs a C++20 compiler, make and python3).',
      { cause },
    )
  }
}

export const native: NativeAddon = load()
