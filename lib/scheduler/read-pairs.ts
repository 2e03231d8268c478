import { describe, expected } from '../errors.ts'
import type { PairOptions } from '../native.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'

/** How a prefill-decode cluster works; what scheduler and engines must agree on. Names as in `simulate`. */
export interface LivePairs {
  /** When a call asks for room on its decode instance: at its lease (SGLang; default), or after its first token. */
  reserve?: PairOptions['reserve'] | undefined
  /** Where KV waits while there is no room: on the prefill instance (`none`, default), or beside the decode instance. */
  staging?: PairOptions['staging'] | undefined
  /** Who gives that room: the scheduler, in its policy's order (default), or the engine, first come, first served. */
  decodeAdmission?: PairOptions['decodeAdmission'] | undefined
  /** Whether transfers that share an end slow each other down (default), for projections. */
  links?: PairOptions['links'] | undefined
  /** Calls behind one that does not fit on a decode instance may go first; default false. */
  backfill?: boolean | undefined
  /** Choose the decode instance again at the first token (vLLM: only the second leg names it); default false. */
  lateDecode?: boolean | undefined
  /** Share of the KV that has moved when the prefill ends, 0 to 1; default 0. */
  overlap?: number | undefined
  /**
   * How long a prefill instance keeps the KV of a call that nobody fetches (vLLM: `kv_lease_duration`); default 30,000.
   * A call that waits there for room for half of it is prefilled again. 0 = for ever.
   */
  kvLeaseMs?: number | undefined
}

const CHOICES = {
  reserve: ['early', 'late'],
  staging: ['none', 'unlimited'],
  decodeAdmission: ['scheduler', 'engine'],
  links: ['contended', 'free'],
} as const
const FLAGS = ['backfill', 'lateDecode'] as const
const KEYS = [...Object.keys(CHOICES), ...FLAGS, 'overlap', 'kvLeaseMs']
const KV_LEASE_MS = 30_000
const LONGEST_MS = 1e12

/** The core's options, and the longest wait of KV on p. */
export function readPairs(given: unknown, problems: Problems): { pairs: PairOptions; kvParkMs: number } {
  const pairs: PairOptions = {
    reserve: 'early',
    staging: 'none',
    decodeAdmission: 'scheduler',
    links: 'contended',
    backfill: false,
    lateDecode: false,
    overlap: 0,
  }
  const fallback = { pairs, kvParkMs: KV_LEASE_MS / 2 }
  if (given === undefined) return fallback
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    problems.add('ERR_LAXITY_OPTION', `Expected an object for \`pairs\`, got ${describe(given)}`, 'pairs')
    return fallback
  }
  const raw = given as Record<string, unknown>
  const wrong = (what: string, name: string) =>
    problems.add('ERR_LAXITY_OPTION', expected(what, `pairs.${name}`, raw[name]), `pairs.${name}`)
  for (const name of Object.keys(raw))
    if (!KEYS.includes(name))
      problems.add(
        'ERR_LAXITY_OPTION',
        `Unknown option \`pairs.${name}\`${hint(name, KEYS)}`,
        `pairs.${name}`,
      )
  for (const [name, choices] of Object.entries(CHOICES) as [keyof typeof CHOICES, readonly string[]][]) {
    const value = raw[name]
    if (value === undefined) continue
    if (choices.includes(value as string)) Object.assign(pairs, { [name]: value })
    else wrong(`one of ${choices.join(', ')}`, name)
  }
  for (const name of FLAGS) {
    const value = raw[name]
    if (value === undefined) continue
    if (typeof value === 'boolean') pairs[name] = value
    else wrong('true or false', name)
  }
  const number = (name: string, value: number, high: number): number => {
    const one = raw[name]
    if (one === undefined) return value
    if (typeof one === 'number' && one >= 0 && one <= high) return one
    wrong(`a number from 0 to ${high}`, name)
    return value
  }
  pairs.overlap = number('overlap', 0, 1)
  return { pairs, kvParkMs: number('kvLeaseMs', KV_LEASE_MS, LONGEST_MS) / 2 }
}
