import { expected, LaxityError } from '../errors.ts'
import { duration } from './checks.ts'

/** Time as a scheduler sees it. Milliseconds, never decreasing; where zero lies does not matter. */
export interface Clock {
  now(): number
  /** Calls back once, not before `delayMs` have passed. */
  setTimer(callback: () => void, delayMs: number): unknown
  clearTimer(timer: unknown): void
}

/** setTimeout takes at most 2^31 - 1 ms; waking early is harmless. */
const LONGEST_TIMEOUT = 2 ** 31 - 1

/** The machine's monotonic clock. Its timer keeps no process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer: (callback, delayMs) =>
    setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), LONGEST_TIMEOUT)).unref(),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
}

/**
 * A clock that stands still until it is told to move: schedulers under test run in virtual time.
 *
 *     const clock = new ManualClock()
 *     const scheduler = new Scheduler({ cluster, clock })
 *     await clock.advance(30_000)
 */
export class ManualClock implements Clock {
  #now: number
  #sequence = 0
  readonly #timers = new Map<number, { at: number; callback: () => void }>()

  /** @throws LaxityError ERR_LAXITY_FIELD */
  constructor(startMs = 0) {
    duration(startMs, 'startMs')
    this.#now = startMs
  }

  now(): number {
    return this.#now
  }

  setTimer(callback: () => void, delayMs: number): unknown {
    if (typeof callback !== 'function')
      throw new LaxityError('ERR_LAXITY_FIELD', expected('a function', 'callback', callback), 'callback')
    if (typeof delayMs !== 'number' || Number.isNaN(delayMs))
      throw new LaxityError('ERR_LAXITY_FIELD', expected('milliseconds', 'delayMs', delayMs), 'delayMs')
    this.#sequence += 1
    this.#timers.set(this.#sequence, { at: this.#now + Math.max(0, delayMs), callback })
    return this.#sequence
  }

  clearTimer(timer: unknown): void {
    this.#timers.delete(timer as number)
  }

  /** Timers that wait. */
  get timers(): number {
    return this.#timers.size
  }

  /**
   * Moves by `ms`, firing what becomes due in its order; between two timers, promises settle.
   *
   * @throws (rejects) LaxityError ERR_LAXITY_FIELD
   */
  async advance(ms: number): Promise<void> {
    duration(ms, 'ms')
    const until = this.#now + ms
    for (;;) {
      await settle()
      let next: [number, { at: number; callback: () => void }] | undefined
      for (const entry of this.#timers) if (next === undefined || entry[1].at < next[1].at) next = entry
      if (next === undefined || next[1].at > until) break
      this.#timers.delete(next[0])
      this.#now = Math.max(this.#now, next[1].at)
      next[1].callback()
    }
    this.#now = until
    await settle()
  }
}

/** Lets every microtask that is queued now, and those they queue, run. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
