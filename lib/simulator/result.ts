import type { ResolvedCluster } from '../cluster/resolve.ts'
import { expected, LaxityError } from '../errors.ts'
import type { Arrivals, Feedback, Knowledge, NativeCluster, NativeRun, Planning } from '../native.ts'
import { callId, type TraceTable, workflowId } from '../traces/table.ts'
import type { Tuning } from '../tuning/auto-simulate.ts'
import type { Policy } from './policies.ts'
import type { ArrivalShape } from './read-arrivals.ts'
import type { Sacrifice } from './sacrifice.ts'
import type { RunSetup } from './setup.ts'
import { type StageMix, stageMix } from './stage-mix.ts'
import { type Fairness, fairnessOf, type TenantMetrics } from './tenants.ts'

/** Names and definitions as in the design's validation reference, section 5. */
export interface Metrics {
  /** Of workflow latency: arrival to the finish of the last call, unfinished = Infinity. */
  meanMs: number
  /** Upper empirical quantiles: the ceil(q × workflows)-th smallest latency. */
  p50Ms: number
  p95Ms: number
  p99Ms: number
  /** Smallest SLO scale that 95 % of the workflows meet. */
  sloScale95: number
  /** The same for 99 %. */
  sloScale99: number
  /** Completed workflows per second of makespan. */
  throughputPerS: number
  /** First arrival to last finish. */
  makespanMs: number
}

export interface Counts {
  workflows: number
  completed: number
  calls: number
  rejected: number
  /** Of running calls, for want of KV, back to the scheduler. */
  evictions: number
  /** The same, by an engine on its own (feedback `lease`). */
  hiddenEvictions: number
  events: number
}

/** What the prefix caches did, counted at the leases. */
export interface CacheCounts {
  /** Calls that found some of the prefix they share with their workflow. */
  hits: number
  /** Calls that found none of it. */
  misses: number
  /** Calls that found less than the hint at their reveal had promised. */
  stale: number
  /** Of all calls, evicted ones again for every attempt. */
  promptTokens: number
  /** Of these: what an endless cache on one instance would have held, in whole blocks. */
  sharedTokens: number
  /** Of these: found, and not computed again. */
  cachedTokens: number
  /** Of these: by calls that had to load some from a slower tier. */
  loadedTokens: number
  /** cachedTokens / promptTokens. */
  hitRate: number
}

/** How the two pools of a prefill-decode cluster were used. */
export interface PairUse {
  /** Busy share of the makespan, mean over the instances of the role. */
  prefillUtilisation: number
  decodeUtilisation: number
  /** Largest share of a decode instance's KV that was in use. */
  decodeKvPeak: number
  /** Where the policy plans. */
  planning?: PlanUse
}

export interface PlanUse {
  planning: Planning
  latencyMs: number
  plans: number
  /** Calls that waited, summed over the plans. */
  plannedCalls: number
  /** Thread CPU time of a plan with its keys and leases; with `timePlans`. */
  planUs?: { mean: number; p50: number; p99: number }
}

export interface WorkflowRow {
  index: number
  id: string
  arrivalMs: number
  /** Infinity where it did not complete. */
  latencyMs: number
  /** What SLO scales multiply. */
  baseMs: number
  /** latency / base: the smallest SLO scale it meets. */
  scale: number
  /** Where the trace has several tenants. */
  tenant?: string
}

export interface CallRow {
  /** Row of the trace's call columns. */
  index: number
  id: string
  stage: string
  /** Index into the cluster's instances. */
  instance: number
  readyMs: number
  leasedMs: number
  firstTokenMs: number
  finishedMs: number
  /** On prefill-decode clusters, where `instance` is the one that prefills: the one that decodes; 65535 = none. */
  decodeInstance?: number
  /** The KV begins to move, has moved, and the call joins a batch; NaN where it did not happen. */
  transferStartMs?: number
  transferredMs?: number
  decodeMs?: number
}

/** [calls] each, by trace row; times in ms of simulated time. */
export interface CallColumns {
  instance: Uint16Array
  readyMs: Float64Array
  leasedMs: Float64Array
  firstTokenMs: Float64Array
  finishedMs: Float64Array
  /** On prefill-decode clusters. */
  pairs?: PairColumns
}

export interface PairColumns {
  decodeInstance: Uint16Array
  transferStartMs: Float64Array
  transferredMs: Float64Array
  decodeMs: Float64Array
}

/** The configuration a log was recorded under. */
export interface LogHeader {
  run: NativeRun
  cluster: NativeCluster
  trace: { source: string; stages: readonly string[]; models: readonly string[] }
}

/** What one simulation gave. Columns are typed arrays by trace row; the methods are views over them. */
export interface SimulationData {
  trace: TraceTable
  cluster: ResolvedCluster
  policy: Policy
  knowledge: Knowledge
  feedback: Feedback
  arrivals: Arrivals
  rate: number | undefined
  metrics: Metrics
  counts: Counts
  /** Undefined where no instance has a prefix cache. */
  cache: CacheCounts | undefined
  /** Undefined on unified clusters. */
  pairs: PairUse | undefined
  /** The prediction errors as text; undefined without. */
  error: string | undefined
  /** What is declared of the time after a call: `exact`, or sigma of its error; null without. */
  remaining: string | null
  /** With `autoTune`. */
  tuning: Tuning | undefined
  /** With the parameter `sacrifice`. */
  sacrifice: Sacrifice | undefined
  /** [workflows] */
  latencyMs: Float64Array
  /** [workflows] */
  baseMs: Float64Array
  /** [workflows] */
  arrivalMs: Float64Array
  /** With `perCall`. */
  perCall: CallColumns | undefined
  /** With `log`: the binary event log. */
  log: Uint8Array | undefined
  logHeader: LogHeader | undefined
  timing: { wallMs: number; cpuMs: number; workers: number }
  tenants: readonly TenantMetrics[]
  arrivalShape: ArrivalShape
  setup: RunSetup
}

export class SimulationResult {
  readonly trace: TraceTable
  readonly cluster: ResolvedCluster
  readonly policy: Policy
  readonly knowledge: Knowledge
  readonly feedback: Feedback
  readonly arrivals: Arrivals
  /** Workflows per second; undefined with the arrivals of the trace. */
  readonly rate: number | undefined
  readonly metrics: Metrics
  readonly counts: Counts
  /** Undefined where no instance has a prefix cache. */
  readonly cache: CacheCounts | undefined
  /** Undefined on unified clusters. */
  readonly pairs: PairUse | undefined
  /** The prediction errors as text; undefined without. */
  readonly error: string | undefined
  /** What is declared of the time after a call: `exact`, or sigma of its error; null without. */
  readonly remaining: string | null
  /** What the auto-tuner did, and its regret; undefined without. */
  readonly tuning: Tuning | undefined
  /** What the parameter `sacrifice` cost and who paid; undefined without. */
  readonly sacrifice: Sacrifice | undefined
  readonly latencyMs: Float64Array
  readonly baseMs: Float64Array
  readonly arrivalMs: Float64Array
  readonly perCall: CallColumns | undefined
  readonly log: Uint8Array | undefined
  /** What replay needs beside the log. */
  readonly logHeader: LogHeader | undefined
  readonly timing: { readonly wallMs: number; readonly cpuMs: number; readonly workers: number }
  /** What each tenant got; empty where there is but one. */
  readonly tenants: readonly TenantMetrics[]
  /** Over the tenants; undefined where there is but one. */
  readonly fairness: Fairness | undefined
  /** Parameters of generated arrivals beside their rate. */
  readonly arrivalShape: ArrivalShape
  /** Every assumption of the run, as plain JSON. */
  readonly setup: RunSetup

  constructor(data: SimulationData) {
    this.trace = data.trace
    this.cluster = data.cluster
    this.policy = data.policy
    this.knowledge = data.knowledge
    this.feedback = data.feedback
    this.arrivals = data.arrivals
    this.rate = data.rate
    this.metrics = data.metrics
    this.counts = data.counts
    this.cache = data.cache
    this.pairs = data.pairs
    this.error = data.error
    this.remaining = data.remaining
    this.tuning = data.tuning
    this.sacrifice = data.sacrifice
    this.latencyMs = data.latencyMs
    this.baseMs = data.baseMs
    this.arrivalMs = data.arrivalMs
    this.perCall = data.perCall
    this.log = data.log
    this.logHeader = data.logHeader
    this.timing = data.timing
    this.tenants = data.tenants
    this.fairness = data.tenants.length > 0 ? fairnessOf(data.tenants) : undefined
    this.arrivalShape = data.arrivalShape
    this.setup = data.setup
  }

  /** @throws LaxityError ERR_LAXITY_OPTION where there is no such workflow. */
  workflow(index: number): WorkflowRow {
    if (!Number.isInteger(index) || index < 0 || index >= this.trace.workflows) {
      const what = `a workflow's index below ${this.trace.workflows}`
      throw new LaxityError('ERR_LAXITY_OPTION', expected(what, 'index', index), 'index')
    }
    const latencyMs = this.latencyMs[index]!
    const baseMs = this.baseMs[index]!
    return {
      index,
      id: workflowId(this.trace, index),
      arrivalMs: this.arrivalMs[index]!,
      latencyMs,
      baseMs,
      scale: latencyMs / baseMs,
      ...(this.tenants.length > 0 && {
        tenant: this.trace.tenants[this.trace.columns.tenant?.[index] ?? 0]!,
      }),
    }
  }

  *workflows(): Generator<WorkflowRow, void, undefined> {
    for (let index = 0; index < this.trace.workflows; index++) yield this.workflow(index)
  }

  /** The calls of a workflow in trace order; needs `perCall`. */
  calls(workflow: number): CallRow[] {
    const columns = this.#perCall('calls()')
    const { index: w } = this.workflow(workflow)
    const { firstCall, stage } = this.trace.columns
    const first = firstCall[w]!
    return Array.from({ length: firstCall[w + 1]! - first }, (_, position) => {
      const index = first + position
      return {
        index,
        id: callId(this.trace, w, position),
        stage: this.trace.stages[stage[index]!] ?? String(stage[index]),
        instance: columns.instance[index]!,
        readyMs: columns.readyMs[index]!,
        leasedMs: columns.leasedMs[index]!,
        firstTokenMs: columns.firstTokenMs[index]!,
        finishedMs: columns.finishedMs[index]!,
        ...(columns.pairs && pairRow(columns.pairs, index)),
      }
    })
  }

  /** Share of all workflows with latency <= scale × base; unfinished ones never meet it. */
  attainment(scale: number): number {
    if (typeof scale !== 'number' || !(scale > 0)) {
      throw new LaxityError('ERR_LAXITY_OPTION', expected('a positive number', 'scale', scale), 'scale')
    }
    let met = 0
    for (const [index, latency] of this.latencyMs.entries()) if (latency <= scale * this.baseMs[index]!) met++
    return met / this.latencyMs.length
  }

  /** Which stages each instance served (HexGen-Flow, Table 2); needs `perCall`. */
  stageMix(): StageMix {
    return stageMix(this.trace, this.cluster, this.#perCall('stageMix()'))
  }

  #perCall(what: string): CallColumns {
    if (this.perCall !== undefined) return this.perCall
    throw new LaxityError('ERR_LAXITY_OPTION', `${what} needs a simulation with \`perCall\`: true`, 'perCall')
  }
}

function pairRow(columns: PairColumns, index: number) {
  return {
    decodeInstance: columns.decodeInstance[index]!,
    transferStartMs: columns.transferStartMs[index]!,
    transferredMs: columns.transferredMs[index]!,
    decodeMs: columns.decodeMs[index]!,
  }
}
