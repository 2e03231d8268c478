import type { Range } from './study.ts'

/** What a finished chunk gave. */
export interface ChunkResult extends Range {
  /** [runs × row width] */
  rows: Float64Array
  /** Thread CPU time of its runs, ms. */
  cpuMs: number
}

/** A chunk that failed for good. */
export interface SetAside extends Range {
  error: string
  attempts: number
}

/** Where the results of a study go: each chunk once. */
export interface Store {
  /** Chunks planned before and not finished, ascending: they keep their borders, so their ids stay. */
  readonly open: readonly Range[]
  /** Runs up to here are planned. */
  readonly planned: number
  readonly doneRuns: number
  /** CPU time of all finished runs, also of earlier sessions. */
  readonly cpuMs: number
  plan(range: Range): Promise<void>
  /** False where it was there already. */
  append(result: ChunkResult): Promise<boolean>
  setAside(chunk: SetAside): Promise<void>
  /** Finished chunks in grid order. */
  chunks(): AsyncIterable<ChunkResult>
  close(): Promise<void>
}

/** Results in memory, for studies that answer a question. */
export class MemoryStore implements Store {
  readonly open: readonly Range[] = []
  planned = 0
  doneRuns = 0
  cpuMs = 0
  readonly #chunks = new Map<number, ChunkResult>()

  async plan({ to }: Range): Promise<void> {
    this.planned = Math.max(this.planned, to)
  }

  async append(result: ChunkResult): Promise<boolean> {
    if (this.#chunks.has(result.from)) return false
    this.#chunks.set(result.from, result)
    this.doneRuns += result.to - result.from
    this.cpuMs += result.cpuMs
    return true
  }

  async setAside(): Promise<void> {}

  async *chunks(): AsyncIterable<ChunkResult> {
    yield* [...this.#chunks.values()].sort((a, b) => a.from - b.from)
  }

  async close(): Promise<void> {}
}
