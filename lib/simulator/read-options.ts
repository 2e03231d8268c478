import { LIMITS } from '../cluster/limits.ts'
import { ENGINE_MODES, type EngineMode } from '../cluster/modes.ts'
import { describe } from '../errors.ts'
import type { Arrivals, Compat, Feedback, Knowledge, SloBase } from '../native.ts'
import { hint } from '../report/near.ts'
import type { Progress } from './options.ts'
import { type CheckedError, readError } from './prediction-error.ts'
import { ARRIVALS, type ArrivalShape, readArrivalShape } from './read-arrivals.ts'
import { type CheckedPairs, readPairOptions } from './read-pairs.ts'
import { type CheckedPlanning, readPlanning } from './read-planning.ts'
import { type CheckedTenants, readTenantOptions } from './read-tenants.ts'
import type { OptionReader } from './validate.ts'

/** Checked options, before cluster and trace are known: what depends on them may still be undefined. */
export interface CheckedOptions {
  /** Without alpha. */
  parameters: Record<string, number>
  mode: EngineMode | undefined
  chunkTokens: number | undefined
  decodeShare: number | undefined
  knowledge: Knowledge | undefined
  template: 'mean' | 'pessimistic'
  feedback: Feedback
  lookahead: number
  arrivals: Arrivals | undefined
  rate: number | undefined
  sloScale: number
  sloBase: SloBase | undefined
  deadlines: (typeof DEADLINES)[number] | undefined
  seed: number
  tieSeed: number
  placementSeed: number
  compat: Compat
  laws: boolean
  workers: number | undefined
  background: boolean | undefined
  signal: AbortSignal | undefined
  onProgress: ((progress: Progress) => void) | undefined
  shape: ArrivalShape
  tenants: CheckedTenants | undefined
  /** Tokens; undefined = the cluster's own. */
  prefixCache: number | undefined
  error: CheckedError | undefined
  pairs: CheckedPairs
  planning: CheckedPlanning
}

const COMPATS = ['none', 'hexgen', 'hexgen-ticks', 'distserve', 'splitwise'] as const satisfies Compat[]
export const KNOWLEDGE = ['online', 'template', 'declared', 'oracle'] as const
export const FEEDBACK = ['boundary', 'lease'] as const
export const SLO_BASES = ['template', 'exclusive', 'horizon'] as const
export const DEADLINES = ['slo', 'none'] as const
const MOST_LOOKAHEAD = 1000
const MOST_WORKERS = 256
const MOST_PER_SECOND = 1e6
const LARGEST_SCALE = 1e6
const LARGEST_CACHE = 10_000_000_000

/** Why other options exclude `compat`. */
export const NOT_COMPAT = '`compat` reproduces a simulator without'

/** Checks what needs neither cluster nor trace; problems are left in the reader. */
export function readOptions(reader: OptionReader, parameters: readonly string[]): CheckedOptions {
  const compat = reader.oneOf('compat', COMPATS, 'none' as const)
  const feedback = reader.oneOf('feedback', FEEDBACK, 'boundary' as const)
  const lookahead = reader.whole('lookahead', feedback === 'lease' ? 1 : 0, 0, MOST_LOOKAHEAD)
  if (feedback === 'boundary' && lookahead > 0) {
    reader.add(
      '`lookahead` needs feedback "lease": at batch boundaries there is nothing to look ahead for',
      'lookahead',
    )
  }
  const arrivals = reader.oneOf('arrivals', ARRIVALS, undefined)
  const rate = reader.positive('rate', undefined, MOST_PER_SECOND)
  if (arrivals === 'trace' && rate !== undefined) {
    reader.add('`rate` has no meaning with the arrivals of the trace: leave one of them out', 'rate')
  }
  const prefixCache = reader.whole('prefixCache', undefined, 0, LARGEST_CACHE)
  const error = readError(reader)
  if (compat !== 'none' && (prefixCache ?? 0) > 0) reader.add(`${NOT_COMPAT} prefix caches`, 'prefixCache')
  if (compat !== 'none' && error !== undefined) reader.add(`${NOT_COMPAT} prediction errors`, 'error')
  return {
    parameters: readParameters(reader, parameters),
    mode: reader.oneOf('mode', ENGINE_MODES, undefined),
    chunkTokens: reader.whole('chunkTokens', undefined, 1, LIMITS.chunkTokens),
    decodeShare: reader.number(
      'decodeShare',
      undefined,
      `a number from ${LIMITS.leastDecodeShare} to ${LIMITS.mostDecodeShare}`,
      (value) => value >= LIMITS.leastDecodeShare && value <= LIMITS.mostDecodeShare,
    ),
    knowledge: reader.oneOf('knowledge', KNOWLEDGE, undefined),
    template: reader.oneOf('template', ['mean', 'pessimistic'] as const, 'mean' as const),
    feedback,
    lookahead,
    arrivals,
    rate,
    sloScale: reader.positive('sloScale', 5, LARGEST_SCALE),
    sloBase: reader.oneOf('sloBase', SLO_BASES, undefined),
    deadlines: reader.oneOf('deadlines', DEADLINES, undefined),
    seed: reader.whole('seed', 1),
    tieSeed: reader.whole('tieSeed', 0),
    placementSeed: reader.whole('placementSeed', 1),
    compat,
    laws: reader.boolean('laws'),
    workers: reader.whole('workers', undefined, 0, MOST_WORKERS),
    background: reader.given('background') ? reader.boolean('background') : undefined,
    signal: reader.signal(),
    onProgress: reader.callback('onProgress'),
    shape: readArrivalShape(reader, arrivals),
    tenants: readTenantOptions(reader),
    prefixCache,
    error,
    pairs: readPairOptions(reader),
    planning: readPlanning(reader),
  }
}

export function isAlpha(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 1
}

function readParameters(reader: OptionReader, known: readonly string[]): Record<string, number> {
  const parameters: Record<string, number> = {}
  const given = reader.raw('parameters')
  if (given !== undefined && (typeof given !== 'object' || given === null || Array.isArray(given))) {
    reader.wrong('an object of numbers', 'parameters', given)
  } else {
    for (const [name, value] of Object.entries(given ?? {})) {
      const place = `parameters.${name}`
      if (value === undefined) continue
      if (name === 'alpha' || name === 'beta') {
        reader.add(`\`${place}\` is an option of its own: give \`${name}\``, place)
      } else if (!known.includes(name)) {
        reader.add(`Unknown parameter \`${place}\`${hint(name, known)}`, place)
      } else if (typeof value !== 'number' || !Number.isFinite(value)) {
        reader.add(`Expected a finite number for \`${place}\`, got ${describe(value)}`, place)
      } else {
        parameters[name] = value
      }
    }
  }
  const beta = reader.positive('beta', undefined, 1e12)
  if (beta !== undefined) parameters.beta = beta
  return parameters
}
