import { LineSplitter } from './lines.ts'
import type { Place } from './place.ts'
import type { TraceTable } from './table.ts'

/** A format's reader: bytes in, table out. */
export interface TraceReader {
  push(chunk: Buffer): void
  end(): TraceTable
}

/** A format of one record per line. Blank lines before the first record never reach it. */
export interface LineFormat {
  addLine(line: string): void
  /** @throws LaxityError ERR_LAXITY_EMPTY */
  end(): TraceTable
}

/** Reads lines in the format that `choose` finds by the first of them. */
export class LinesReader implements TraceReader {
  readonly #lines: LineSplitter
  readonly #place: Place
  #format: LineFormat | undefined

  constructor(place: Place, choose: (line: string) => LineFormat) {
    this.#place = place
    this.#lines = new LineSplitter(place, (line) => {
      if (this.#format === undefined) {
        if (isBlank(line)) return
        this.#format = choose(line)
      }
      this.#format.addLine(line)
    })
  }

  push(chunk: Buffer): void {
    this.#lines.push(chunk)
  }

  end(): TraceTable {
    this.#lines.end()
    if (this.#format === undefined) throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The file is empty')
    return this.#format.end()
  }
}

export function isBlank(line: string): boolean {
  return /^\s*$/.test(line)
}
