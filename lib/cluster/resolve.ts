import type { Coverage } from '../model/profile.ts'
import type { NativeLatency } from '../native.ts'
import type { ClusterConfig, InstanceConfig, LatencyConfig, ProfileLatency } from './config.ts'
import { findGpu } from './gpus.ts'
import type { Modelled } from './modelled.ts'
import { type ModeFields, modeFields } from './modes.ts'
import { nativePolynomial } from './polynomial.ts'
import { BUILT_IN_KV_BYTES, type Link, linkOf, type Role } from './roles.ts'

export interface ResolvedInstance extends Readonly<ModeFields> {
  /** For tables and results: the GPU's or latency's name. */
  readonly label: string
  readonly role: Role
  /** Where the role is not `unified`. */
  readonly link?: Link
  /** The model that its latency is estimated for; undefined where times were given. */
  readonly estimated?: string
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

/** Whether prefill and decode run on instances of their own. */
export function isPaired(cluster: Pick<ResolvedCluster, 'instances'>): boolean {
  return cluster.instances.some(({ role }) => role !== 'unified')
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

  const service = (position: number, entry: InstanceConfig) => {
    const model = modelled.get(position)
    if (model !== undefined) {
      const { label, coverage, gpu, estimated } = model
      const key = model.latency.kind === 'roofline' ? JSON.stringify(model.latency) : `id ${entry.latency}`
      return {
        label,
        latency: latencyOf(key, () => model.latency),
        kvTokens: model.kvTokens ?? entry.kvTokens!,
        maxSequences: entry.maxSequences ?? DEFAULT_SEQUENCES,
        ...withLink(entry, gpu, model.kvBytesPerToken ?? entry.kvBytesPerToken),
        ...(coverage !== undefined && { coverage }),
        ...(estimated !== undefined && { estimated }),
      }
    }
    const gpu = entry.gpu === undefined ? undefined : findGpu(entry.gpu)!
    const id = entry.latency
    return {
      label: gpu?.label ?? id!,
      latency: gpu
        ? latencyOf(`gpu ${gpu.label}`, () => toNative(gpu.latency))
        : latencyOf(`id ${id}`, () => toNative(config.latencies![id!] as Given)),
      kvTokens: entry.kvTokens ?? gpu!.kvTokens,
      maxSequences: entry.maxSequences ?? gpu?.maxSequences ?? DEFAULT_SEQUENCES,
      ...withLink(entry, entry.gpu, entry.kvBytesPerToken ?? (gpu && BUILT_IN_KV_BYTES)),
    }
  }

  const instances: ResolvedInstance[] = []
  for (const [position, entry] of config.instances.entries()) {
    const instance = { ...common(entry), ...service(position, entry) }
    for (let n = 0; n < (entry.count ?? 1); n++) instances.push(instance)
  }
  return { name: config.name ?? defaultName, latencies, instances }
}

/** What does not depend on where the times come from. */
function common(entry: InstanceConfig) {
  const { model, role = 'unified' } = entry
  const fields = modeFields(entry.mode, entry.chunkTokens, entry.decodeShare)
  if (fields.mode === 'prefill-first') fields.chunkTokens = entry.prefillBatchTokens ?? 0
  return { role, model, ...fields, prefixCache: prefixCache(entry) }
}

function withLink(entry: InstanceConfig, gpu: string | undefined, kvBytes: number | undefined) {
  const { role = 'unified' } = entry
  return role === 'unified' ? {} : { link: linkOf(entry, gpu, kvBytes!) }
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
