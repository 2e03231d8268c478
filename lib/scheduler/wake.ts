import type { Clock } from './clock.ts'

/** One timer on a clock, moved earlier when it must, never later: waking early is harmless. */
export class WakeTimer {
  readonly #clock: Clock
  readonly #callback: () => void
  #timer: unknown
  #at = Number.POSITIVE_INFINITY

  constructor(clock: Clock, callback: () => void) {
    this.#clock = clock
    this.#callback = callback
  }

  /** Wakes at `atMs` of the scheduler's time, which is `nowMs` now. */
  arm(atMs: number, nowMs: () => number): void {
    if (this.#timer !== undefined) {
      if (this.#at <= atMs && atMs !== Number.POSITIVE_INFINITY) return
      this.stop()
    }
    if (atMs === Number.POSITIVE_INFINITY) return
    this.#at = atMs
    this.#timer = this.#clock.setTimer(this.#fire, Math.max(0, atMs - nowMs()))
  }

  stop(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#timer = undefined
  }

  readonly #fire = (): void => {
    this.#timer = undefined
    this.#callback()
  }
}
