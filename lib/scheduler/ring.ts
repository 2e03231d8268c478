import { type NativeScheduler, type NativeSchedulerConfig, native } from '../native.ts'
import { guardPlacement, placementError } from './placement.ts'
import { type EventObject, encodeRecord, RECORD_BYTES } from './records.ts'

const PLACEMENT_FAILED = -3

/**
 * The scheduler behind its ring: the minimal driver. Events are written as records into shared memory, one `decide`
 * drains them all. Layout of the ring: one record of counters (written, drained: u32 each), then `capacity` records.
 */
export class RingScheduler {
  readonly #native: NativeScheduler
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #capacity: number

  /**
   * @param config `placement` may be a function, called inside `decide`
   * @param capacity events that fit between two decides
   */
  constructor(config: NativeSchedulerConfig, capacity = 4096) {
    this.#capacity = capacity
    this.#bytes = new Uint8Array(new SharedArrayBuffer((capacity + 1) * RECORD_BYTES))
    this.#view = new DataView(this.#bytes.buffer)
    const { placement } = config
    const policy = typeof placement === 'function' ? { placement: guardPlacement(placement) } : {}
    this.#native = new native.Scheduler({ ...config, ...policy }, this.#bytes)
  }

  get pending(): number {
    return (this.#view.getUint32(0, true) - this.#view.getUint32(4, true)) >>> 0
  }

  /** Writes one event. Throws a RangeError where the ring is full and a TypeError where the event is malformed. */
  push(event: EventObject): void {
    const at = this.#next()
    const problem = encodeRecord(this.#view, at, event)
    if (problem !== undefined) throw new TypeError(problem)
    this.#commit()
  }

  /** Writes one event that is a record already. */
  pushRecord(record: Uint8Array): void {
    const at = this.#next()
    this.#bytes.set(record, at)
    this.#commit()
  }

  /**
   * Applies what was written and decides. The decisions stay valid until the next call.
   *
   * @throws LaxityError ERR_LAXITY_PLACEMENT where a placement function failed. The events are applied, `decisions`
   * holds what was decided before it, its call waits as it did, and the next decide with an event asks again.
   */
  decide(): Uint8Array {
    const made = this.#native.decide()
    if (made === PLACEMENT_FAILED) throw placementError(this.#native.placementFailure)
    return made < 0 ? new Uint8Array(0) : this.#native.decisions
  }

  /** Decisions of the last decide, also of one that threw. */
  get decisions(): Uint8Array {
    return this.#native.decisions
  }

  /** (record number, status) pairs of the events that the last decide refused. */
  get refusals(): Uint32Array {
    return this.#native.refusals
  }

  get nextWakeMs(): number | null {
    return this.#native.nextWakeMs
  }

  audit(): boolean {
    return this.#native.audit()
  }

  #next(): number {
    if (this.pending >= this.#capacity) throw new RangeError('The event ring is full: call decide first')
    const at = ((this.#view.getUint32(0, true) % this.#capacity) + 1) * RECORD_BYTES
    this.#bytes.fill(0, at, at + RECORD_BYTES)
    return at
  }

  #commit(): void {
    this.#view.setUint32(0, this.#view.getUint32(0, true) + 1, true)
  }
}
