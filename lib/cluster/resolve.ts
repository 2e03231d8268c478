import type { NativeLatency } from '../native.ts'
import type { ClusterConfig, LatencyConfig } from './config.ts'
import { findGpu } from './gpus.ts'
import { type ModeFields, modeFields } from './modes.ts'

export interface ResolvedInstance extends Readonly<ModeFields> {
  /** For tables and results: the GPU's or latency's name. */
  readonly label: string
  /** Index into `latencies`. */
  readonly latency: number
  /** Undefined: the trace's only model. */
  readonly model: string | undefined
  readonly kvTokens: number
  readonly maxSequences: number
}

/** A checked cluster with every default filled in and every `count` written out. */
export interface ResolvedCluster {
  readonly name: string
  readonly latencies: readonly NativeLatency[]
  readonly instances: readonly ResolvedInstance[]
}

const DEFAULT_SEQUENCES = 256

/** `config` must have passed checkCluster. */
export function resolveCluster(config: ClusterConfig, defaultName: string): ResolvedCluster {
  const latencies: NativeLatency[] = []
  const index = new Map<string, number>()
  const latencyOf = (key: string, latency: LatencyConfig): number => {
    const known = index.get(key)
    if (known !== undefined) return known
    index.set(key, latencies.length)
    return latencies.push(toNative(latency)) - 1
  }

  const instances: ResolvedInstance[] = []
  for (const entry of config.instances) {
    const gpu = entry.gpu === undefined ? undefined : findGpu(entry.gpu)!
    const id = entry.latency
    const latency = gpu
      ? latencyOf(`gpu ${gpu.label}`, gpu.latency)
      : latencyOf(`id ${id}`, config.latencies![id!]!)
    const instance: ResolvedInstance = {
      label: gpu?.label ?? id!,
      latency,
      model: entry.model,
      kvTokens: entry.kvTokens ?? gpu!.kvTokens,
      maxSequences: entry.maxSequences ?? gpu?.maxSequences ?? DEFAULT_SEQUENCES,
      ...modeFields(entry.mode, entry.chunkTokens, entry.decodeShare),
    }
    for (let n = 0; n < (entry.count ?? 1); n++) instances.push(instance)
  }
  return { name: config.name ?? defaultName, latencies, instances }
}

function toNative(latency: LatencyConfig): NativeLatency {
  const decode = {
    decodeBaseMs: latency.decodeBaseMs,
    decodePerSequenceMs: latency.decodePerSequenceMs ?? 0,
    decodePerContextMs: latency.decodePerContextMs ?? 0,
  }
  if (latency.kind === 'constants') {
    const { prefillBaseMs = 0, prefillPerTokenMs } = latency
    return { kind: 'constants', prefillBaseMs, prefillPerTokenMs, ...decode }
  }
  return {
    kind: 'table',
    tokens: Float64Array.from(latency.prefill, ([tokens]) => tokens),
    prefillMs: Float64Array.from(latency.prefill, ([, ms]) => ms),
    ...decode,
  }
}
