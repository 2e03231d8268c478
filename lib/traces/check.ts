import { expected, quote, suggestion } from '../errors.ts'
import { MAX_NAME, MAX_TOKENS } from './limits.ts'
import type { Place } from './place.ts'

// Checks of parsed JSON. They decide with a few comparisons and build paths and messages only for what fails: a trace
// has millions of fields. `schema.ts` states the same rules in zod; a property test holds the two together.

export type JsonObject = Record<string, unknown>

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A whole number of tokens in [min, MAX_TOKENS]. */
export function isTokens(value: unknown, min: 0 | 1): value is number {
  return typeof value === 'number' && value >>> 0 === value && value >= min && value <= MAX_TOKENS
}

export function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME
}

/** A time in [0, max], ms. */
export function isTime(value: unknown, max: number): value is number {
  return typeof value === 'number' && value >= 0 && value <= max
}

export const NAME = `a text of 1 to ${MAX_NAME} characters`
export const TOKENS = `a whole number from 1 to ${MAX_TOKENS}`
export const TOKENS_OR_ZERO = `a whole number from 0 to ${MAX_TOKENS}`

/** Parsed JSON has own fields only, and no `undefined`, so a plain count finds unknown ones. */
export function countFields(object: JsonObject): number {
  let count = 0
  for (const _ in object) count++
  return count
}

/**
 * The error for a field that failed its check. A missing field beside an unknown one is most likely a typing error,
 * so the unknown one is reported.
 */
export function fieldError(
  place: Place,
  object: JsonObject,
  prefix: string,
  field: string,
  what: string,
  known: readonly string[],
) {
  const value = object[field]
  if (value === undefined) {
    const unknown = unknownFieldError(place, object, prefix, known)
    if (unknown !== undefined) return unknown
    return place.error(
      'ERR_LAXITY_FIELD',
      join(prefix, field),
      `Missing field \`${field}\`, expected ${what}`,
    )
  }
  const name = isUsual(field) ? field : quote(field)
  return place.error('ERR_LAXITY_FIELD', join(prefix, field), expected(what, name, value))
}

/** The error for the first field that is not in `known`, or undefined. */
export function unknownFieldError(
  place: Place,
  object: JsonObject,
  prefix: string,
  known: readonly string[],
) {
  const field = Object.keys(object).find((name) => !known.includes(name))
  if (field === undefined) return undefined
  const hint = suggestion(
    field,
    known.filter((name) => object[name] === undefined),
  )
  return place.error('ERR_LAXITY_FIELD', join(prefix, field), `Unknown field ${quote(field)}${hint}`)
}

/** `prefix.field`, with unusual names quoted as in JavaScript. */
export function join(prefix: string, field: string): string {
  if (!isUsual(field)) return `${prefix}[${quote(field)}]`
  return prefix === '' ? field : `${prefix}.${field}`
}

function isUsual(field: string): boolean {
  return /^[\w$-]{1,60}$/.test(field)
}
