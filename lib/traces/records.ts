import type { ErrorCode, LaxityError } from '../errors.ts'
import { type CallRow, TraceBuilder } from './builder.ts'
import {
  fieldError,
  isName,
  isObject,
  isTime,
  isTokens,
  type JsonObject,
  NAME,
  TOKENS,
  TOKENS_OR_ZERO,
  unknownFieldError,
} from './check.ts'
import { MAX_TOKENS, MAX_WORKFLOW_CALLS, MAX_WORKFLOW_EDGES } from './limits.ts'
import { isBlank, type LineFormat } from './line-formats.ts'
import { parseLine } from './parse-line.ts'
import type { Place } from './place.ts'
import type { TraceTable } from './table.ts'

// What the formats of recorded sessions share: every line is a JSON object that gives a workflow or several, with the
// whole prompt of every call.

/** What a field must be. */
export interface Field {
  what: string
  is(value: unknown): boolean
  /** Default true. */
  required?: boolean
}

export const name: Field = { what: NAME, is: isName }
export const tokens: Field = { what: TOKENS, is: (value) => isTokens(value, 1) }
export const tokensOrZero: Field = { what: TOKENS_OR_ZERO, is: (value) => isTokens(value, 0) }
export const list: Field = { what: 'a list', is: Array.isArray }
export const names: Field = {
  what: 'a list of names',
  is: (value) => Array.isArray(value) && value.every(isName),
}
export const filledList: Field = {
  what: 'a list that is not empty',
  is: (value) => Array.isArray(value) && value.length > 0,
}

export function whole(low: number, high: number): Field {
  const is = (value: unknown) =>
    Number.isInteger(value) && (value as number) >= low && (value as number) <= high
  return { what: `a whole number from ${low} to ${high}`, is }
}

export function seconds(most: number): Field {
  return { what: `a time from 0 to ${most} s`, is: (value) => isTime(value, most) }
}

export type Fields = Readonly<Record<string, Field>>

/** The value as an object with these fields and no others. @throws LaxityError ERR_LAXITY_FIELD */
export function checkFields(place: Place, value: unknown, path: string, fields: Fields): JsonObject {
  if (!isObject(value)) {
    if (path !== '') throw place.expected('an object', path, value)
    throw place.error('ERR_LAXITY_SYNTAX', '', 'Expected one JSON object per line')
  }
  const known = Object.keys(fields)
  for (const field of known) {
    const { what, is, required = true } = fields[field]!
    if (value[field] === undefined && !required) continue
    if (!is(value[field])) throw fieldError(place, value, path, field, what, known)
  }
  const unknown = unknownFieldError(place, value, path, known)
  if (unknown !== undefined) throw unknown
  return value
}

/** A record of unnamed columns; `columns` names them for messages. @throws LaxityError ERR_LAXITY_FIELD */
export function checkColumns(place: Place, value: unknown, path: string, columns: Fields): unknown[] {
  const titles = Object.keys(columns)
  if (!Array.isArray(value) || value.length !== titles.length) {
    throw place.expected(`a list of ${titles.length} values`, path, value)
  }
  for (let i = 0; i < titles.length; i++) {
    const { what, is } = columns[titles[i]!]!
    if (!is(value[i])) throw place.expected(`${titles[i]} (${what})`, `${path}[${i}]`, value[i])
  }
  return value
}

/** Adds the calls of a record; the limits of a workflow and of lengths that were summed up are checked here. */
export class RecordWriter {
  readonly place: Place
  readonly #builder: TraceBuilder
  readonly #idField: string
  #calls = 0
  #edges = 0

  constructor(place: Place, builder: TraceBuilder, idField: string) {
    this.place = place
    this.#builder = builder
    this.#idField = idField
  }

  workflow(id: string): void {
    if (!isName(id)) throw this.place.expected(NAME, this.#idField, id)
    this.#builder.addWorkflow({ id })
    this.#calls = this.#edges = 0
  }

  /**
   * Appends a call; lengths may lie outside their limits. Parents are positions of earlier calls, which this gives.
   * `path` is the place of the call for errors.
   */
  call(row: CallRow, parents: readonly number[], path: string): number {
    const promptTokens = Math.max(1, row.promptTokens)
    if (promptTokens > MAX_TOKENS || row.outputTokens > MAX_TOKENS) {
      throw this.#limit(path, `A prompt or output of more than ${MAX_TOKENS} tokens`)
    }
    if (this.#calls === MAX_WORKFLOW_CALLS) {
      throw this.#limit(path, `More than ${MAX_WORKFLOW_CALLS} calls in one workflow`)
    }
    this.#edges += parents.length
    if (this.#edges > MAX_WORKFLOW_EDGES) {
      throw this.#limit(path, `More than ${MAX_WORKFLOW_EDGES} parents in one workflow`)
    }
    // The engine computes at least the last token.
    const cachedTokens = Math.min(row.cachedTokens ?? 0, promptTokens - 1)
    this.#builder.addCall({ ...row, promptTokens, cachedTokens, outputTokens: Math.max(1, row.outputTokens) })
    for (const parent of parents) this.#builder.addParent(parent)
    return this.#calls++
  }

  #limit(path: string, message: string): LaxityError {
    return this.place.error('ERR_LAXITY_LIMIT', path, message)
  }
}

export interface RecordFormat {
  /** Field of the workflow id, for messages. */
  readonly idField: string
  /** Checks a line's value and adds what it holds. Errors leave no use for the writer. */
  add(value: unknown, writer: RecordWriter): void
}

/** Reads a format of records. The table has the full context: prompts with their history. */
export class RecordReader implements LineFormat {
  readonly #place: Place
  readonly #format: RecordFormat
  readonly #builder: TraceBuilder
  readonly #writer: RecordWriter

  constructor(place: Place, format: RecordFormat) {
    this.#place = place
    this.#format = format
    this.#builder = new TraceBuilder((code: ErrorCode, field, message) =>
      place.error(code, field === 'id' ? format.idField : field, message),
    )
    this.#writer = new RecordWriter(place, this.#builder, format.idField)
  }

  addLine(line: string): void {
    if (isBlank(line)) return
    parseLine(line, this.#place, (value) => this.#format.add(value, this.#writer))
  }

  /** @throws LaxityError ERR_LAXITY_EMPTY */
  end(): TraceTable {
    if (this.#builder.workflows === 0) {
      throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    }
    return this.#builder.finish(this.#place.file, { context: 'full' })
  }
}
