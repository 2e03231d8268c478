import { type NativeScheduler, type NativeSchedulerConfig, native } from '../native.ts'
import { type EventObject, encodeRecord, RECORD_BYTES } from './records.ts'

/**
 * The scheduler behind its ring: the minimal driver. Events are written as records into shared memory, one `decide`
 * drains them all. Layout of the ring: one record of counters (written, drained: u32 each), then `capacity` records.
 */
export class RingScheduler {
  readonly #native: NativeScheduler
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #capacity: number

  /** @param capacity events that fit between two decides */
  constructor(config: NativeSchedulerConfig, capacity = 4096) {
    this.#capacity = capacity
    this.#bytes = new Uint8Array(new SharedArrayBuffer((capacity + 1) * RECORD_BYTES))
    this.#view = new DataView(this.#bytes.buffer)
    this.#native = new native.Scheduler(config, this.#bytes)
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

  /** Applies what was written and decides. The decisions stay valid until the next call. */
  decide(): Uint8Array {
    const made = this.#native.decide()
    return made < 0 ? new Uint8Array(0) : this.#native.decisions
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
