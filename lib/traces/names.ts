import { MAX_NAMES } from './limits.ts'

/** Strings by small ids, in order of first use. */
export class Names {
  readonly list: string[] = []
  readonly #ids = new Map<string, number>()

  /** The id of `name`, or −1 where a new one would exceed MAX_NAMES. */
  id(name: string): number {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    const id = this.list.length
    if (id >= MAX_NAMES) return -1
    this.#ids.set(name, id)
    this.list.push(name)
    return id
  }
}
