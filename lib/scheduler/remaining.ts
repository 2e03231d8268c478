import { describe, expected, LaxityError } from '../errors.ts'
import { duration } from './checks.ts'

/**
 * What a caller knows of the standalone time that is still to come, ms: all of it; a lower quantile (true in all but a share q
 * of cases, q at most 0.1); or an estimate and sigma, the standard deviation of the logarithm of its error, of which
 * estimate × exp(−2 sigma) counts.
 */
export type Remaining =
  | { exactMs: number }
  | { quantileMs: number; q: number }
  | { estimateMs: number; sigma: number }

/** As an event holds it: ns, -1 = nothing is told. */
export interface Told {
  ns: number
  exact: boolean
}

export const NOTHING_TOLD: Told = { ns: -1, exact: false }

const MOST_Q = 0.1
const MOST_SIGMA = 10
const FORMS = '{ exactMs }, { quantileMs, q } or { estimateMs, sigma }'
const WHY =
  'a mean says nothing of how sure it is, and what is told too long makes a workflow late (docs/horizon.md)'

/** @throws LaxityError ERR_LAXITY_FIELD; a mean, with or without a name, is refused. */
export function readRemaining(given: unknown, field = 'remaining'): Told {
  if (given === undefined) return NOTHING_TOLD
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw wrong(given, field)
  const keys = Object.keys(given).sort().join()
  const { exactMs, quantileMs, q, estimateMs, sigma } = given as Record<string, unknown>
  if (keys === 'exactMs') {
    duration(exactMs, `${field}.exactMs`)
    return { ns: Math.round(exactMs * 1e6), exact: true }
  }
  if (keys === 'q,quantileMs') {
    duration(quantileMs, `${field}.quantileMs`)
    if (typeof q !== 'number' || !(q > 0 && q <= MOST_Q)) {
      const most = `a number above 0, at most ${MOST_Q} (the part of cases that end earlier)`
      throw new LaxityError('ERR_LAXITY_FIELD', expected(most, `${field}.q`, q), `${field}.q`)
    }
    return { ns: Math.round(quantileMs * 1e6), exact: false }
  }
  if (keys === 'estimateMs,sigma') {
    duration(estimateMs, `${field}.estimateMs`)
    if (typeof sigma !== 'number' || !(sigma > 0 && sigma <= MOST_SIGMA)) {
      const what = `a number above 0, at most ${MOST_SIGMA} (of an exact time: { exactMs })`
      throw new LaxityError('ERR_LAXITY_FIELD', expected(what, `${field}.sigma`, sigma), `${field}.sigma`)
    }
    return { ns: Math.round(estimateMs * Math.exp(-2 * sigma) * 1e6), exact: false }
  }
  throw wrong(given, field)
}

function wrong(given: unknown, field: string): LaxityError {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given)
  const got = isObject ? `{ ${Object.keys(given).join(', ')} }` : describe(given)
  return new LaxityError('ERR_LAXITY_FIELD', `Expected ${FORMS} for \`${field}\`, got ${got}: ${WHY}`, field)
}
