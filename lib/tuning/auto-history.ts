import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { LaxityError } from '../errors.ts'

/** What a sweep said, and when: after how many records of the log, at what time of the scheduler. */
export interface SweepRecord {
  after: number
  ns: number
  numbers: Float64Array
}

/**
 * The results of a live tuner's sweeps, in a file beside the log of a scheduler that can be restored: JSON Lines. All else
 * follows from the log. A line that was cut off, and what follows it, never happened: its sweep runs again.
 */
export class TunerHistory {
  readonly path: string
  /** What a replay has not come to yet. */
  #records: SweepRecord[] = []
  readonly #lines: string[] = []
  readonly #onError: (error: LaxityError) => void
  #writing: Promise<void> = Promise.resolve()

  private constructor(path: string, onError: (error: LaxityError) => void) {
    this.path = path
    this.#onError = onError
  }

  /** Of a log that begins. */
  static start(log: string, onError: (error: LaxityError) => void): TunerHistory {
    const history = new TunerHistory(`${log}.tuner`, onError)
    history.#write(() => writeFile(history.path, ''))
    return history
  }

  /** Of a log that is there; without a file of its own it is empty. @throws LaxityError ERR_LAXITY_FILE */
  static async read(log: string, onError: (error: LaxityError) => void): Promise<TunerHistory> {
    const history = new TunerHistory(`${log}.tuner`, onError)
    let text = ''
    try {
      text = await readFile(history.path, 'utf8')
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException
      if (code !== 'ENOENT')
        throw new LaxityError('ERR_LAXITY_FILE', `Cannot read: ${message}`, history.path, { cause })
    }
    for (const line of text.split('\n').slice(0, -1)) {
      const record = recordOf(line)
      if (record === undefined) break
      history.#records.push(record)
      history.#lines.push(`${line}\n`)
    }
    return history
  }

  /** The results that came before the log's next record, and were not asked for yet. */
  *after(records: number): Generator<SweepRecord> {
    while (this.#records.length > 0 && this.#records[0]!.after <= records) yield this.#records.shift()!
  }

  /** After a replay: results whose records were cut off the log, and lines that are damaged, are forgotten. */
  settle(): void {
    const kept = this.#lines.slice(0, this.#lines.length - this.#records.length).join('')
    this.#records = []
    this.#write(() => writeFile(this.path, kept))
  }

  append({ after, ns, numbers }: SweepRecord): void {
    const line = `${JSON.stringify({ after, ns, numbers: Array.from(numbers, String) })}\n`
    this.#write(() => appendFile(this.path, line))
  }

  /** When everything is written. */
  async close(): Promise<void> {
    await this.#writing
  }

  #write(write: () => Promise<void>): void {
    this.#writing = this.#writing.then(write).catch((cause: Error) => {
      const message = `Cannot write what the tuner found: ${cause.message}`
      this.#onError(new LaxityError('ERR_LAXITY_FILE', message, this.path, { cause }))
    })
  }
}

/** Numbers are texts: JSON has no infinity. */
function recordOf(line: string): SweepRecord | undefined {
  try {
    const { after, ns, numbers } = JSON.parse(line) as { after: unknown; ns: unknown; numbers: unknown }
    if (!Number.isSafeInteger(after) || !Number.isSafeInteger(ns) || !Array.isArray(numbers)) return undefined
    return { after: after as number, ns: ns as number, numbers: Float64Array.from(numbers, Number) }
  } catch {
    return undefined
  }
}
