/** 16 bits, and the last id stays free for `OTHER`. */
const MOST = 0xffff
/** Shared by every name beyond the table: a client that invents names can not make it grow. */
const OTHER = 0xffff

/** Strings by small ids, in order of first use. */
export class Names {
  readonly list: string[] = []
  readonly #ids = new Map<string, number>()

  id(name: string): number {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    if (this.list.length >= MOST) return OTHER
    const id = this.list.push(name) - 1
    this.#ids.set(name, id)
    return id
  }

  /** Without giving it an id: the shared one where it has none. */
  find(name: string): number {
    return this.#ids.get(name) ?? OTHER
  }
}
