import type { ClusterConfig } from '../cluster/config.ts'
import type { EngineMode } from '../cluster/modes.ts'
import type { Arrivals, Binding, Feedback, Knowledge } from '../native.ts'
import type { TraceTable } from '../traces/table.ts'
import type { Policy } from './policies.ts'

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
  /** A preset's name (`hexgen-hetero-1`, `hexgen-hetero-2`, `hexgen-homo`), the path of a JSON file, or its content. */
  cluster: string | ClusterConfig
  /** A preset (`vllm`, `hexgen-flow`, `laxity`) or the parts; `order`, `placement` and `binding` override it. */
  policy?: string | (Omit<Policy, 'binding'> & { binding?: Binding | undefined }) | undefined
  /** Default `urgency`. */
  order?: string | undefined
  /** Default `workload-balanced`. */
  placement?: string | undefined
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
  /** What the scheduler is told of the future. Default `template` where the trace ships one, else `online`. */
  knowledge?: Knowledge | undefined
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
  /** Default `template` where the trace ships one, else `exclusive`. */
  sloBase?: 'template' | 'exclusive' | undefined
  /** Default 1. */
  seed?: number | undefined
  /** Permutes ties between equal instances; 0 (default) keeps their order. */
  tieSeed?: number | undefined
  /** Emulates quirks of the authors' simulator; default `none`. */
  compat?: 'none' | 'hexgen' | 'hexgen-ticks' | undefined
  /** Checks the conservation laws at every event (slow). */
  laws?: boolean | undefined
  /** Worker threads; 0 runs in this thread. Default: 0 for small jobs, else max(1, cores − 1). */
  workers?: number | undefined
  /** Stops the run at once; the promise rejects with ERR_LAXITY_ABORTED. */
  signal?: AbortSignal | undefined
  /** Called at most about ten times a second. */
  onProgress?: ((progress: Progress) => void) | undefined
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
  'feedback',
  'lookahead',
  'arrivals',
  'rate',
  'sloScale',
  'sloBase',
  'seed',
  'tieSeed',
  'compat',
  'laws',
  'workers',
  'signal',
  'onProgress',
] as const satisfies readonly (keyof RunOptions)[]

export const SIMULATE_KEYS: readonly string[] = [
  ...RUN_KEYS,
  ...(['alpha', 'replication', 'perCall', 'log'] satisfies (keyof SimulateOptions)[]),
]

export { RUN_KEYS }
