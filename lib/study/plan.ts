import type { Store } from './store.ts'
import type { Range } from './study.ts'

/** Least native work of a chunk, ms of CPU time: what one message may cost is noise beside it. */
export const CHUNK_MS = 250
/** Aimed at, so that runs which are quicker than thought still make a chunk. */
const AIM_MS = 400
/** Of a simulated call, before anything was measured; low, so that the first chunks are long rather than short. */
const MS_PER_CALL = 0.0004
const MOST_ROW_BYTES = 8 << 20

/** Cuts a grid into chunks of consecutive runs; how long they are follows what finished ones took. */
export class Planner {
  readonly #runs: number
  readonly #calls: (run: number) => number
  readonly #mostRuns: number
  #next: number
  /** Measured ms per call, of the recent chunks. */
  #msPerCall = MS_PER_CALL
  #measured = false

  /** `calls`: of the trace that a run simulates. */
  constructor(runs: number, calls: (run: number) => number, width: number, store: Pick<Store, 'planned'>) {
    this.#runs = runs
    this.#calls = calls
    this.#mostRuns = Math.max(1, Math.floor(MOST_ROW_BYTES / (8 * width)))
    this.#next = store.planned
  }

  get measured(): boolean {
    return this.#measured
  }

  get done(): boolean {
    return this.#next >= this.#runs
  }

  next(): Range {
    const from = this.#next
    let to = from
    for (let ms = 0; to < this.#runs && ms < AIM_MS && to - from < this.#mostRuns; to++) {
      ms += this.#calls(to) * this.#msPerCall
    }
    this.#next = to
    return { from, to }
  }

  /** What a chunk took; halves of the old and the new, and all of the first. */
  learn({ from, to }: Range, cpuMs: number): void {
    let calls = 0
    for (let run = from; run < to; run++) calls += this.#calls(run)
    const now = Math.max(cpuMs / calls, 1e-7)
    this.#msPerCall = this.#measured ? (this.#msPerCall + now) / 2 : now
    this.#measured = true
  }
}
