/** Sorted times with running sums: how long all of them together lie in the past at t. */
class Past {
  readonly #times: Uint32Array
  readonly #sums: Float64Array

  constructor(times: Uint32Array) {
    this.#times = isAscending(times) ? times : times.slice().sort()
    this.#sums = new Float64Array(times.length + 1)
    let sum = 0
    for (let i = 0; i < times.length; i++) {
      sum += this.#times[i]!
      this.#sums[i + 1] = sum
    }
  }

  /** Σ max(0, t − time). */
  at(t: number): number {
    const before = firstAbove(this.#times, t)
    return before * t - this.#sums[before]!
  }
}

/** Leases are, and first tokens often: a sort of millions spared. */
function isAscending(values: Uint32Array): boolean {
  for (let i = 1; i < values.length; i++) if (values[i - 1]! > values[i]!) return false
  return true
}

/** How many of ascending values are <= t. */
export function firstAbove(values: Uint32Array, t: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (values[middle]! <= t) low = middle + 1
    else high = middle
  }
  return low
}

/** What ran on one instance. Its calls are `first` … `end` − 1, by lease. */
export class InstanceModel {
  readonly label: string
  readonly lanes: number
  readonly first: number
  readonly end: number
  readonly #leased: Uint32Array
  /** Latest finish among the calls so far: ascending, unlike the finishes. */
  readonly #latest: Uint32Array
  readonly #starts: Past
  readonly #tokens: Past
  readonly #ends: Past

  constructor(
    label: string,
    lanes: number,
    first: number,
    leased: Uint32Array,
    token: Uint32Array,
    finished: Uint32Array,
  ) {
    this.label = label
    this.lanes = Math.max(1, lanes)
    this.first = first
    this.end = first + leased.length
    this.#leased = leased
    this.#latest = new Uint32Array(leased.length)
    let latest = 0
    for (let i = 0; i < leased.length; i++) this.#latest[i] = latest = Math.max(latest, finished[i]!)
    this.#starts = new Past(leased)
    this.#tokens = new Past(token)
    this.#ends = new Past(finished)
  }

  /** A range of calls that holds all that run at some time from `from` to `to`, and few others. */
  visible(from: number, to: number): { first: number; end: number } {
    return {
      first: this.first + firstAbove(this.#latest, from),
      end: this.first + firstAbove(this.#leased, to),
    }
  }

  /** Mean number of calls in prefill and of all that run, from `from` to `to`. Exact at any zoom. */
  running(from: number, to: number): { prefill: number; all: number } {
    const span = to - from
    const starts = this.#starts.at(to) - this.#starts.at(from)
    const tokens = this.#tokens.at(to) - this.#tokens.at(from)
    const ends = this.#ends.at(to) - this.#ends.at(from)
    return { prefill: (starts - tokens) / span, all: (starts - ends) / span }
  }
}
