import type { PairOptions } from '../native.ts'
import type { OptionReader } from './validate.ts'

export const RESERVES = ['early', 'late'] as const
export const STAGINGS = ['none', 'unlimited'] as const
export const DECODE_ADMISSIONS = ['scheduler', 'engine'] as const
export const LINKS = ['contended', 'free'] as const

/** Options of prefill-decode clusters, and which of them were given. */
export interface CheckedPairs {
  options: PairOptions
  given: readonly string[]
}

export const PAIR_NAMES = [
  'reserve',
  'staging',
  'decodeAdmission',
  'links',
  'backfill',
  'lateDecode',
  'overlap',
] as const satisfies readonly (keyof PairOptions)[]

/** Problems are left in the reader; whether the cluster has pairs is checked when it is known. */
export function readPairOptions(reader: OptionReader): CheckedPairs {
  const options: PairOptions = {
    reserve: reader.oneOf('reserve', RESERVES, 'early' as const),
    staging: reader.oneOf('staging', STAGINGS, 'none' as const),
    decodeAdmission: reader.oneOf('decodeAdmission', DECODE_ADMISSIONS, 'scheduler' as const),
    links: reader.oneOf('links', LINKS, 'contended' as const),
    backfill: reader.boolean('backfill'),
    lateDecode: reader.boolean('lateDecode'),
    overlap: reader.number('overlap', 0, 'a number from 0 to 1', (value) => value >= 0 && value <= 1),
  }
  if (options.staging === 'unlimited' && reader.given('reserve')) addReserveProblem(reader)
  return { options, given: PAIR_NAMES.filter((name) => reader.given(name)) }
}

export function addReserveProblem(reader: OptionReader): void {
  const message = '`reserve` has no meaning with staging "unlimited": room is asked for when the KV has moved'
  reader.add(message, 'reserve')
}

/** What a prefill-decode cluster has no use for, or a unified one. */
export function checkPairOptions(reader: OptionReader, pairs: CheckedPairs, paired: boolean): void {
  if (!paired) {
    for (const name of pairs.given) reader.add(`\`${name}\` needs a prefill-decode cluster`, name)
    return
  }
  for (const name of ['mode', 'chunkTokens', 'decodeShare']) {
    if (reader.given(name)) reader.add(`\`${name}\` is for unified clusters`, name)
  }
  if (reader.given('compat') && String(reader.raw('compat')).startsWith('hexgen')) {
    reader.add('`compat` reproduces a simulator of unified clusters', 'compat')
  }
}
