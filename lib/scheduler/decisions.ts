import { native } from '../native.ts'

/** `DecisionKind` of native/scheduler/events.h. */
export const DECISION = { lease: 1, admitDecode: 2, revoke: 3, reject: 4 } as const
/** `RejectReason`: why a lease was taken back. */
export const REVOKED = { lost: 6, kvExpired: 7, forOthers: 8 } as const
/** No decode instance. */
export const NONE = 0xffff_ffff

const layout = native.eventLayout
const fields = layout.kinds.find(({ name }) => name === 'decision')!.fields
const first = Math.min(...fields.map(({ offset }) => offset))

/** Byte offset inside a decision. */
function at(name: string): number {
  return fields.find((field) => field.name === name)!.offset - first
}

const BYTES = layout.decisionBytes
const KIND = at('kind')
const REJECT_REASON = at('rejectReason')
const LEASE_REASON = at('leaseReason')
const EPOCH = at('epoch') / 4
const CALL = at('call') / 4
const GENERATION = at('callGeneration') / 4
const INSTANCE = at('instance') / 4
const DECODE = at('decodeInstance') / 4
const PRIORITY = at('enginePriority') / 4

/** The decisions of one decide, read in place: `go` moves, the getters read. */
export class Decisions {
  readonly #own8: Uint8Array
  readonly #own32: Uint32Array
  #bytes: Uint8Array
  #words: Uint32Array
  #byte = 0
  #word = 0

  /** Over memory that the addon writes; only as many as fit are there. */
  constructor(memory: SharedArrayBuffer, offset: number) {
    this.#own8 = this.#bytes = new Uint8Array(memory, offset)
    this.#own32 = this.#words = new Uint32Array(memory, offset)
  }

  static bytesOf(count: number): number {
    return count * BYTES
  }

  /** Reads from a copy: there are more decisions than the shared memory holds. */
  useCopy(copy: Uint8Array): void {
    this.#bytes = copy
    this.#words = new Uint32Array(copy.buffer, copy.byteOffset, copy.byteLength / 4)
  }

  useShared(): void {
    this.#bytes = this.#own8
    this.#words = this.#own32
  }

  go(index: number): void {
    this.#byte = index * BYTES
    this.#word = this.#byte / 4
  }

  get kind(): number {
    return this.#bytes[this.#byte + KIND]!
  }
  get rejectReason(): number {
    return this.#bytes[this.#byte + REJECT_REASON]!
  }
  get leaseReason(): number {
    return this.#bytes[this.#byte + LEASE_REASON]!
  }
  get epoch(): number {
    return this.#words[this.#word + EPOCH]!
  }
  get call(): number {
    return this.#words[this.#word + CALL]!
  }
  get generation(): number {
    return this.#words[this.#word + GENERATION]!
  }
  get instance(): number {
    return this.#words[this.#word + INSTANCE]!
  }
  get decode(): number {
    return this.#words[this.#word + DECODE]!
  }
  get enginePriority(): number {
    return this.#words[this.#word + PRIORITY]! | 0
  }
}
