import { native } from '../native.ts'
import { RECORD_BYTES } from './records.ts'
import type { Told } from './remaining.ts'

/**
 * Writes events straight into the ring, without an object or a BigInt in between (`records.ts` is the slow, general
 * form). Offsets come from the addon.
 */

export const NO_SLOT = 0xffff_ffff
/** A deadline that does not exist: the largest 64-bit integer. */
export const NEVER = Number.POSITIVE_INFINITY

const layout = native.eventLayout
const WORDS = RECORD_BYTES / 4
const KIND_AT = 4 // in 16-bit units

function kind(name: string): number {
  return layout.kinds.find((entry) => entry.name === name)!.id
}

/** Byte offset of a field inside its record. */
function at(kindName: string, field: string): number {
  const found = layout.kinds
    .find((entry) => entry.name === kindName)!
    .fields.find((entry) => entry.name === field)
  return found!.offset
}

const KIND = {
  instance: kind('instance'),
  firstToken: kind('firstToken'),
  transferDone: kind('transferDone'),
  progress: kind('progress'),
  finished: kind('finished'),
  failed: kind('failed'),
  openWorkflow: kind('openWorkflow'),
  updateWorkflow: kind('updateWorkflow'),
  moreParents: kind('moreParents'),
  reveal: kind('reveal'),
  toolDone: kind('toolDone'),
  cancel: kind('cancel'),
  closeWorkflow: kind('closeWorkflow'),
  setParameter: kind('setParameter'),
  setLatency: kind('setLatency'),
  telemetry: kind('telemetry'),
  setPolicy: kind('setPolicy'),
  timer: kind('timer'),
} as const

const REVEAL = Object.fromEntries(
  layout.kinds.find(({ name }) => name === 'reveal')!.fields.map(({ name, offset }) => [name, offset]),
) as Record<string, number>
const R = {
  call: REVEAL.call! / 4,
  workflow: REVEAL.workflow! / 4,
  stage: REVEAL.stage! / 2,
  model: REVEAL.model! / 2,
  sequences: REVEAL.sequences! / 2,
  frontier: REVEAL.frontier!,
  toolPending: REVEAL.toolPending!,
  silent: REVEAL.silent!,
  parentCount: REVEAL.parentCount!,
  adapter: REVEAL.adapter!,
  exactRemaining: REVEAL.exactRemaining!,
  promptTokens: REVEAL.promptTokens! / 4,
  predictedTokens: REVEAL.predictedTokens! / 4,
  predictedHigh: REVEAL.predictedHigh! / 4,
  cachedOn0: REVEAL.cachedOn0! / 4,
  cachedTokens0: REVEAL.cachedTokens0! / 4,
  cachedOn1: REVEAL.cachedOn1! / 4,
  cachedTokens1: REVEAL.cachedTokens1! / 4,
  remaining: REVEAL.remaining! / 4,
  parents: layout.parentsOffset / 4,
}
const CALL = at('cancel', 'call') / 4
const FINISHED_TOKENS = at('finished', 'outputTokens') / 4
const PROGRESS_TOKENS = at('progress', 'tokens') / 4
const FAILED = {
  failure: at('failed', 'failure'),
  leg: at('failed', 'leg'),
  kvOnPrefill: at('failed', 'kvOnPrefill'),
  clientBytes: at('failed', 'clientBytes') / 4,
  retryAfter: at('failed', 'retryAfter') / 4,
}
const OPEN = {
  workflow: at('openWorkflow', 'workflow') / 4,
  tenant: at('openWorkflow', 'tenant') / 2,
  stageTemplate: at('openWorkflow', 'stageTemplate') / 2,
  weight: at('openWorkflow', 'weight') / 4,
  deadline: at('openWorkflow', 'deadline') / 4,
  remaining: at('openWorkflow', 'remaining') / 4,
  predictedHorizon: at('openWorkflow', 'predictedHorizon') / 4,
  exactRemaining: at('openWorkflow', 'exactRemaining') / 4,
}

/** What a reveal says; slots and ids are the core's. */
export interface RevealFields {
  slot: number
  generation: number
  workflow: number
  workflowGeneration: number
  stage: number
  model: number
  adapter: number
  sequences: number
  promptTokens: number
  /** 0 = the predictor's. */
  predictedTokens: number
  predictedHigh: number
  silent: boolean
  /** Undefined = the workflow's frontier. */
  parents: readonly { slot: number; generation: number }[] | undefined
  cachedOn0: number
  cachedTokens0: number
  cachedOn1: number
  cachedTokens1: number
  /** ns, -1 = none. */
  remaining: number
  /** Else a lower estimate. */
  exactRemaining: boolean
}

/** What an attempt's failure says; ids are the core's. */
export interface FailureFields {
  failure: number
  /** 0 unified, 1 p, 2 d, 3 the link. */
  leg: number
  kvOnPrefill: boolean
  clientBytes: number
  retryAfterNs: number
}

/** An instance as the core takes it. */
export interface InstanceSpec {
  /** `ROLES` of lib/cluster/roles.ts. */
  role: number
  mode: number
  model: number
  latency: number
  maxSequences: number
  chunkTokens: number
  /** Thousandths. */
  decodeShare: number
  kvTokens: number
  adapters: bigint
  /** 2^-20 ns. */
  linkPerToken: number
  /** ns. */
  linkLatency: number
  revocable: boolean
}

export class EventWriter {
  readonly bytes: Uint8Array
  readonly #u8: Uint8Array
  readonly #u16: Uint16Array
  readonly #u32: Uint32Array
  readonly #f64: Float64Array
  readonly #capacity: number
  #written = 0

  constructor(capacity: number) {
    const memory = new SharedArrayBuffer((capacity + 1) * RECORD_BYTES)
    this.#capacity = capacity
    this.bytes = new Uint8Array(memory)
    this.#u8 = this.bytes
    this.#u16 = new Uint16Array(memory)
    this.#u32 = new Uint32Array(memory)
    this.#f64 = new Float64Array(memory)
  }

  /** Records written and not drained. */
  get pending(): number {
    return (this.#written - this.#u32[1]!) >>> 0
  }

  get free(): number {
    return this.#capacity - this.pending
  }

  /** Number of the next record; counts on for ever, modulo 2^32. */
  get written(): number {
    return this.#written
  }

  /** A zeroed record; returns its position in 32-bit words. */
  #begin(kindId: number, t: number): number {
    const record = (this.#written % this.#capacity) + 1
    const word = record * WORDS
    this.#u32.fill(0, word, word + WORDS)
    this.#i64(word, t)
    this.#u16[word * 2 + KIND_AT] = kindId
    this.#written = (this.#written + 1) >>> 0
    this.#u32[0] = this.#written
    return word
  }

  #i64(word: number, value: number): void {
    if (value === NEVER) {
      this.#u32[word] = 0xffff_ffff
      this.#u32[word + 1] = 0x7fff_ffff
      return
    }
    this.#u32[word] = value
    this.#u32[word + 1] = Math.floor(value / 0x1_0000_0000)
  }

  #attempt(kindId: number, t: number, slot: number, generation: number, epoch: number): number {
    const word = this.#begin(kindId, t)
    this.#u32[word + CALL] = slot
    this.#u32[word + CALL + 1] = generation
    this.#u32[word + CALL + 2] = epoch
    return word
  }

  firstToken(t: number, slot: number, generation: number, epoch: number): void {
    this.#attempt(KIND.firstToken, t, slot, generation, epoch)
  }

  transferDone(t: number, slot: number, generation: number, epoch: number): void {
    this.#attempt(KIND.transferDone, t, slot, generation, epoch)
  }

  progress(t: number, slot: number, generation: number, epoch: number, tokens: number): void {
    const word = this.#attempt(KIND.progress, t, slot, generation, epoch)
    this.#u32[word + PROGRESS_TOKENS] = tokens
  }

  finished(t: number, slot: number, generation: number, epoch: number, outputTokens: number): void {
    const word = this.#attempt(KIND.finished, t, slot, generation, epoch)
    this.#u32[word + FINISHED_TOKENS] = outputTokens
  }

  cancel(t: number, slot: number, generation: number, epoch: number): void {
    this.#attempt(KIND.cancel, t, slot, generation, epoch)
  }

  failed(
    t: number,
    slot: number,
    generation: number,
    epoch: number,
    { failure, leg, kvOnPrefill, clientBytes, retryAfterNs }: FailureFields,
  ): void {
    const word = this.#attempt(KIND.failed, t, slot, generation, epoch)
    this.#u8[word * 4 + FAILED.failure] = failure
    this.#u8[word * 4 + FAILED.leg] = leg
    this.#u8[word * 4 + FAILED.kvOnPrefill] = kvOnPrefill ? 1 : 0
    this.#i64(word + FAILED.clientBytes, clientBytes)
    this.#i64(word + FAILED.retryAfter, retryAfterNs)
  }

  /** `tenant` and `stageTemplate` are ids; deadline absolute ns or NEVER; predicted ns, 0 = none; weight in 1/1000, 0 = as it was. */
  openWorkflow(
    t: number,
    slot: number,
    generation: number,
    tenant: number,
    stageTemplate: number,
    deadline: number,
    remaining: Told,
    predicted: number,
    weight: number,
  ): void {
    const word = this.#begin(KIND.openWorkflow, t)
    this.#u32[word + OPEN.weight] = weight
    this.#u32[word + OPEN.workflow] = slot
    this.#u32[word + OPEN.workflow + 1] = generation
    this.#u16[word * 2 + OPEN.tenant] = tenant
    this.#u16[word * 2 + OPEN.stageTemplate] = stageTemplate
    this.#i64(word + OPEN.deadline, deadline)
    this.#i64(word + OPEN.remaining, remaining.ns)
    this.#i64(word + OPEN.predictedHorizon, predicted)
    this.#u32[word + OPEN.exactRemaining] = remaining.exact ? 1 : 0
  }

  /** deadline: NEVER removes it, -1 leaves it; predicted: ns, 0 leaves it. */
  updateWorkflow(
    t: number,
    slot: number,
    generation: number,
    deadline: number,
    remaining: Told,
    predicted: number,
  ): void {
    const word = this.#begin(KIND.updateWorkflow, t)
    this.#u32[word + at('updateWorkflow', 'workflow') / 4] = slot
    this.#u32[word + at('updateWorkflow', 'workflowGeneration') / 4] = generation
    this.#i64(word + at('updateWorkflow', 'deadline') / 4, deadline)
    this.#i64(word + at('updateWorkflow', 'remaining') / 4, remaining.ns)
    this.#i64(word + at('updateWorkflow', 'predictedHorizon') / 4, predicted)
    this.#u32[word + at('updateWorkflow', 'exactRemaining') / 4] = remaining.exact ? 1 : 0
  }

  closeWorkflow(t: number, slot: number, generation: number): void {
    const word = this.#begin(KIND.closeWorkflow, t)
    this.#u32[word + OPEN.workflow] = slot
    this.#u32[word + OPEN.workflow + 1] = generation
  }

  /** Records that a reveal with so many parents takes. */
  static revealRecords(parents: number): number {
    return 1 + Math.max(0, Math.ceil((parents - layout.inlineParents) / layout.moreParents))
  }

  reveal(t: number, fields: RevealFields): void {
    const { parents } = fields
    let first = 0
    if (parents !== undefined) {
      while (parents.length - first > layout.inlineParents) {
        const n = Math.min(layout.moreParents, parents.length - first - layout.inlineParents)
        const word = this.#begin(KIND.moreParents, t)
        this.#u32[word + at('moreParents', 'count') / 4] = n
        this.#parents(word + layout.moreParentsOffset / 4, parents, first, n)
        first += n
      }
    }
    const word = this.#begin(KIND.reveal, t)
    const u32 = this.#u32
    const half = word * 2
    u32[word + R.call] = fields.slot
    u32[word + R.call + 1] = fields.generation
    u32[word + R.workflow] = fields.workflow
    u32[word + R.workflow + 1] = fields.workflowGeneration
    this.#u16[half + R.stage] = fields.stage
    this.#u16[half + R.model] = fields.model
    this.#u16[half + R.sequences] = fields.sequences
    this.#u8[word * 4 + R.adapter] = fields.adapter
    this.#u8[word * 4 + R.silent] = fields.silent ? 1 : 0
    this.#u8[word * 4 + R.exactRemaining] = fields.exactRemaining ? 1 : 0
    u32[word + R.promptTokens] = fields.promptTokens
    u32[word + R.predictedTokens] = fields.predictedTokens
    u32[word + R.predictedHigh] = fields.predictedHigh
    u32[word + R.cachedOn0] = fields.cachedOn0
    u32[word + R.cachedTokens0] = fields.cachedTokens0
    u32[word + R.cachedOn1] = fields.cachedOn1
    u32[word + R.cachedTokens1] = fields.cachedTokens1
    this.#i64(word + R.remaining, fields.remaining)
    if (parents === undefined) {
      this.#u8[word * 4 + R.frontier] = 1
    } else if (parents.length > 0) {
      this.#u8[word * 4 + R.parentCount] = parents.length - first
      this.#parents(word + R.parents, parents, first, parents.length - first)
    }
  }

  #parents(
    word: number,
    parents: readonly { slot: number; generation: number }[],
    first: number,
    count: number,
  ): void {
    for (let i = 0; i < count; i += 1) {
      const parent = parents[first + i]!
      this.#u32[word + i * 2] = parent.slot
      this.#u32[word + i * 2 + 1] = parent.generation
    }
  }

  /** The record written last, as bytes of its own; it is taken back. */
  takeBack(): Uint8Array {
    this.#written = (this.#written - 1) >>> 0
    this.#u32[0] = this.#written
    const start = ((this.#written % this.#capacity) + 1) * RECORD_BYTES
    return Uint8Array.from(this.#u8.subarray(start, start + RECORD_BYTES))
  }

  instance(t: number, slot: number, change: number, spec?: InstanceSpec): void {
    const word = this.#begin(KIND.instance, t)
    const byte = word * 4
    this.#u32[word + at('instance', 'instance') / 4] = slot
    this.#u32[word + at('instance', 'change') / 4] = change
    if (spec === undefined) return
    this.#u8[byte + at('instance', 'role')] = spec.role
    this.#u8[byte + at('instance', 'mode')] = spec.mode
    this.#u16[(byte + at('instance', 'model')) / 2] = spec.model
    this.#u16[(byte + at('instance', 'latency')) / 2] = spec.latency
    this.#u32[(byte + at('instance', 'maxSequences')) / 4] = spec.maxSequences
    this.#u32[(byte + at('instance', 'chunkTokens')) / 4] = spec.chunkTokens
    this.#u16[(byte + at('instance', 'decodeShare')) / 2] = spec.decodeShare
    this.#i64((byte + at('instance', 'kvTokens')) / 4, spec.kvTokens)
    const adapters = (byte + at('instance', 'adapters')) / 4
    this.#u32[adapters] = Number(spec.adapters & 0xffff_ffffn)
    this.#u32[adapters + 1] = Number(spec.adapters >> 32n)
    this.#i64((byte + at('instance', 'linkPerToken')) / 4, spec.linkPerToken)
    this.#i64((byte + at('instance', 'linkLatency')) / 4, spec.linkLatency)
    this.#u32[(byte + at('instance', 'revocable')) / 4] = spec.revocable ? 1 : 0
  }

  setLatency(
    t: number,
    latency: number,
    learned: boolean,
    constants: Readonly<Record<string, number>>,
  ): void {
    const word = this.#begin(KIND.setLatency, t)
    this.#u32[word + at('setLatency', 'latency') / 4] = latency
    this.#u32[word + at('setLatency', 'learned') / 4] = learned ? 1 : 0
    for (const name of [
      'prefillBaseMs',
      'prefillPerTokenMs',
      'decodeBaseMs',
      'decodePerSequenceMs',
      'decodePerContextMs',
    ]) {
      this.#f64[(word * 4 + at('setLatency', name)) / 8] = constants[name] ?? 0
    }
  }

  setParameter(t: number, parameter: number, value: number): void {
    const word = this.#begin(KIND.setParameter, t)
    this.#u32[word + at('setParameter', 'parameter') / 4] = parameter
    this.#f64[(word * 4 + at('setParameter', 'value')) / 8] = value
  }

  /** `migrate` undefined: as it is. */
  setPolicy(
    t: number,
    order: number,
    placement: number,
    binding: number,
    migrate: boolean | undefined,
  ): void {
    const word = this.#begin(KIND.setPolicy, t)
    this.#u16[(word * 4 + at('setPolicy', 'order')) / 2] = order
    this.#u16[(word * 4 + at('setPolicy', 'placement')) / 2] = placement
    this.#u32[word + at('setPolicy', 'binding') / 4] = binding
    this.#u32[word + at('setPolicy', 'migrate') / 4] = migrate === undefined ? 0 : migrate ? 2 : 1
  }

  /** Undefined = not known, which is not 0. */
  telemetry(
    t: number,
    instance: number,
    waiting: number | undefined,
    running: number | undefined,
    kvUsage: number | undefined,
  ): void {
    const word = this.#begin(KIND.telemetry, t)
    this.#u32[word + at('telemetry', 'instance') / 4] = instance
    this.#u32[word + at('telemetry', 'present') / 4] =
      (waiting === undefined ? 0 : 1) | (running === undefined ? 0 : 2) | (kvUsage === undefined ? 0 : 4)
    this.#u32[word + at('telemetry', 'waiting') / 4] = waiting ?? 0
    this.#u32[word + at('telemetry', 'running') / 4] = running ?? 0
    this.#f64[(word * 4 + at('telemetry', 'kvUsage')) / 8] = kvUsage ?? 0
  }

  /** A record as a log holds it. */
  raw(record: Uint8Array): void {
    const word = this.#begin(0, 0)
    this.#u8.set(record, word * 4)
  }

  timer(t: number): void {
    this.#begin(KIND.timer, t)
  }
}
