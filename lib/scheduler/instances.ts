import type { LatencyConfig } from '../cluster/config.ts'
import { findGpu, GPUS } from '../cluster/gpus.ts'
import { LIMITS } from '../cluster/limits.ts'
import { clusterPresets, findPreset } from '../cluster/presets.ts'
import { type ResolvedInstance, resolveCluster } from '../cluster/resolve.ts'
import { describe, expected, LaxityError, quote } from '../errors.ts'
import type { NativeLatency } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'

/** How an engine takes a priority in its requests; off unless given (reference: priority polarity). */
export interface EnginePriority {
  /** 1: larger is earlier (SGLang, TensorRT-LLM); -1: smaller is earlier (vLLM). */
  sign: 1 | -1
  min?: number | undefined
  max?: number | undefined
  /** Priorities are divided by it before they are clipped; default 1 (ms). */
  divideBy?: number | undefined
}

/** One engine behind the scheduler. */
export interface LiveInstance {
  /** Unique; the same id coming back re-adopts its leases. Default: the URL, else the GPU's or latency's name with a number. */
  id?: string | undefined
  url?: string | undefined
  /** A built-in GPU: `a100`, `a6000`, `l40s`. */
  gpu?: string | undefined
  /** Or an id of `latencies`, or the latency itself; then `kvTokens` is required. */
  latency?: string | LatencyConfig | undefined
  /** With neither `gpu` nor `latency`, speed is learned from the leases it serves. */
  /** Which model it serves; left out: whatever no other instance names. */
  model?: string | undefined
  /** LoRA adapters of that model that it serves too: calls may name one as their model. At most 64 in all. */
  adapters?: readonly string[] | undefined
  /** KV cache in tokens; where speed is learned, unlimited by default. */
  kvTokens?: number | undefined
  /** Running sequences; default the GPU's, else 256; 32 where speed is learned. */
  maxSequences?: number | undefined
  /** How many such instances; default 1. Not with `id` or `url`. */
  count?: number | undefined
  /** How the engine mixes prefill and decode; default `prefill-first`, `chunked` where speed is learned. */
  mode?: 'prefill-first' | 'chunked' | undefined
  /** Mode `chunked`: tokens of an iteration's budget, decodes included; default 8192. */
  chunkTokens?: number | undefined
  role?: 'unified' | undefined
  priority?: EnginePriority | undefined
}

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
  readonly spec: {
    mode: number
    model: number
    latency: number
    maxSequences: number
    chunkTokens: number
    kvTokens: number
    adapters: bigint
  }
}

export interface NewLatency {
  index: number
  learned: boolean
  constants: Readonly<Record<string, number>>
}

const UNLIMITED_KV = 10_000_000_000
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
const KEYS = [
  'id',
  'url',
  'gpu',
  'latency',
  'model',
  'adapters',
  'kvTokens',
  'maxSequences',
  'count',
  'mode',
  'chunkTokens',
  'role',
  'priority',
]
const MAX_ADAPTERS = 64
const MAX_TEXT = 256

/** Instances, models and adapters by name. Names and URLs live here, everything that changes lives in the core. */
export class Instances {
  readonly list: InstanceEntry[] = []
  /** Given to the core at construction. */
  readonly latencies: NativeLatency[] = []
  readonly #bySlot = new Map<string, InstanceEntry>()
  readonly #latencyIds = new Map<string, number>()
  #known: Record<string, LatencyConfig> = {}
  #latencyCount = 0
  readonly models: string[] = []
  readonly #models = new Map<string, { model: number; adapter: number }>()
  #adapters = 0

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
  modelOf(name: string | undefined): { model: number; adapter: number } | undefined {
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
      given = preset.instances
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
      if (!instances.#check(instance, where, problems) || problems.count > before) continue
      const { count = 1 } = instance as LiveInstance
      for (let n = 0; n < count; n += 1) {
        const made = instances.#add(instance as LiveInstance, where, problems, true)
        if (made?.latency !== undefined) learned.push(made.latency)
      }
    }
    problems.throwIfAny()
    return { instances, learned }
  }

  /** One more instance, or one that returns; throws and changes nothing where it is wrong. */
  add(instance: unknown): { entry: InstanceEntry; latency: NewLatency | undefined } {
    const problems = new Problems()
    if (!this.#check(instance, 'instance', problems)) problems.throwIfAny()
    const given = instance as LiveInstance
    if (given.count !== undefined && given.count !== 1)
      problems.add(
        'ERR_LAXITY_FIELD',
        'Expected no `count`: instances are added one by one',
        'instance.count',
      )
    problems.throwIfAny()
    const made = this.#add(given, 'instance', problems, false)
    problems.throwIfAny()
    return made!
  }

  #check(instance: unknown, where: string, problems: Problems): instance is LiveInstance {
    const before = problems.count
    const wrong = (what: string, field: string, got: unknown) =>
      problems.add('ERR_LAXITY_FIELD', expected(what, field, got), `${where}.${field}`)
    if (!isRecord(instance)) {
      problems.add('ERR_LAXITY_FIELD', expected('an object', where, instance), where)
      return false
    }
    for (const name of Object.keys(instance)) {
      if (!KEYS.includes(name))
        problems.add('ERR_LAXITY_FIELD', `Unknown field \`${name}\`${hint(name, KEYS)}`, `${where}.${name}`)
    }
    for (const name of ['id', 'url', 'model', 'gpu'] as const) {
      const value = instance[name]
      if (value !== undefined && !isText(value)) wrong(`a text of 1 to ${MAX_TEXT} characters`, name, value)
    }
    if (isText(instance.url) && !URL.canParse(instance.url)) wrong('a URL', 'url', instance.url)
    if (isText(instance.gpu) && findGpu(instance.gpu) === undefined) {
      const labels = Object.values(GPUS).map(({ label }) => label)
      problems.add(
        'ERR_LAXITY_FIELD',
        `Unknown GPU ${quote(instance.gpu)}${hint(instance.gpu, labels)}`,
        `${where}.gpu`,
      )
    }
    const { gpu, latency, kvTokens, maxSequences, count, adapters, priority } = instance
    if (gpu !== undefined && latency !== undefined)
      problems.add('ERR_LAXITY_FIELD', 'Expected either `gpu` or `latency`, got both', where)
    if (typeof latency === 'string' && !Object.hasOwn(this.#known, latency)) {
      const message = `Unknown latency ${quote(latency)}${hint(latency, Object.keys(this.#known))}`
      problems.add('ERR_LAXITY_FIELD', message, `${where}.latency`)
    } else if (latency !== undefined && typeof latency !== 'string') {
      checkLatency(latency, `${where}.latency`, problems)
    }
    if (latency !== undefined && kvTokens === undefined)
      wrong('the KV cache size in tokens', 'kvTokens', kvTokens)
    if (kvTokens !== undefined && !isWhole(kvTokens, 1, UNLIMITED_KV))
      wrong(`a whole number from 1 to ${UNLIMITED_KV}`, 'kvTokens', kvTokens)
    if (maxSequences !== undefined && !isWhole(maxSequences, 1, LIMITS.sequences))
      wrong(`a whole number from 1 to ${LIMITS.sequences}`, 'maxSequences', maxSequences)
    if (count !== undefined && !isWhole(count, 1, LIMITS.instances))
      wrong(`a whole number from 1 to ${LIMITS.instances}`, 'count', count)
    if (count !== undefined && count !== 1 && (instance.id !== undefined || instance.url !== undefined))
      problems.add('ERR_LAXITY_FIELD', 'Expected no `count` beside an `id` or a `url`', `${where}.count`)
    const { mode, chunkTokens } = instance
    if (mode !== undefined && mode !== 'prefill-first' && mode !== 'chunked')
      wrong('"prefill-first" or "chunked"', 'mode', mode)
    if (chunkTokens !== undefined && !isWhole(chunkTokens, 1, LIMITS.chunkTokens))
      wrong(`a whole number from 1 to ${LIMITS.chunkTokens}`, 'chunkTokens', chunkTokens)
    else if (chunkTokens !== undefined && modeOf(instance) !== 'chunked')
      problems.add(
        'ERR_LAXITY_FIELD',
        'Expected `chunkTokens` only with mode "chunked"',
        `${where}.chunkTokens`,
      )
    if (instance.role !== undefined && instance.role !== 'unified')
      wrong('"unified": prefill and decode instances are not supported yet', 'role', instance.role)
    if (adapters !== undefined && !(Array.isArray(adapters) && adapters.every(isText)))
      wrong('a list of names', 'adapters', adapters)
    if (priority !== undefined && !isPriority(priority))
      wrong('{ sign: 1 | -1, min?, max?, divideBy? }', 'priority', priority)
    return problems.count === before
  }

  #add(
    instance: LiveInstance,
    where: string,
    problems: Problems,
    construction: boolean,
  ): { entry: InstanceEntry; latency: NewLatency | undefined } | undefined {
    const resolved = this.#resolve(instance, where, problems, construction)
    if (resolved === undefined) return undefined
    const id = instance.id ?? instance.url ?? this.#freeId(resolved.label)
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
    const chunked = modeOf(instance) === 'chunked'
    const chunkTokens = chunked ? (instance.chunkTokens ?? CHUNK_TOKENS) : 0
    const entry: InstanceEntry = {
      slot: old?.slot ?? this.list.length,
      id,
      url: instance.url,
      priority: instance.priority,
      given: { ...instance, id, count: undefined },
      spec: { mode: chunked ? 1 : 0, model, latency, maxSequences, chunkTokens, kvTokens, adapters },
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
  ):
    | {
        label: string
        latency: number
        kvTokens: number
        maxSequences: number
        isNew: NewLatency | undefined
      }
    | undefined {
    if (instance.gpu === undefined && instance.latency === undefined) {
      const index = this.#latencyCount++
      if (construction) this.latencies.push({ kind: 'constants', ...FIRST_GUESS })
      return {
        label: 'backend',
        latency: index,
        kvTokens: instance.kvTokens ?? UNLIMITED_KV,
        maxSequences: instance.maxSequences ?? LEARNED_SEQUENCES,
        isNew: { index, learned: true, constants: FIRST_GUESS },
      }
    }
    const { gpu, kvTokens, maxSequences } = instance
    const id = typeof instance.latency === 'object' ? 'inline' : instance.latency
    const latencies = typeof instance.latency === 'object' ? { inline: instance.latency } : this.#known
    const one = resolveCluster(
      { latencies, instances: [{ gpu, latency: id, kvTokens, maxSequences }] },
      'live',
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
          'A latency table must be known from the start: name it in `latencies` and use it in the first cluster',
          `${where}.latency`,
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
      isNew,
    }
  }

  #freeId(label: string): string {
    for (let n = this.list.length; ; n += 1) if (!this.#bySlot.has(`${label}-${n}`)) return `${label}-${n}`
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

/** Nothing is known of an engine whose speed is learned: it is taken to be chunked, as most are. */
function modeOf({ mode, gpu, latency }: LiveInstance): string {
  return mode ?? (gpu === undefined && latency === undefined ? 'chunked' : 'prefill-first')
}

function checkLatency(latency: unknown, where: string, problems: Problems): void {
  if (!isRecord(latency)) {
    problems.add('ERR_LAXITY_FIELD', expected('an object', where, latency), where)
    return
  }
  const inRange = (name: string, low: number, high: number, required: boolean) => {
    const value = latency[name]
    if (value === undefined && !required) return
    if (typeof value !== 'number' || !(value >= low && value <= high))
      problems.add(
        'ERR_LAXITY_FIELD',
        expected(`a number from ${low} to ${high}`, name, value),
        `${where}.${name}`,
      )
  }
  inRange('decodeBaseMs', LIMITS.leastDecodeMs, LIMITS.baseMs, true)
  inRange('decodePerSequenceMs', 0, LIMITS.slopeMs, false)
  inRange('decodePerContextMs', 0, LIMITS.slopeMs, false)
  if (latency.kind === 'constants') {
    inRange('prefillBaseMs', 0, LIMITS.baseMs, false)
    inRange('prefillPerTokenMs', 0, LIMITS.slopeMs, true)
  } else if (latency.kind === 'table') {
    const knots = latency.prefill
    const good =
      Array.isArray(knots) &&
      knots.length > 0 &&
      knots.every(
        (knot, i) =>
          Array.isArray(knot) &&
          isWhole(knot[0], 1, LIMITS.tokens) &&
          typeof knot[1] === 'number' &&
          knot[1] >= LIMITS.leastDecodeMs &&
          knot[1] <= LIMITS.tableMs &&
          (i === 0 || (knot[0] > knots[i - 1][0] && knot[1] >= knots[i - 1][1])),
      )
    if (!good)
      problems.add(
        'ERR_LAXITY_FIELD',
        expected('ascending [tokens, ms] whose times never fall', 'prefill', knots),
        `${where}.prefill`,
      )
  } else {
    problems.add(
      'ERR_LAXITY_FIELD',
      expected('"constants" or "table"', 'kind', latency.kind),
      `${where}.kind`,
    )
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_TEXT
}

function isWhole(value: unknown, low: number, high: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= low && (value as number) <= high
}

function isPriority(value: unknown): value is EnginePriority {
  if (!isRecord(value) || (value.sign !== 1 && value.sign !== -1)) return false
  const { min = 0, max = 0, divideBy = 1 } = value
  return (
    Number.isFinite(min) &&
    Number.isFinite(max) &&
    typeof divideBy === 'number' &&
    divideBy > 0 &&
    Number.isFinite(divideBy)
  )
}
