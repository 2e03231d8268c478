import { quote } from '../errors.ts'
import type { Binding } from '../native.ts'
import { hint } from '../report/near.ts'
import { JAVASCRIPT_PLACEMENT, type PlacementFunction } from '../scheduler/placement.ts'
import {
  DEFAULT_POLICY,
  defaultBinding,
  PAIR_POLICY_PRESETS,
  POLICY_PRESETS,
  type Policy,
} from './policies.ts'
import { NOT_COMPAT } from './read-options.ts'
import type { OptionReader } from './validate.ts'

/** Names that the core registers. */
export interface Registry {
  readonly orders: readonly string[]
  readonly placements: readonly string[]
  readonly pairPlacements: readonly string[]
}

export interface CheckedPolicy {
  policy: Policy
  /** What `policy.placement` stands for where it is a function. */
  placementFunction: PlacementFunction | undefined
}

/** What a policy is for; `unknown` where the cluster itself is wrong. */
export type ClusterKind = 'unified' | 'paired' | 'unknown'

const BINDINGS = ['at-reveal', 'at-credit'] as const

/** What a kind of cluster has, and what only the other kind has. */
interface Names {
  known: readonly string[]
  elsewhere: readonly string[]
  /** For messages: where the others belong. */
  where: string
}

/** Order, placement, binding and migration; problems are left in the reader. */
export function readPolicy(
  reader: OptionReader,
  registry: Registry,
  kind: ClusterKind,
  compat: string = 'none',
): CheckedPolicy {
  const { orders } = registry
  const base = readBase(reader, kind)
  const fallback =
    kind === 'paired' ? PAIR_POLICY_PRESETS[DEFAULT_POLICY.paired]! : POLICY_PRESETS[DEFAULT_POLICY.unified]!
  const order = reader.oneOf('order', orders, base.order ?? fallback.order)
  const placements = placementNames(registry, kind)
  const own = reader.raw('placement')
  const isFunction = typeof own === 'function'
  let placement = base.placement ?? fallback.placement
  if (isFunction) {
    placement = JAVASCRIPT_PLACEMENT
    if (kind === 'paired') reader.add('`placement` must be a name on a prefill-decode cluster', 'placement')
  } else if (own !== undefined) placement = checkName(reader, 'placement', own, placements, placement)
  if (base.order !== undefined && !reader.given('order'))
    reader.oneOf('order', orders, undefined, 'policy.order', base.order)
  if (base.placement !== undefined && own === undefined)
    checkName(reader, 'policy.placement', base.placement, placements, placement)
  // A preset's binding belongs to its own placement.
  const inherited = reader.given('placement') ? undefined : base.binding
  const binding = reader.oneOf('binding', BINDINGS, inherited ?? defaultBinding(placement))
  const { parameters } = base
  const migrate = readMigrate(reader, base, binding, kind, compat)
  const policy = { order, placement, binding, migrate, ...(parameters && { parameters }) }
  return { policy, placementFunction: isFunction ? (own as PlacementFunction) : undefined }
}

/** A preset's migration needs queues, and no other simulator had it. */
function readMigrate(
  reader: OptionReader,
  base: Base,
  binding: Binding,
  kind: ClusterKind,
  compat: string,
): boolean {
  const possible = binding === 'at-reveal' && compat === 'none' && kind !== 'paired'
  if (!reader.given('migrate')) return base.migrate === true && possible
  const migrate = reader.boolean('migrate')
  if (migrate && compat !== 'none') reader.add(`${NOT_COMPAT} migration`, 'migrate')
  if (migrate && kind === 'paired') reader.add('`migrate` is for unified clusters', 'migrate')
  else if (migrate && binding !== 'at-reveal')
    reader.add('`migrate` needs binding "at-reveal": a shared queue has nothing to move', 'migrate')
  return migrate
}

interface Base {
  order?: string
  placement?: string
  binding?: Binding | undefined
  migrate?: boolean
  parameters?: NonNullable<Policy['parameters']>
}

/** The parts that `policy` names, unchecked. */
function readBase(reader: OptionReader, kind: ClusterKind): Base {
  const policy = reader.raw('policy')
  if (policy === undefined) return {}
  if (typeof policy === 'string') return readPreset(reader, policy, kind)
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

function readPreset(reader: OptionReader, name: string, kind: ClusterKind): Base {
  const both = { unified: POLICY_PRESETS, paired: PAIR_POLICY_PRESETS }
  const own = kind === 'unknown' ? { ...both.paired, ...both.unified } : both[kind]
  if (Object.hasOwn(own, name)) return own[name]!
  const other = kind === 'paired' ? both.unified : both.paired
  const message = Object.hasOwn(other, name)
    ? `Policy ${quote(name)} ${kind === 'paired' ? 'is for unified clusters' : 'needs a prefill-decode cluster'}`
    : `Unknown policy ${quote(name)}`
  reader.add(message + hint(name, Object.keys(own)), 'policy')
  return {}
}

function placementNames({ placements, pairPlacements }: Registry, kind: ClusterKind): Names {
  if (kind === 'paired')
    return { known: pairPlacements, elsewhere: placements, where: 'is for unified clusters' }
  if (kind === 'unified')
    return { known: placements, elsewhere: pairPlacements, where: 'needs a prefill-decode cluster' }
  return { known: [...new Set([...placements, ...pairPlacements])], elsewhere: [], where: '' }
}

function checkName(
  reader: OptionReader,
  at: string,
  value: unknown,
  { known, elsewhere, where }: Names,
  fallback: string,
): string {
  if (typeof value === 'string' && !known.includes(value) && elsewhere.includes(value)) {
    reader.add(`Placement ${quote(value)} ${where} (known: ${known.join(', ')})`, at)
    return fallback
  }
  return reader.oneOf('placement', known, fallback, at, value)
}
