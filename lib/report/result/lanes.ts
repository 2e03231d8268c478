import { type CallTable, isFinished } from './call-table.ts'

/** The finished calls of a run by instance, each on a lane where it overlaps no other. */
export interface Lanes {
  /** Calls in order of instance, lease, row. */
  readonly order: Uint32Array
  /** [instances + 1], into `order`. */
  readonly firstOf: Uint32Array
  /** By position in `order`: 0, 1, … */
  readonly lane: Uint16Array
  /** By instance: how many lanes it needs, the most calls that ran at once. */
  readonly lanes: readonly number[]
}

/**
 * Every call takes the lowest lane that is free at its lease (one that ends at that instant leaves its lane), so an
 * instance has as many lanes as calls ran on it at once.
 */
export function assignLanes(table: CallTable): Lanes {
  const { instance, leasedNs, finishedNs, instances } = table
  const order = Uint32Array.from(leasedNs.keys()).filter((call) => isFinished(table, call))
  order.sort((a, b) => instance[a]! - instance[b]! || leasedNs[a]! - leasedNs[b]! || a - b)

  const firstOf = new Uint32Array(instances.length + 1)
  for (const call of order) firstOf[instance[call]! + 1]!++
  for (let i = 0; i < instances.length; i++) firstOf[i + 1]! += firstOf[i]!

  const lane = new Uint16Array(order.length)
  const lanes = instances.map((_, i) => {
    const free = new LowestFree()
    const running = new EarliestEnd()
    for (let at = firstOf[i]!; at < firstOf[i + 1]!; at++) {
      const call = order[at]!
      while (running.size > 0 && running.end <= leasedNs[call]!) free.give(running.pop())
      lane[at] = free.take()
      running.push(finishedNs[call]!, lane[at]!)
    }
    return free.most
  })
  return { order, firstOf, lane, lanes }
}

/** Lanes that were given back, as a bitmap; the lowest one first. */
class LowestFree {
  /** Lanes ever taken. */
  most = 0
  readonly #isFree: boolean[] = []
  #from = 0

  take(): number {
    for (let lane = this.#from; lane < this.most; lane++) {
      if (!this.#isFree[lane]) continue
      this.#isFree[lane] = false
      this.#from = lane + 1
      return lane
    }
    this.#isFree.push(false)
    this.#from = this.most + 1
    return this.most++
  }

  give(lane: number): void {
    this.#isFree[lane] = true
    if (lane < this.#from) this.#from = lane
  }
}

/** Binary heap of running calls by end. */
class EarliestEnd {
  readonly #ends: number[] = []
  readonly #lanes: number[] = []

  get size(): number {
    return this.#ends.length
  }

  get end(): number {
    return this.#ends[0]!
  }

  push(end: number, lane: number): void {
    let at = this.#ends.push(end) - 1
    this.#lanes.push(lane)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (this.#ends[parent]! <= end) break
      this.#swap(at, parent)
      at = parent
    }
  }

  pop(): number {
    const lane = this.#lanes[0]!
    const last = this.#ends.length - 1
    this.#swap(0, last)
    this.#ends.pop()
    this.#lanes.pop()
    let at = 0
    for (;;) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < last && this.#ends[child]! < this.#ends[least]!) least = child
      }
      if (least === at) return lane
      this.#swap(at, least)
      at = least
    }
  }

  #swap(a: number, b: number): void {
    const end = this.#ends[a]!
    const lane = this.#lanes[a]!
    this.#ends[a] = this.#ends[b]!
    this.#lanes[a] = this.#lanes[b]!
    this.#ends[b] = end
    this.#lanes[b] = lane
  }
}
