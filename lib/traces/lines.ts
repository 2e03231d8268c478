import { isUtf8 } from 'node:buffer'
import { MAX_LINE_BYTES } from './limits.ts'
import type { Place } from './place.ts'

const NEWLINE = 10

/**
 * Splits chunks of bytes into lines of text and counts them in `place`. Holds no more than one line. A newline byte is
 * never part of another UTF-8 character, so checking line by line is checking the whole.
 * Errors: ERR_LAXITY_UTF8, ERR_LAXITY_LIMIT for a line above MAX_LINE_BYTES.
 */
export class LineSplitter {
  readonly #place: Place
  readonly #onLine: (line: string) => void
  #pieces: Buffer[] = []
  #pending = 0

  constructor(place: Place, onLine: (line: string) => void) {
    this.#place = place
    this.#onLine = onLine
  }

  push(chunk: Buffer): void {
    let start = 0
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start)
      if (end < 0) break
      this.#add(chunk.subarray(start, end))
      this.#emit()
      this.#place.line++
      start = end + 1
    }
    if (start < chunk.length) this.#add(chunk.subarray(start))
  }

  end(): void {
    if (this.#pending > 0) this.#emit()
  }

  #add(piece: Buffer): void {
    this.#pending += piece.length
    if (this.#pending > MAX_LINE_BYTES) {
      throw this.#place.error(
        'ERR_LAXITY_LIMIT',
        '',
        `The line is longer than ${MAX_LINE_BYTES / 2 ** 20} MiB`,
      )
    }
    this.#pieces.push(piece)
  }

  #emit(): void {
    const line = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#pending = 0
    if (!isUtf8(line)) throw this.#place.error('ERR_LAXITY_UTF8', '', 'The line is not UTF-8 text')
    this.#onLine(line.toString('utf8'))
  }
}
