import { describe, expected, LaxityError } from '../errors.ts'

/** What became of an attempt; only a fault counts against its instance (live-scheduling 5). */
export type OutcomeClass = 'ok' | 'client_error' | 'backpressure' | 'fault' | 'cancelled'

export interface Outcome {
  /** Given, it decides; else it is derived from what follows. */
  class?: OutcomeClass | undefined
  /** HTTP status of the response, or of an error inside a stream. */
  status?: number | undefined
  /** Whatever was thrown: an abort counts as cancelled, everything else without a status as a fault. */
  error?: unknown
  /** Bytes of the answer that already reached the client: above 0, the call is not tried again. */
  clientBytes?: number | undefined
  /** How long the engine asked to be left alone. */
  retryAfterMs?: number | undefined
  /** Prefill-decode: which leg failed; default `prefill`. What is done about it happens on the other side. */
  leg?: 'prefill' | 'decode' | 'link' | undefined
  /**
   * Prefill-decode: leg d or the link failed and the prompt's KV is still on p. Then another d may take the call without a
   * second prefill; default false.
   */
  kvOnPrefill?: boolean | undefined
}

export const LEGS = ['prefill', 'decode', 'link'] as const

const CLASSES: readonly OutcomeClass[] = ['ok', 'client_error', 'backpressure', 'fault', 'cancelled']

/**
 * 429 and 529 are backpressure, 503 too where it names a time; other 5xx are faults, other 4xx the client's.
 *
 * @throws LaxityError ERR_LAXITY_FIELD
 */
export function classify(outcome: Outcome): OutcomeClass {
  checkOutcome(outcome)
  if (outcome.class !== undefined) return outcome.class
  const { status } = outcome
  if (status !== undefined) {
    if (status === 429 || status === 529) return 'backpressure'
    if (status === 503) return outcome.retryAfterMs === undefined ? 'fault' : 'backpressure'
    if (status === 499) return 'cancelled'
    if (status === 408) return 'fault'
    if (status >= 200 && status < 300 && outcome.error === undefined) return 'ok'
    if (status >= 400 && status < 500) return 'client_error'
    return 'fault'
  }
  const name = (outcome.error as { name?: unknown } | null | undefined)?.name
  return name === 'AbortError' ? 'cancelled' : 'fault'
}

/** `Retry-After` in seconds or as a date; undefined where it is neither. `nowMs`: wall time. */
export function retryAfterMs(header: string | null | undefined, nowMs: number): number | undefined {
  if (header === null || header === undefined || header === '') return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds)) return seconds >= 0 ? Math.min(seconds * 1000, 86_400_000) : undefined
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.min(Math.max(0, date - nowMs), 86_400_000)
}

/** @throws LaxityError ERR_LAXITY_FIELD */
export function checkOutcome(outcome: unknown): asserts outcome is Outcome {
  if (typeof outcome !== 'object' || outcome === null || Array.isArray(outcome))
    throw new LaxityError('ERR_LAXITY_FIELD', `Expected an outcome, got ${describe(outcome)}`, 'outcome')
  const given = outcome as Record<string, unknown>
  const fail = (what: string, field: string) => {
    throw new LaxityError('ERR_LAXITY_FIELD', expected(what, field, given[field]), `outcome.${field}`)
  }
  if (given.class !== undefined && !CLASSES.includes(given.class as OutcomeClass))
    fail(`one of ${CLASSES.join(', ')}`, 'class')
  if (
    given.status !== undefined &&
    !(Number.isInteger(given.status) && (given.status as number) >= 100 && (given.status as number) <= 999)
  )
    fail('an HTTP status', 'status')
  if (
    given.clientBytes !== undefined &&
    !(Number.isSafeInteger(given.clientBytes) && (given.clientBytes as number) >= 0)
  )
    fail('a whole number of bytes', 'clientBytes')
  if (given.leg !== undefined && !LEGS.includes(given.leg as 'link')) fail(`one of ${LEGS.join(', ')}`, 'leg')
  if (given.kvOnPrefill !== undefined && typeof given.kvOnPrefill !== 'boolean')
    fail('true or false', 'kvOnPrefill')
  const retry = given.retryAfterMs
  if (retry !== undefined && !(typeof retry === 'number' && retry >= 0 && retry <= 86_400_000))
    fail('milliseconds from 0 to a day', 'retryAfterMs')
}
