/** What lives in a slot: the same slot serves many, one after the other, told apart by their generation. */
export interface Slotted {
  readonly slot: number
  readonly generation: number
}

/** Slots with generations, as the core counts them: the facade hands them out, the core says when they are free. */
export class SlotTable<T extends Slotted> implements Iterable<T> {
  readonly #entries: (T | undefined)[] = []
  readonly #generations: number[] = []
  readonly #free: number[] = []

  /** Slots that were ever used: a new one is at most this. */
  get size(): number {
    return this.#generations.length
  }

  /** The slot of the next entry, under `generationOf` it. */
  take(): number {
    const slot = this.#free.pop() ?? this.#generations.length
    this.#generations[slot] = (this.#generations[slot] ?? 0) + 1
    return slot
  }

  generationOf(slot: number): number {
    return this.#generations[slot]!
  }

  put(entry: T): void {
    this.#entries[entry.slot] = entry
    this.#generations[entry.slot] = entry.generation
  }

  at(slot: number): T | undefined {
    return this.#entries[slot]
  }

  find(slot: number, generation: number): T | undefined {
    const entry = this.#entries[slot]
    return entry?.generation === generation ? entry : undefined
  }

  /** Nothing where the slot has another entry by now. */
  release(entry: T): void {
    if (this.#entries[entry.slot] !== entry) return
    this.#entries[entry.slot] = undefined
    this.#free.push(entry.slot)
  }

  /** After entries were put under slots of their own: what is empty is free. */
  recount(): void {
    this.#free.length = 0
    for (let slot = 0; slot < this.#generations.length; slot += 1)
      if (this.#entries[slot] === undefined) this.#free.push(slot)
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const entry of this.#entries) if (entry !== undefined) yield entry
  }
}
