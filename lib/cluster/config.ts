import type { EngineMode } from './modes.ts'

/** Service times by formula, in milliseconds. */
export interface ConstantLatency {
  kind: 'constants'
  /** Added to every prefill; default 0. */
  prefillBaseMs?: number | undefined
  prefillPerTokenMs: number
  /** Time of one decode iteration with one running sequence. */
  decodeBaseMs: number
  /** Per running sequence beyond the first; default 0. */
  decodePerSequenceMs?: number | undefined
  /** Per token of context over all running sequences; default 0. */
  decodePerContextMs?: number | undefined
}

/** Prefill times measured at some prompt lengths: linear between the knots, proportional outside. */
export interface TableLatency {
  kind: 'table'
  /** `[tokens, ms]` with ascending tokens. */
  prefill: [number, number][]
  decodeBaseMs: number
  decodePerSequenceMs?: number | undefined
  decodePerContextMs?: number | undefined
}

export type LatencyConfig = ConstantLatency | TableLatency

export interface InstanceConfig {
  /** A built-in GPU: `a100`, `a6000`, `l40s` (any case). Gives latency, KV size and sequence limit. */
  gpu?: string | undefined
  /** Or an id of `latencies`; then `kvTokens` is required. */
  latency?: string | undefined
  /** How many of this kind; default 1. */
  count?: number | undefined
  /** Which model it serves; may be left out when the trace uses one model. */
  model?: string | undefined
  /** KV cache size in tokens. */
  kvTokens?: number | undefined
  /** Largest number of running sequences; default 256. */
  maxSequences?: number | undefined
  /** How the engine mixes prefill and decode; default `prefill-first`. */
  mode?: EngineMode | undefined
  /** Mode `chunked`: tokens of an iteration's budget, decodes included; default 512. */
  chunkTokens?: number | undefined
  /** Mode `decode-share`: speed of decode beside a prefill, which gets the rest; steps of 0.001, default 0.5. */
  decodeShare?: number | undefined
  /** Only `unified` so far. */
  role?: 'unified' | 'prefill' | 'decode' | undefined
}

/** A cluster as its JSON file describes it (`schemas/cluster.schema.json`). */
export interface ClusterConfig {
  $schema?: string | undefined
  name?: string | undefined
  latencies?: Record<string, LatencyConfig> | undefined
  instances: InstanceConfig[]
}
