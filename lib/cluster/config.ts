import type { HardwareConfig } from '../model/config.ts'
import type { EngineMode } from './modes.ts'
import type { Role } from './roles.ts'

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

/** A measured profile: a CSV of `batch,context,newTokens,ms` (docs/latency-model.md). */
export interface ProfileLatency {
  kind: 'profile'
  /** Path, relative to the cluster's file. */
  csv: string
  /** Go beyond what was measured, along the last slopes. Default false: then a run that needs to is refused. */
  extrapolate?: boolean | undefined
}

export type LatencyConfig = ConstantLatency | TableLatency | ProfileLatency

export interface InstanceConfig {
  /**
   * Without `tp`, a GPU with built-in constants: `a100`, `a6000`, `l40s` (any case). With `tp`, a GPU of the calibrated
   * model (`a100-80`, `h100`, … or one of `gpus`) that serves `model`. Gives latency, KV size and sequence limit.
   */
  gpu?: string | undefined
  /** Or an id of `latencies`; then `kvTokens` is required. */
  latency?: string | undefined
  /** How many of this kind; default 1. */
  count?: number | undefined
  /** Which model it serves; may be left out when the trace uses one model. */
  model?: string | undefined
  /** Tensor parallelism: 1, 2, 4 or 8. Then `gpu` and `model` name what the latency is estimated for. */
  tp?: number | undefined
  /** Of the weights, with `tp`; default `bf16`. */
  precision?: 'bf16' | 'fp8' | undefined
  /** Of the KV cache, with `tp`; default `bf16`. */
  kvPrecision?: 'bf16' | 'fp8' | undefined
  /** With `tp`: a serving stack's name, or the path of a file from `laxity calibrate`. */
  calibration?: string | undefined
  /** KV cache size in tokens; with `tp` default: what fits beside the weights. */
  kvTokens?: number | undefined
  /** Largest number of running sequences; default 256. */
  maxSequences?: number | undefined
  /** How the engine mixes prefill and decode; default `prefill-first`. */
  mode?: EngineMode | undefined
  /** Mode `chunked`: tokens of an iteration's budget, decodes included; default 512. */
  chunkTokens?: number | undefined
  /** Mode `decode-share`: speed of decode beside a prefill, which gets the rest; steps of 0.001, default 0.5. */
  decodeShare?: number | undefined
  /** Default `unified`. A cluster is unified, or prefill and decode, as a whole. */
  role?: Role | undefined
  /**
   * Roles `prefill` and `decode`: what this end of a link carries, 10⁹ bytes/s. Default, as sample data: 25 with an A100,
   * 50 otherwise. A transfer runs at the speed of its slower end.
   */
  linkGBps?: number | undefined
  /** Roles `prefill` and `decode`: fixed part of a transfer; the larger of both ends counts. Default 1.02. */
  linkLatencyMs?: number | undefined
  /** Roles `prefill` and `decode`: bytes sent / bytes of KV; default 1. */
  linkCompression?: number | undefined
  /** Roles `prefill` and `decode`: KV of a token; known where the model is, required with `latency`. */
  kvBytesPerToken?: number | undefined
  /** Role `prefill`: prompts run as one batch up to so many tokens; default: one prompt at a time. */
  prefillBatchTokens?: number | undefined
  /** Prefix cache in GPU memory, tokens, beside the KV cache of running calls; default 0 = none. Not for role `decode`. */
  prefixCacheTokens?: number | undefined
  /** Slower tiers, the fastest first: what falls out of one goes to the next, and costs its time to come back. */
  prefixCacheTiers?: { tokens: number; msPerToken: number }[] | undefined
}

/** A cluster as its JSON file describes it (`schemas/cluster.schema.json`). */
export interface ClusterConfig {
  $schema?: string | undefined
  name?: string | undefined
  latencies?: Record<string, LatencyConfig> | undefined
  /** Your own GPUs and models by id, for instances with `tp`. */
  gpus?: HardwareConfig['gpus']
  models?: HardwareConfig['models']
  instances: InstanceConfig[]
}
