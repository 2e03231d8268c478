/** What cases cost and pass, one JSON line each, as long as the program is the same one. */
export class Costs {
  readonly #file: string
  readonly #known = new Map<number, Case>()

  constructor(file: string, program: string) {
    this.#file = file
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
    if (lines[0] !== program) {
      writeFileSync(file, `${program}\n`)
      return
    }
    for (const line of lines.slice(1)) {
      if (line === '') continue
      const one = JSON.parse(line) as Omit<Case, 'passes'> & { passes: number[] }
      this.#known.set(one.place, { ...one, passes: new Set(one.passes) })
    }
  }

  of(place: number): Case | undefined {
    return this.#known.get(place)
  }

  add(test: Case): void {
    this.#known.set(test.place, test)
    appendFileSync(this.#file, `${JSON.stringify({ ...test, passes: [...test.passes] })}\n`)
  }
}

/** What became of each mutant, one JSON line each, by the mutant's key: a later line counts. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { Case, Killer } from './cases.ts'
import type { Mutant } from './sample.ts'

export class Results {
  readonly #file: string
  readonly #known = new Map<string, Killer | null>()

  constructor(file: string) {
    this.#file = file
    if (!existsSync(file)) return
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      if (line === '') continue
      const [key, by] = JSON.parse(line) as [string, Killer | null]
      this.#known.set(key, by)
    }
  }

  /** Who noticed; null where nobody did, undefined where nobody was asked. */
  of(mutant: Mutant): Killer | null | undefined {
    return this.#known.get(mutant.key)
  }

  add(mutant: Mutant, by: Killer | null): void {
    this.#known.set(mutant.key, by)
    appendFileSync(this.#file, `${JSON.stringify([mutant.key, by])}\n`)
  }
}

/** Which mutants compile, by the same key. */
export class Verdicts {
  readonly #file: string
  readonly #known: Record<string, boolean>

  constructor(file: string) {
    this.#file = file
    this.#known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, boolean>) : {}
  }

  of(mutant: Mutant): boolean | undefined {
    return this.#known[mutant.key]
  }

  set(mutant: Mutant, compiles: boolean): void {
    this.#known[mutant.key] = compiles
  }

  save(): void {
    writeFileSync(this.#file, JSON.stringify(this.#known))
  }
}
