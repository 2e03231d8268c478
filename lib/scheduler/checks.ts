import { expected, LaxityError } from '../errors.ts'

const MAX_ID = 256
const LONGEST_MS = 1e12

/** Checks of single values: one clear message each, ERR_LAXITY_FIELD. */

export function abortError(reason: unknown): LaxityError {
  if (reason instanceof LaxityError) return reason
  return new LaxityError('ERR_LAXITY_ABORTED', 'The call was cancelled', undefined, { cause: reason })
}

export function text(value: unknown, field: string): asserts value is string {
  if (typeof value !== 'string' || value.length === 0 || value.length > MAX_ID)
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`a text of 1 to ${MAX_ID} characters`, field, value),
      field,
    )
}

export function duration(value: unknown, field: string): asserts value is number {
  if (typeof value !== 'number' || !(value >= 0 && value <= LONGEST_MS))
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`milliseconds from 0 to ${LONGEST_MS}`, field, value),
      field,
    )
}

export function whole(value: unknown, field: string, low: number, high: number): asserts value is number {
  if (!Number.isSafeInteger(value) || (value as number) < low || (value as number) > high)
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`a whole number from ${low} to ${high}`, field, value),
      field,
    )
}

export function isSignal(value: unknown): value is AbortSignal {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as AbortSignal).addEventListener === 'function'
  )
}
