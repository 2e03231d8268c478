import { checkRoles } from '../cluster/check-roles.ts'
import type { InstanceConfig, LatencyConfig } from '../cluster/config.ts'
import { LIMITS } from '../cluster/limits.ts'
import { insideInstance, type Modelled, namedInstance } from '../cluster/modelled.ts'
import { ENGINE_MODES, modeFields } from '../cluster/modes.ts'
import { clusterPresets, findPreset } from '../cluster/presets.ts'
import { type ResolvedInstance, resolveCluster } from '../cluster/resolve.ts'
import { BUILT_IN_KV_BYTES, linkOf, ROLES } from '../cluster/roles.ts'
import { describe, expected, LaxityError, quote } from '../errors.ts'
import type { NativeLatency } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import {
  checkInstance,
  checkLatency,
  type EnginePriority,
  type LiveInstance,
  modeOf,
  UNLIMITED_KV,
} from './check-instance.ts'
import type { InstanceSpec } from './events.ts'

export type { EnginePriority, LiveInstance } from './check-instance.ts'

export interface LiveCluster {
  name?: string | undefined
  latencies?: Record<string, LatencyConfig> | undefined
  instances: readonly LiveInstance[]
}

/** What the core is told of an instance, and what it is not. */
export interface InstanceEntry {
  readonly slot: number
  readonly id: string
  readonly url: string | undefined
  readonly priority: EnginePriority | undefined
  /** As it was described, with its id. */
  readonly given: LiveInstance
  readonly spec: InstanceSpec
}

/** Ids of a model and, above 0, of one of its adapters. */
export interface ServedModel {
  model: number
  adapter: number
}

export interface NewLatency {
  index: number
  learned: boolean
  constants: Readonly<Record<string, number>>
}

interface Resolved {
  label: string
  latency: number
  kvTokens: number
  maxSequences: number
  /** What its link's defaults depend on. */
  gpu: string | undefined
  kvBytesPerToken: number | undefined
  isNew: NewLatency | undefined
}

/** What presets without a model are estimated for. */
const PRESET_MODEL = 'llama-3.1-70b'
const LEARNED_SEQUENCES = 32
const CHUNK_TOKENS = 8192
/** Where nothing is known yet: a mid-sized model on one current GPU. */
const FIRST_GUESS = {
  prefillBaseMs: 0,
  prefillPerTokenMs: 0.1,
  decodeBaseMs: 30,
  decodePerSequenceMs: 0,
  decodePerContextMs: 0,
}
const MAX_ADAPTERS = 64

/** Instances, models and adapters by name. Names and URLs live here, everything that changes lives in the core. */
export class Instances {
  readonly list: InstanceEntry[] = []
  /** Given to the core at construction. */
  readonly latencies: NativeLatency[] = []
  readonly #bySlot = new Map<string, InstanceEntry>()
  readonly #latencyIds = new Map<string, number>()
  #known: Record<string, LatencyConfig> = {}
  #latencyCount = 0
  #paired = false
  readonly models: string[] = []
  readonly #models = new Map<string, ServedModel>()
  #adapters = 0

  /** Whether prefill and decode run on instances of their own. */
  get paired(): boolean {
    return this.#paired
  }

  byId(id: string): InstanceEntry | undefined {
    return this.#bySlot.get(id)
  }

  /** @throws LaxityError ERR_LAXITY_UNKNOWN */
  find(id: unknown, field = 'instance'): InstanceEntry {
    if (typeof id !== 'string')
      throw new LaxityError('ERR_LAXITY_FIELD', expected('an instance id', field, id))
    const entry = this.#bySlot.get(id)
    if (entry === undefined)
      throw new LaxityError(
        'ERR_LAXITY_UNKNOWN',
        `Unknown instance ${quote(id)}${hint(id, this.#bySlot.keys())}`,
        field,
      )
    return entry
  }

  /** The ids of a model's or an adapter's name; undefined for the only model there is. */
  modelOf(name: string | undefined): ServedModel | undefined {
    // An instance without a model serves whatever nobody else has a name for.
    if (name !== undefined) return this.#models.get(name) ?? this.#models.get('')
    return this.models.length === 1 ? { model: 0, adapter: 0 } : undefined
  }

  /** Reads the whole description, or throws every problem at once and keeps nothing. */
  static read(cluster: unknown): { instances: Instances; learned: NewLatency[] } {
    const problems = new Problems()
    const instances = new Instances()
    let given: unknown[] = []
    let known: Record<string, LatencyConfig> = {}
    if (typeof cluster === 'string') {
      const preset = findPreset(cluster)
      if (preset === undefined) {
        const message = `Unknown cluster ${quote(cluster)}${hint(cluster, clusterPresets)}`
        throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
      }
      given = preset.instances.map(liveInstance)
      known = preset.latencies ?? {}
    } else if (Array.isArray(cluster)) {
      given = cluster
    } else if (isRecord(cluster) && Array.isArray(cluster.instances)) {
      given = cluster.instances
      if (cluster.latencies !== undefined && !isRecord(cluster.latencies))
        problems.add(
          'ERR_LAXITY_FIELD',
          expected('an object', 'latencies', cluster.latencies),
          'cluster.latencies',
        )
      else known = (cluster.latencies as Record<string, LatencyConfig> | undefined) ?? {}
      for (const name of Object.keys(cluster)) {
        if (!['$schema', 'name', 'latencies', 'instances'].includes(name))
          problems.add('ERR_LAXITY_FIELD', `Unknown field \`${name}\``, `cluster.${name}`)
      }
    } else {
      const message = `Expected a preset's name, { instances } or a list of instances for \`cluster\`, got ${describe(cluster)}`
      throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
    }
    for (const [id, latency] of Object.entries(known))
      checkLatency(latency, `cluster.latencies.${id}`, problems)
    instances.#known = known
    if (given.length === 0)
      problems.add('ERR_LAXITY_EMPTY', 'No instances: a cluster needs at least one', 'cluster.instances')
    const learned: NewLatency[] = []
    for (const [i, instance] of given.entries()) {
      const where = `cluster.instances[${i}]`
      const before = problems.count
      if (!checkInstance(instance, known, where, problems) || problems.count > before) continue
      const { count = 1 } = instance as LiveInstance
      for (let n = 0; n < count; n += 1) {
        const made = instances.#add(instance as LiveInstance, where, problems, true)
        if (made?.latency !== undefined) learned.push(made.latency)
      }
    }
    checkRoles(given, 'cluster.instances', problems)
    problems.throwIfAny()
    instances.#paired = isPaired(cluster)
    return { instances, learned }
  }

  /** One more instance, or one that returns; throws and changes nothing where it is wrong. */
  add(instance: unknown): { entry: InstanceEntry; latency: NewLatency | undefined } {
    const problems = new Problems()
    if (!checkInstance(instance, this.#known, 'instance', problems)) problems.throwIfAny()
    const given = instance as LiveInstance
    if (given.count !== undefined && given.count !== 1)
      problems.add(
        'ERR_LAXITY_FIELD',
        'Expected no `count`: instances are added one by one',
        'instance.count',
      )
    if (((given.role ?? 'unified') !== 'unified') !== this.#paired) {
      const message = this.#paired
        ? 'This cluster has prefill and decode instances: an instance without `role` does not fit'
        : 'This cluster is unified: an instance with `role` does not fit'
      problems.add('ERR_LAXITY_FIELD', message, 'instance.role')
    }
    problems.throwIfAny()
    const made = this.#add(given, 'instance', problems, false)
    problems.throwIfAny()
    return made!
  }

  #add(
    instance: LiveInstance,
    where: string,
    problems: Problems,
    construction: boolean,
  ): { entry: InstanceEntry; latency: NewLatency | undefined } | undefined {
    const resolved = this.#resolve(instance, where, problems, construction)
    if (resolved === undefined) return undefined
    const id = idOf(instance) ?? this.#freeId(resolved.label)
    const old = this.#bySlot.get(id)
    if (old !== undefined && construction) {
      problems.add('ERR_LAXITY_DUPLICATE', `Instance id ${quote(id)} is used twice`, `${where}.id`)
      return undefined
    }
    if (old === undefined && this.list.length >= LIMITS.instances) {
      problems.add('ERR_LAXITY_LIMIT', `At most ${LIMITS.instances} instances are supported`, where)
      return undefined
    }
    const model = this.#model(instance.model ?? '', where, problems)
    let adapters = 0n
    for (const name of instance.adapters ?? []) adapters |= this.#adapter(name, model, where, problems)
    if (problems.count > 0) return undefined
    const { latency, kvTokens, maxSequences } = resolved
    const { role = 'unified' } = instance
    const mode = modeFields(
      role === 'unified' ? modeOf(instance) : 'prefill-first',
      instance.chunkTokens ?? CHUNK_TOKENS,
      instance.decodeShare,
    )
    const batches = mode.mode === 'prefill-first' && role !== 'decode'
    const link = role === 'unified' ? NO_LINK : linkSpec(instance, resolved)
    const entry: InstanceEntry = {
      slot: old?.slot ?? this.list.length,
      id,
      url: instance.url,
      priority: instance.priority,
      given: { ...instance, id, count: undefined },
      spec: {
        role: ROLES.indexOf(role),
        mode: ENGINE_MODES.indexOf(mode.mode),
        model,
        latency,
        maxSequences,
        chunkTokens: batches ? (instance.prefillBatchTokens ?? 0) : mode.chunkTokens,
        decodeShare: mode.decodeShare,
        kvTokens,
        adapters,
        ...link,
        revocable: instance.revoke === true,
      },
    }
    this.list[entry.slot] = entry
    this.#bySlot.set(id, entry)
    return { entry, latency: resolved.isNew }
  }

  #resolve(
    instance: LiveInstance,
    where: string,
    problems: Problems,
    construction: boolean,
  ): Resolved | undefined {
    if (instance.gpu === undefined && instance.latency === undefined) {
      const index = this.#latencyCount++
      if (construction) this.latencies.push({ kind: 'constants', ...FIRST_GUESS })
      return {
        label: 'backend',
        latency: index,
        kvTokens: instance.kvTokens ?? UNLIMITED_KV,
        maxSequences: instance.maxSequences ?? LEARNED_SEQUENCES,
        gpu: undefined,
        kvBytesPerToken: instance.kvBytesPerToken,
        isNew: { index, learned: true, constants: FIRST_GUESS },
      }
    }
    const { gpu, kvTokens, maxSequences } = instance
    const id = typeof instance.latency === 'object' ? 'inline' : instance.latency
    const latencies = typeof instance.latency === 'object' ? { inline: instance.latency } : this.#known
    const modelled = estimated(instance, where, problems)
    if (instance.tp !== undefined && modelled === undefined) return undefined
    const one = resolveCluster(
      { latencies, instances: [{ gpu, latency: id, kvTokens, maxSequences }] },
      'live',
      new Map(modelled && [[0, modelled]]),
    )
    const [resolved] = one.instances as [ResolvedInstance]
    const native = one.latencies[resolved.latency]!
    const key = JSON.stringify(native, (_, value) =>
      value instanceof Float64Array ? Array.from(value) : value,
    )
    let index = this.#latencyIds.get(key)
    let isNew: NewLatency | undefined
    if (index === undefined) {
      if (!construction && native.kind !== 'constants') {
        problems.add(
          'ERR_LAXITY_OPTION',
          modelled === undefined
            ? 'A latency table must be known from the start: name it in `latencies` and use it in the first cluster'
            : 'An estimate must be known from the start: the first cluster has no such GPU, `tp` and model',
          `${where}.${modelled === undefined ? 'latency' : 'tp'}`,
        )
        return undefined
      }
      index = this.#latencyCount++
      this.#latencyIds.set(key, index)
      if (construction) this.latencies.push(native)
      else isNew = { index, learned: false, constants: native as unknown as Record<string, number> }
    }
    return {
      label: resolved.label,
      latency: index,
      kvTokens: resolved.kvTokens,
      maxSequences: resolved.maxSequences,
      gpu: modelled?.gpu ?? gpu,
      kvBytesPerToken: modelled?.kvBytesPerToken ?? instance.kvBytesPerToken,
      isNew,
    }
  }

  #freeId(label: string): string {
    const name = label.replace('×', 'x').replace(' ', '-')
    for (let n = this.list.length; ; n += 1) if (!this.#bySlot.has(`${name}-${n}`)) return `${name}-${n}`
  }

  #model(name: string, where: string, problems: Problems): number {
    const known = this.#models.get(name)
    if (known !== undefined) {
      if (known.adapter !== 0)
        problems.add('ERR_LAXITY_FIELD', `${quote(name)} is an adapter of another model`, `${where}.model`)
      return known.model
    }
    if (this.models.length >= 0xffff) {
      problems.add('ERR_LAXITY_LIMIT', 'At most 65535 models are supported', `${where}.model`)
      return 0
    }
    const model = this.models.length
    this.models.push(name)
    this.#models.set(name, { model, adapter: 0 })
    return model
  }

  #adapter(name: string, model: number, where: string, problems: Problems): bigint {
    let known = this.#models.get(name)
    if (known === undefined) {
      if (this.#adapters >= MAX_ADAPTERS) {
        problems.add(
          'ERR_LAXITY_LIMIT',
          `At most ${MAX_ADAPTERS} adapters are supported`,
          `${where}.adapters`,
        )
        return 0n
      }
      this.#adapters += 1
      known = { model, adapter: this.#adapters }
      this.#models.set(name, known)
    }
    if (known.adapter === 0 || known.model !== model) {
      problems.add(
        'ERR_LAXITY_FIELD',
        `${quote(name)} is ${known.adapter === 0 ? 'a model' : 'an adapter of another model'}`,
        `${where}.adapters`,
      )
      return 0n
    }
    return 1n << BigInt(known.adapter - 1)
  }
}

/** What an instance is called where its description says it. */
export function idOf({ id, url, rank }: LiveInstance): string | undefined {
  return id ?? (url !== undefined && typeof rank === 'number' ? `${url}#${rank}` : url)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const NO_LINK = { linkPerToken: 0, linkLatency: 0 }

/** This end of a link in the core's units, as `fineFromMs` of native/base/fixed.h rounds. */
function linkSpec(
  instance: LiveInstance,
  { gpu, kvBytesPerToken = BUILT_IN_KV_BYTES }: Pick<Resolved, 'gpu' | 'kvBytesPerToken'>,
): typeof NO_LINK {
  const { linkGBps, linkLatencyMs, linkCompression } = instance
  const link = linkOf({ linkGBps, linkLatencyMs, linkCompression }, gpu, kvBytesPerToken)
  return {
    linkPerToken: Math.floor(link.linkMsPerToken * 1e6 * 2 ** 20 + 0.5),
    linkLatency: Math.round(link.linkLatencyMs * 1e6),
  }
}

/** With `tp`; undefined also where it is impossible. */
function estimated(instance: LiveInstance, where: string, problems: Problems): Modelled | undefined {
  const { gpu, tp, model, estimateFor = model, precision, kvPrecision, calibration } = instance
  if (tp === undefined) return undefined
  const setup = { gpu: gpu!, tp, model: estimateFor!, precision, kvPrecision, calibration }
  try {
    return namedInstance(setup, instance)
  } catch (error) {
    if (!(error instanceof LaxityError)) throw error
    problems.absorb(insideInstance(error, where))
    return undefined
  }
}

/** An instance of a preset, which names its model only where it serves no other. */
function liveInstance(entry: InstanceConfig): LiveInstance {
  const { gpu, tp, count, role, model } = entry
  return {
    gpu,
    count,
    role,
    model,
    ...(tp !== undefined && { tp, estimateFor: model ?? PRESET_MODEL }),
  }
}

/** Whether a description is of a prefill-decode cluster; of a wrong one anything. */
export function isPaired(cluster: unknown): boolean {
  const one = typeof cluster === 'string' ? findPreset(cluster) : cluster
  const list = Array.isArray(one) ? one : isRecord(one) ? one.instances : undefined
  return (
    Array.isArray(list) &&
    list.some((entry) => isRecord(entry) && (entry.role === 'prefill' || entry.role === 'decode'))
  )
}
