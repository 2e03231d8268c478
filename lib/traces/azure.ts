import { quote, suggestion } from '../errors.ts'
import { TraceBuilder } from './builder.ts'
import { isTokens, TOKENS } from './check.ts'
import { MAX_ARRIVAL_MS } from './limits.ts'
import { isBlank, type LineFormat } from './line-formats.ts'
import type { Place } from './place.ts'
import type { TraceTable } from './table.ts'

const TIME = 'TIMESTAMP'
const PROMPT = 'ContextTokens'
const OUTPUT = 'GeneratedTokens'
const COLUMNS = [TIME, PROMPT, OUTPUT]
const STAGE = 'request'
const NS_PER_MS = 1e6

/** `YYYY-MM-DD HH:MM:SS[.fraction][Z|±HH:MM]`, UTC where no zone is given. */
const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?$/

/** A time in whole milliseconds and the nanoseconds beyond: a double holds no Unix time in units of 100 ns. */
interface Instant {
  ms: number
  ns: number
}

/** Whether a first line is the header of this format. */
export function isAzureHeader(line: string): boolean {
  return /^"?timestamp"?\s*,/i.test(line)
}

/**
 * Reads Azure's LLM inference traces (CSV: TIMESTAMP, ContextTokens, GeneratedTokens, in any order; fields hold no commas
 * and may be quoted). Every row is a workflow of one call; its arrival is its time after the earliest row.
 */
export class AzureReader implements LineFormat {
  readonly #place: Place
  readonly #builder: TraceBuilder
  /** Position of each of COLUMNS; undefined before the header. */
  #order: number[] | undefined
  #first: Instant | undefined
  #earliestMs = 0
  #latestMs = 0

  constructor(place: Place) {
    this.#place = place
    this.#builder = new TraceBuilder((code, field, message) => place.error(code, field, message))
  }

  addLine(line: string): void {
    if (isBlank(line)) return
    const fields = line.split(',').map(unquoted)
    if (this.#order === undefined) this.#order = this.#readHeader(fields)
    else this.#addRow(fields, this.#order)
  }

  end(): TraceTable {
    if (this.#builder.workflows === 0) {
      throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    }
    const table = this.#builder.finish(this.#place.file)
    if (this.#earliestMs < 0) {
      const arrivals = table.columns.arrivalMs!
      for (const [w, ms] of arrivals.entries()) arrivals[w] = ms - this.#earliestMs
    }
    return table
  }

  #readHeader(fields: readonly string[]): number[] {
    const unknown = fields.find((name) => !COLUMNS.includes(name))
    if (unknown !== undefined) {
      const missing = COLUMNS.filter((name) => !fields.includes(name))
      const hint = suggestion(unknown, missing)
      throw this.#place.error(
        'ERR_LAXITY_SYNTAX',
        '',
        `Unknown column ${quote(unknown)} in the header${hint}`,
      )
    }
    if (new Set(fields).size !== COLUMNS.length || fields.length !== COLUMNS.length) {
      throw this.#place.error('ERR_LAXITY_SYNTAX', '', `Expected the header ${COLUMNS.join(',')}`)
    }
    return COLUMNS.map((name) => fields.indexOf(name))
  }

  #addRow(fields: readonly string[], order: readonly number[]): void {
    const place = this.#place
    if (fields.length !== COLUMNS.length) {
      const message = `Expected ${COLUMNS.length} fields, got ${fields.length}`
      throw place.error('ERR_LAXITY_SYNTAX', '', message)
    }
    const [time, prompt, output] = order.map((position) => fields[position]!)
    const arrivedAtMs = this.#arrival(time!)
    const promptTokens = this.#tokens(prompt!, PROMPT)
    const outputTokens = this.#tokens(output!, OUTPUT)
    this.#builder.addWorkflow({ arrivedAtMs })
    this.#builder.addCall({ stage: STAGE, promptTokens, outputTokens })
  }

  #tokens(text: string, column: string): number {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : undefined
    if (value !== undefined && isTokens(value, 1)) return value
    throw this.#place.expected(TOKENS, column, value ?? text)
  }

  /** After the first row, ms; negative for a row that is earlier. */
  #arrival(text: string): number {
    const now = instantOf(text)
    if (now === undefined) throw this.#place.expected('YYYY-MM-DD HH:MM:SS.fraction', TIME, text)
    this.#first ??= now
    const ms = now.ms - this.#first.ms + (now.ns - this.#first.ns) / NS_PER_MS
    this.#earliestMs = Math.min(this.#earliestMs, ms)
    this.#latestMs = Math.max(this.#latestMs, ms)
    if (this.#latestMs - this.#earliestMs > MAX_ARRIVAL_MS) {
      throw this.#place.expected(`a time within ${MAX_ARRIVAL_MS} ms of the other rows`, TIME, text)
    }
    return ms
  }
}

function unquoted(field: string): string {
  const text = field.trim()
  return text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text
}

function instantOf(text: string): Instant | undefined {
  const match = TIMESTAMP.exec(text)
  if (match === null) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const utc = new Date(Date.UTC(year, month - 1, day, hour, minute, second))
  // What does not exist (30 February, 25 o'clock) would be carried over.
  const isReal =
    utc.getUTCFullYear() === year &&
    utc.getUTCMonth() === month - 1 &&
    utc.getUTCDate() === day &&
    utc.getUTCHours() === hour &&
    utc.getUTCMinutes() === minute &&
    utc.getUTCSeconds() === second
  if (!isReal) return undefined
  const zone = match[8] ?? 'Z'
  const [zoneHours, zoneMinutes] = zone === 'Z' ? [0, 0] : zone.slice(1).split(':').map(Number)
  const offsetMs = (zoneHours! * 60 + zoneMinutes!) * (zone.startsWith('-') ? -60_000 : 60_000)
  return { ms: utc.getTime() - offsetMs, ns: Number((match[7] ?? '').padEnd(9, '0')) }
}
