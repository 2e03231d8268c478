import { LIMITS } from '../cluster/limits.ts'
import { ENGINE_MODES, type EngineMode } from '../cluster/modes.ts'
import { describe, quote } from '../errors.ts'
import type { Arrivals, Binding, Compat, Feedback, Knowledge } from '../native.ts'
import { hint } from '../report/near.ts'
import { JAVASCRIPT_PLACEMENT, type PlacementFunction } from '../scheduler/placement.ts'
import type { Progress } from './options.ts'
import { defaultBinding, POLICY_PRESETS, type Policy } from './policies.ts'
import { type CheckedError, readError } from './prediction-error.ts'
import { ARRIVALS, type ArrivalShape, readArrivalShape } from './read-arrivals.ts'
import { type CheckedTenants, readTenantOptions } from './read-tenants.ts'
import type { OptionReader } from './validate.ts'

/** Names that the core registers. */
export interface Registry {
  readonly orders: readonly string[]
  readonly placements: readonly string[]
  readonly parameters: readonly string[]
}

/** Checked options, before the trace is known: what depends on it may still be undefined. */
export interface CheckedOptions {
  policy: Policy
  /** What `policy.placement` stands for where it is a function. */
  placementFunction: PlacementFunction | undefined
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
  sloBase: 'template' | 'exclusive' | undefined
  seed: number
  tieSeed: number
  placementSeed: number
  compat: Compat
  laws: boolean
  workers: number | undefined
  signal: AbortSignal | undefined
  onProgress: ((progress: Progress) => void) | undefined
  shape: ArrivalShape
  tenants: CheckedTenants | undefined
  /** Tokens; undefined = the cluster's own. */
  prefixCache: number | undefined
  error: CheckedError | undefined
}

const COMPATS = ['none', 'hexgen', 'hexgen-ticks', 'distserve', 'splitwise'] as const satisfies Compat[]
const BINDINGS = ['at-reveal', 'at-credit'] as const
const KNOWLEDGE = ['online', 'template', 'declared', 'oracle'] as const
const MOST_LOOKAHEAD = 1000
const MOST_WORKERS = 256
const MOST_PER_SECOND = 1e6
const LARGEST_SCALE = 1e6
const LARGEST_CACHE = 10_000_000_000

/** Why other options exclude `compat`. */
export const NOT_COMPAT = '`compat` reproduces a simulator without'

/** Checks what needs no trace; problems are left in the reader. */
export function readOptions(reader: OptionReader, registry: Registry): CheckedOptions {
  const compat = reader.oneOf('compat', COMPATS, 'none' as const)
  const policy = readPolicy(reader, registry, compat !== 'none')
  const feedback = reader.oneOf('feedback', ['boundary', 'lease'] as const, 'boundary' as const)
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
  if (compat !== 'none' && policy.migrate) reader.add(`${NOT_COMPAT} migration`, 'migrate')
  if (reader.given('migrate') && policy.migrate && policy.binding !== 'at-reveal') {
    reader.add('`migrate` needs binding "at-reveal": a shared queue has nothing to move', 'migrate')
  }
  const placement = reader.raw('placement')
  return {
    policy,
    placementFunction: typeof placement === 'function' ? (placement as PlacementFunction) : undefined,
    parameters: readParameters(reader, registry),
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
    sloBase: reader.oneOf('sloBase', ['template', 'exclusive'] as const, undefined),
    seed: reader.whole('seed', 1),
    tieSeed: reader.whole('tieSeed', 0),
    placementSeed: reader.whole('placementSeed', 1),
    compat,
    laws: reader.boolean('laws'),
    workers: reader.whole('workers', undefined, 0, MOST_WORKERS),
    signal: reader.signal(),
    onProgress: reader.callback('onProgress'),
    shape: readArrivalShape(reader, arrivals),
    tenants: readTenantOptions(reader),
    prefixCache,
    error,
  }
}

export function isAlpha(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 1
}

function readPolicy(reader: OptionReader, { orders, placements }: Registry, quirks: boolean): Policy {
  const base = readBase(reader)
  const order = reader.oneOf('order', orders, base.order ?? 'urgency')
  const placement =
    typeof reader.raw('placement') === 'function'
      ? JAVASCRIPT_PLACEMENT
      : reader.oneOf('placement', placements, base.placement ?? 'workload-balanced')
  checkPart(reader, 'order', base.order, orders)
  checkPart(reader, 'placement', base.placement, placements)
  // A preset's binding belongs to its own placement.
  const inherited = reader.given('placement') ? undefined : base.binding
  const binding = reader.oneOf('binding', BINDINGS, inherited ?? defaultBinding(placement))
  // A preset's migration needs queues, and no other simulator had it.
  const moves = base.migrate === true && binding === 'at-reveal' && !quirks
  const migrate = reader.given('migrate') ? reader.boolean('migrate') : moves
  return { order, placement, binding, migrate }
}

/** The parts that `policy` names, unchecked. */
function readBase(reader: OptionReader): {
  order?: string
  placement?: string
  binding?: Binding | undefined
  migrate?: boolean
} {
  const policy = reader.raw('policy')
  if (policy === undefined) return {}
  if (typeof policy === 'string') {
    if (Object.hasOwn(POLICY_PRESETS, policy)) return POLICY_PRESETS[policy]!
    const known = Object.keys(POLICY_PRESETS)
    reader.add(`Unknown policy ${quote(policy)}${hint(policy, known)}`, 'policy')
    return {}
  }
  if (typeof policy !== 'object' || policy === null || Array.isArray(policy)) {
    reader.wrong("a preset's name or { order, placement }", 'policy', policy)
    return {}
  }
  const { order, placement, binding, ...rest } = policy as Record<string, unknown>
  for (const name of Object.keys(rest)) {
    reader.add(
      `Unknown option \`policy.${name}\`${hint(name, ['order', 'placement', 'binding'])}`,
      `policy.${name}`,
    )
  }
  for (const [name, value] of Object.entries({ order, placement })) {
    if (typeof value !== 'string') reader.wrong('a name', `policy.${name}`, value)
  }
  return {
    ...(typeof order === 'string' && { order }),
    ...(typeof placement === 'string' && { placement }),
    binding: reader.oneOf('binding', BINDINGS, undefined, 'policy.binding', binding),
  }
}

function checkPart(
  reader: OptionReader,
  name: string,
  value: string | undefined,
  known: readonly string[],
): void {
  if (value !== undefined && !reader.given(name))
    reader.oneOf(name, known, undefined, `policy.${name}`, value)
}

function readParameters(reader: OptionReader, { parameters: known }: Registry): Record<string, number> {
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
