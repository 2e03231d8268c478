import type { Coverage } from '../model/profile.ts'
import type { NativeLatency } from '../native.ts'
import type { Modelled } from './calibrated.ts'
import type { ClusterConfig, InstanceConfig, LatencyConfig, ProfileLatency } from './config.ts'
import { findGpu } from './gpus.ts'
import { type ModeFields, modeFields } from './modes.ts'
import { nativePolynomial } from './polynomial.ts'

export interface ResolvedInstance extends Readonly<ModeFields> {
  /** For tables and results: the GPU's or latency's name. */
  readonly label: string
  /** Index into `latencies`. */
  readonly latency: number
  /** Undefined: the trace's only model. */
  readonly model: string | undefined
  readonly kvTokens: number
  readonly maxSequences: number
  /** Tiers, GPU memory first; empty = no prefix cache. */
  readonly prefixCache: readonly { tokens: number; msPerToken: number }[]
  /** How far its measured profile reaches; undefined where it has none. */
  readonly coverage?: Coverage
}

/** A checked cluster with every default filled in and every `count` written out. */
export interface ResolvedCluster {
  readonly name: string
  readonly latencies: readonly NativeLatency[]
  readonly instances: readonly ResolvedInstance[]
}

const DEFAULT_SEQUENCES = 256

/** `config` must have passed checkCluster; `modelled`: the instances, by position, whose latency is no constant. */
export function resolveCluster(
  config: ClusterConfig,
  defaultName: string,
  modelled: ReadonlyMap<number, Modelled> = new Map(),
): ResolvedCluster {
  const latencies: NativeLatency[] = []
  const index = new Map<string, number>()
  const latencyOf = (key: string, latency: () => NativeLatency): number => {
    const known = index.get(key)
    if (known !== undefined) return known
    index.set(key, latencies.length)
    return latencies.push(latency()) - 1
  }

  const instances: ResolvedInstance[] = []
  for (const [position, entry] of config.instances.entries()) {
    const model = modelled.get(position)
    if (model !== undefined) {
      const { label, coverage } = model
      const key = model.latency.kind === 'roofline' ? JSON.stringify(model.latency) : `id ${entry.latency}`
      const instance: ResolvedInstance = {
        label,
        latency: latencyOf(key, () => model.latency),
        model: entry.model,
        kvTokens: model.kvTokens ?? entry.kvTokens!,
        maxSequences: entry.maxSequences ?? DEFAULT_SEQUENCES,
        ...modeFields(entry.mode, entry.chunkTokens, entry.decodeShare),
        prefixCache: prefixCache(entry),
        ...(coverage !== undefined && { coverage }),
      }
      for (let n = 0; n < (entry.count ?? 1); n++) instances.push(instance)
      continue
    }
    const gpu = entry.gpu === undefined ? undefined : findGpu(entry.gpu)!
    const id = entry.latency
    const latency = gpu
      ? latencyOf(`gpu ${gpu.label}`, () => toNative(gpu.latency))
      : latencyOf(`id ${id}`, () => toNative(config.latencies![id!] as Given))
    const instance: ResolvedInstance = {
      label: gpu?.label ?? id!,
      latency,
      model: entry.model,
      kvTokens: entry.kvTokens ?? gpu!.kvTokens,
      maxSequences: entry.maxSequences ?? gpu?.maxSequences ?? DEFAULT_SEQUENCES,
      ...modeFields(entry.mode, entry.chunkTokens, entry.decodeShare),
      prefixCache: prefixCache(entry),
    }
    for (let n = 0; n < (entry.count ?? 1); n++) instances.push(instance)
  }
  return { name: config.name ?? defaultName, latencies, instances }
}

function prefixCache({ prefixCacheTokens = 0, prefixCacheTiers = [] }: InstanceConfig) {
  return prefixCacheTokens === 0 ? [] : [{ tokens: prefixCacheTokens, msPerToken: 0 }, ...prefixCacheTiers]
}

type Given = Exclude<LatencyConfig, ProfileLatency>

function toNative(latency: Given): NativeLatency {
  if (latency.kind === 'polynomial') return nativePolynomial(latency)
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
