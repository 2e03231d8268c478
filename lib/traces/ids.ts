import { defaultWorkflowId } from './table.ts'

/** A Set holds at most 2^24 values. */
const SET_LIMIT = 2 ** 23

/** Unique workflow ids by row, kept only once one differs from the default of its row. */
export class WorkflowIds {
  list: string[] | undefined
  #rows = 0
  #used: Set<string>[] = []

  /** False if the id was used before. */
  push(id: string): boolean {
    const row = this.#rows++
    if (this.list === undefined) {
      if (id === defaultWorkflowId(row)) return true
      this.list = []
      for (let i = 0; i < row; i++) this.#add(defaultWorkflowId(i))
    }
    return this.#add(id)
  }

  #add(id: string): boolean {
    if (this.#used.some((set) => set.has(id))) return false
    let last = this.#used.at(-1)
    if (last === undefined || last.size >= SET_LIMIT) {
      last = new Set()
      this.#used.push(last)
    }
    last.add(id)
    this.list?.push(id)
    return true
  }
}

/** Call ids by row, kept only once one differs from the default of its position. Equal texts are stored once. */
export class CallIds {
  list: string[] | undefined
  readonly #shared = new Map<string, string>()

  /** `fallback(row)` is asked for the ids of earlier rows when the first unusual one arrives. */
  push(row: number, id: string, usual: string, fallback: (row: number) => string): void {
    if (this.list === undefined) {
      if (id === usual) return
      this.list = []
      for (let i = 0; i < row; i++) this.list.push(fallback(i))
    }
    this.list.push(this.#share(id))
  }

  #share(id: string): string {
    const known = this.#shared.get(id)
    if (known !== undefined) return known
    if (this.#shared.size < 65_536) this.#shared.set(id, id)
    return id
  }
}
