import type { NativePolynomial } from '../native.ts'
import type { Problems } from '../report/problems.ts'
import type { PolynomialLatency } from './config.ts'
import { LIMITS } from './limits.ts'

export const REGIME_FIELDS = [
  'fromTokens',
  'baseMs',
  'perTokenMs',
  'perTokenSquaredMs',
  'fromSequences',
  'perSequenceMs',
  'perContextMs',
]

export function nativePolynomial({ prefill, decode }: PolynomialLatency): NativePolynomial {
  return {
    kind: 'polynomial',
    prefill: prefill.map(({ fromTokens = 1, baseMs, perTokenMs, perTokenSquaredMs = 0 }) => ({
      fromTokens,
      baseMs,
      perTokenMs,
      perTokenSquaredMs,
    })),
    decode: decode.map(({ fromSequences = 1, baseMs, perSequenceMs = 0, perContextMs = 0 }) => ({
      fromSequences,
      baseMs,
      perSequenceMs,
      perContextMs,
    })),
  }
}

/** What relates the regimes of a polynomial to each other; single fields are the schema's. */
export function checkRegimes(latency: Record<string, unknown>, where: string, problems: Problems): void {
  checkAscending(latency.prefill, 'fromTokens', `${where}.prefill`, problems)
  checkAscending(latency.decode, 'fromSequences', `${where}.decode`, problems)
  const prefill = regimes(latency.prefill)
  for (const [i, regime] of prefill.entries()) {
    const [from, base, slope] = [
      number(regime.fromTokens, 1),
      number(regime.baseMs),
      number(regime.perTokenMs),
    ]
    const next = prefill[i + 1]
    const end = next === undefined ? from : number(next.fromTokens, 1)
    const falls = next === undefined && slope < 0
    if (falls || Math.min(base + slope * from, base + slope * end) < LIMITS.leastDecodeMs) {
      const message = 'Expected prefill times above 0 over the whole regime'
      problems.add('ERR_LAXITY_FIELD', message, `${where}.prefill[${i}]`)
    }
  }
  for (const [i, regime] of regimes(latency.decode).entries()) {
    if (number(regime.baseMs) + number(regime.perSequenceMs, 0) < LIMITS.leastDecodeMs)
      problems.add('ERR_LAXITY_FIELD', 'Expected an iteration of more than 0 ms', `${where}.decode[${i}]`)
  }
}

function checkAscending(list: unknown, field: string, where: string, problems: Problems): void {
  let before = 0
  for (const [i, regime] of regimes(list).entries()) {
    const from = number(regime[field], 1)
    if (i === 0 ? from !== 1 : from <= before) {
      const message =
        i === 0 ? `The first regime begins at \`${field}\` 1` : `Expected ascending \`${field}\``
      problems.add('ERR_LAXITY_FIELD', message, `${where}[${i}]`)
      return
    }
    before = from
  }
}

function regimes(list: unknown): Record<string, unknown>[] {
  return Array.isArray(list) && list.every((item) => typeof item === 'object' && item !== null) ? list : []
}

/** NaN, which no comparison holds for, where the schema has complained already. */
function number(value: unknown, absent = Number.NaN): number {
  return value === undefined ? absent : typeof value === 'number' ? value : Number.NaN
}
