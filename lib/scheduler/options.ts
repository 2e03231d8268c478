import { describe, expected, LaxityError } from '../errors.ts'
import { type Binding, native, type PairOptions } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import { defaultBinding, PAIR_POLICY_PRESETS, POLICY_PRESETS, type Policy } from '../simulator/policies.ts'
import type { TemplateEntry } from '../traces/table.ts'
import { type AutoTuneOptions, type CheckedAutoTune, checkAutoTune } from '../tuning/auto-options.ts'
import { type Clock, systemClock } from './clock.ts'
import { isPaired, type LiveCluster, type LiveInstance } from './instances.ts'
import { type LivePairs, readPairs } from './read-pairs.ts'
import type { Receipt } from './receipt.ts'

export interface PolicyParts extends Pick<Policy, 'order' | 'placement'> {
  binding?: Binding | undefined
  /** Waiting calls may move to an instance that would finish them much sooner; default false. Unified clusters. */
  migrate?: boolean | undefined
}

export interface TenantShares {
  /** How far a tenant with waiting calls may get ahead of another, in weighted tokens (prompt + 2 × output); default 50,000. */
  slackTokens?: number | undefined
  /** By tenant; 1 where none is given. Twice the weight is twice the service. 0.001 to 1000. */
  weights?: Readonly<Record<string, number>> | undefined
}

export interface SchedulerOptions {
  /**
   * A preset's name (`clusterPresets`; instances without URLs, those of `hexagent-*` estimated for Llama-3.1-70B), a cluster,
   * or a list of instances.
   */
  cluster: string | LiveCluster | readonly LiveInstance[]
  /** `laxity` (default), `hexgen-flow`, `vllm`; on prefill-decode clusters `laxity` or `hexagent`; or the parts. */
  policy?: string | PolicyParts | undefined
  /** Prefill-decode clusters, and only there. */
  pairs?: LivePairs | undefined
  /** Parameters by name (`alpha`, `gamma`, `queueLimit`, `breakerFaults`, …); overrides the named options below. */
  parameters?: Readonly<Record<string, number>> | undefined
  /** Leases beyond the one being prefilled, per instance: the engine's own queue; default 1. */
  lookahead?: number | undefined
  /** Sends every call at once, with its urgency as the engine's priority; credit gates nothing. */
  passThrough?: boolean | undefined
  /** Permutes ties between equal instances, and draws the back-off of retries; default 0. */
  tieSeed?: number | undefined
  /** Stage templates by name. One without stages learns them from the workflows that use it. */
  templates?: Readonly<Record<string, readonly TemplateEntry[]>> | undefined
  /** Ready calls without a lease, in all; default 100,000. 0 = no limit. */
  queueLimit?: number | undefined
  /** The same per tenant; default no limit. */
  tenantQueueLimit?: number | undefined
  /**
   * Fair shares of service between tenants, over whatever the policy says; default off. No deadline that a tenant declares,
   * tight or loose, gets it more than its share plus a bound (native/scheduler/fair_shares.h).
   */
  tenantShares?: TenantShares | undefined
  /** Longest wait for a lease; default 600,000. 0 = none. */
  queueTimeoutMs?: number | undefined
  /** Calls that would miss their deadline even on an idle instance; default `run`. */
  hopeless?: 'run' | 'demote' | 'reject' | undefined
  /** A lease without a sign of life for so long is lost; default 600,000. 0 = never. */
  leaseTtlMs?: number | undefined
  /** Named workflows without an active call end after so long; default 1,800,000. 0 = never. */
  workflowIdleMs?: number | undefined
  /** Keep what each decision was made of on the lease; costs some tens of µs per call. */
  receipts?: boolean | undefined
  /** Called with every receipt when its lease closes. Implies `receipts`. */
  onReceipt?: ((receipt: Receipt) => void) | undefined
  /** Path of the event log; replay it with `laxity replay`. Must not exist yet. */
  log?: string | undefined
  /** A lease resolves only after its event is on disk. Needs `log`. */
  durable?: boolean | undefined
  /** Watch for leases that are garbage collected unclosed (FinalizationRegistry): they are cancelled, with a warning. */
  detectLeaks?: boolean | undefined
  clock?: Clock | undefined
  /**
   * Tunes a parameter while serving, `true`: alpha. What happened lately is replayed on another thread; a better value comes
   * into force like one from `setParameters`, and event `tuned` says why.
   */
  autoTune?: AutoTuneOptions | boolean | undefined
}

export interface CheckedOptions {
  policy: Policy
  parameters: Record<string, number>
  lookahead: number
  tieSeed: number
  /** Where the cluster is prefill-decode. */
  pairs: PairOptions | undefined
  /** Of tenants, in 1/1000. */
  weights: Map<string, number>
  templates: { names: Map<string, number>; entries: readonly (readonly TemplateEntry[])[] }
  workflowIdleMs: number
  receipts: boolean
  onReceipt: ((receipt: Receipt) => void) | undefined
  log: string | undefined
  durable: boolean
  detectLeaks: boolean
  clock: Clock
  autoTune: CheckedAutoTune | undefined
}

/** What a live scheduler has on unless told otherwise (live-scheduling 5, 6, 7). */
const LIVE_PARAMETERS: Readonly<Record<string, number>> = {
  breakerFaults: 5,
  breakerWindowMs: 60_000,
  breakerOpenMs: 30_000,
  breakerSuccesses: 2,
  panicShare: 1 / 3,
  faultPenaltyMs: 1_000,
  backpressureMs: 1_000,
  retryBudget: 0.2,
  retryBackoffMs: 25,
  telemetryMs: 2_000,
  predictLengths: 1,
  keepHorizons: 1,
  enginePriority: 1,
}
const HOPELESS = ['run', 'demote', 'reject'] as const
const KEYS = [
  'cluster',
  'policy',
  'pairs',
  'parameters',
  'lookahead',
  'passThrough',
  'tieSeed',
  'templates',
  'queueLimit',
  'tenantQueueLimit',
  'tenantShares',
  'queueTimeoutMs',
  'hopeless',
  'leaseTtlMs',
  'workflowIdleMs',
  'receipts',
  'onReceipt',
  'log',
  'durable',
  'detectLeaks',
  'clock',
  'autoTune',
] as const satisfies readonly (keyof SchedulerOptions)[]
const LONGEST_MS = 1e12

/** @throws LaxityError ERR_LAXITY_OPTION with every problem at once. */
export function checkOptions(options: unknown): CheckedOptions {
  if (!isRecord(options)) {
    const message = `Expected an object for \`options\`, got ${describe(options)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'options')
  }
  const problems = new Problems()
  const wrong = (what: string, name: string, got: unknown) =>
    problems.add('ERR_LAXITY_OPTION', expected(what, name, got), name)
  for (const name of Object.keys(options)) {
    if (!(KEYS as readonly string[]).includes(name))
      problems.add('ERR_LAXITY_OPTION', `Unknown option \`${name}\`${hint(name, KEYS)}`, name)
  }
  const number = (name: string, fallback: number, high: number, whole: boolean): number => {
    const value = options[name]
    if (value === undefined) return fallback
    if (typeof value === 'number' && value >= 0 && value <= high && (!whole || Number.isSafeInteger(value)))
      return value
    wrong(`a ${whole ? 'whole ' : ''}number from 0 to ${high}`, name, value)
    return fallback
  }
  const flag = (name: string): boolean => {
    const value = options[name]
    if (value !== undefined && typeof value !== 'boolean') wrong('true or false', name, value)
    return value === true
  }

  const parameters: Record<string, number> = {
    ...LIVE_PARAMETERS,
    queueLimit: number('queueLimit', 100_000, 1e9, true),
    tenantQueueLimit: number('tenantQueueLimit', 0, 1e9, true),
    queueTimeoutMs: number('queueTimeoutMs', 600_000, LONGEST_MS, false),
    leaseTtlMs: number('leaseTtlMs', 600_000, LONGEST_MS, false),
  }
  const hopeless = options.hopeless ?? 'run'
  if (HOPELESS.includes(hopeless as 'run')) parameters.hopeless = HOPELESS.indexOf(hopeless as 'run')
  else wrong(`one of ${HOPELESS.join(', ')}`, 'hopeless', hopeless)
  let lookahead = number('lookahead', 1, 1000, true)
  if (flag('passThrough')) {
    lookahead = 1000
    parameters.overcommit = 100
  }
  const shares = checkShares(options.tenantShares, problems)
  if (shares !== undefined) parameters.tenantSlack = shares.slackTokens
  const paired = isPaired(options.cluster)
  let pairs: PairOptions | undefined
  if (paired) {
    const read = readPairs(options.pairs, problems)
    pairs = read.pairs
    parameters.kvParkMs = read.kvParkMs
  } else if (options.pairs !== undefined) {
    problems.add(
      'ERR_LAXITY_OPTION',
      '`pairs` needs a cluster of prefill and decode instances: `role` says which',
      'pairs',
    )
  }
  Object.assign(parameters, checkParameters(options.parameters, problems))
  const policy = checkPolicy(options.policy ?? 'laxity', problems, paired)
  const { log, clock = systemClock, onReceipt } = options
  if (log !== undefined && (typeof log !== 'string' || log === '')) wrong('a path', 'log', log)
  const durable = flag('durable')
  if (durable && log === undefined) problems.add('ERR_LAXITY_OPTION', '`durable` needs a `log`', 'durable')
  if (!isClock(clock)) wrong('{ now, setTimer, clearTimer }', 'clock', clock)
  if (onReceipt !== undefined && typeof onReceipt !== 'function') wrong('a function', 'onReceipt', onReceipt)
  const templates = checkTemplates(options.templates, problems)
  const checked: CheckedOptions = {
    policy,
    parameters: { ...policy.parameters, ...parameters },
    lookahead,
    tieSeed: number('tieSeed', 0, Number.MAX_SAFE_INTEGER, true),
    pairs,
    weights: shares?.weights ?? new Map(),
    templates,
    workflowIdleMs: number('workflowIdleMs', 1_800_000, LONGEST_MS, false),
    receipts: flag('receipts') || onReceipt !== undefined,
    onReceipt: onReceipt as CheckedOptions['onReceipt'],
    log: log as string | undefined,
    durable,
    detectLeaks: flag('detectLeaks'),
    clock: clock as Clock,
    autoTune: checkAutoTune(options.autoTune, native.parameters, problems),
  }
  problems.throwIfAny()
  return checked
}

const SLACK_TOKENS = 50_000

/** Weights in 1/1000. */
function checkShares(
  given: unknown,
  problems: Problems,
): { slackTokens: number; weights: Map<string, number> } | undefined {
  if (given === undefined) return undefined
  const weights = new Map<string, number>()
  const wrong = (what: string, place: string, got: unknown) =>
    problems.add('ERR_LAXITY_OPTION', expected(what, place, got), place)
  if (!isRecord(given)) {
    wrong('{ slackTokens?, weights? }', 'tenantShares', given)
    return undefined
  }
  for (const name of Object.keys(given))
    if (name !== 'slackTokens' && name !== 'weights')
      problems.add('ERR_LAXITY_OPTION', `Unknown option \`tenantShares.${name}\``, `tenantShares.${name}`)
  const { slackTokens = SLACK_TOKENS, weights: list = {} } = given
  if (typeof slackTokens !== 'number' || !(slackTokens >= 1 && slackTokens <= LONGEST_MS))
    wrong(`a number from 1 to ${LONGEST_MS}`, 'tenantShares.slackTokens', slackTokens)
  if (!isRecord(list)) wrong('an object of numbers', 'tenantShares.weights', list)
  else
    for (const [tenant, weight] of Object.entries(list)) {
      if (typeof weight === 'number' && weight >= 0.001 && weight <= 1000)
        weights.set(tenant, Math.round(weight * 1000))
      else wrong('a number from 0.001 to 1000', `tenantShares.weights.${tenant}`, weight)
    }
  return { slackTokens: slackTokens as number, weights }
}

/** Names and kinds only: ranges are the core's. */
export function checkParameters(given: unknown, problems: Problems): Record<string, number> {
  if (given === undefined) return {}
  if (!isRecord(given)) {
    problems.add('ERR_LAXITY_OPTION', expected('an object of numbers', 'parameters', given), 'parameters')
    return {}
  }
  const parameters: Record<string, number> = {}
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue
    const place = `parameters.${name}`
    if (!native.parameters.includes(name))
      problems.add(
        'ERR_LAXITY_OPTION',
        `Unknown parameter \`${place}\`${hint(name, native.parameters)}`,
        place,
      )
    else if (typeof value !== 'number' || !Number.isFinite(value))
      problems.add(
        'ERR_LAXITY_OPTION',
        `Expected a finite number for \`${place}\`, got ${describe(value)}`,
        place,
      )
    else parameters[name] = value
  }
  return parameters
}

export function checkPolicy(policy: unknown, problems: Problems, paired: boolean): Policy {
  const presets = paired ? PAIR_POLICY_PRESETS : POLICY_PRESETS
  const placements = paired ? native.pairPlacements : native.placements
  const fallback = presets.laxity!
  const fail = (message: string, place: string): Policy => {
    problems.add('ERR_LAXITY_OPTION', message, place)
    return fallback
  }
  if (typeof policy === 'string') {
    if (Object.hasOwn(presets, policy)) return presets[policy]!
    const there = paired ? ' for prefill-decode clusters' : ''
    return fail(
      `Unknown policy "${policy.slice(0, 60)}"${there}${hint(policy, Object.keys(presets))}`,
      'policy',
    )
  }
  if (!isRecord(policy))
    return fail(expected("a preset's name or { order, placement }", 'policy', policy), 'policy')
  for (const name of Object.keys(policy))
    if (!['order', 'placement', 'binding', 'migrate'].includes(name))
      fail(`Unknown option \`policy.${name}\``, `policy.${name}`)
  const { order, placement, binding, migrate = false } = policy
  if (typeof order !== 'string' || !native.orders.includes(order))
    return fail(`Unknown order ${describe(order)}${hint(order, native.orders)}`, 'policy.order')
  if (typeof placement !== 'string' || !placements.includes(placement))
    return fail(`Unknown placement ${describe(placement)}${hint(placement, placements)}`, 'policy.placement')
  if (binding !== undefined && binding !== 'at-reveal' && binding !== 'at-credit')
    return fail(expected('"at-reveal" or "at-credit"', 'policy.binding', binding), 'policy.binding')
  if (typeof migrate !== 'boolean')
    return fail(expected('true or false', 'policy.migrate', migrate), 'policy.migrate')
  if (migrate && (paired || (binding ?? defaultBinding(placement)) === 'at-credit'))
    return fail(
      '`policy.migrate` needs calls that wait for one unified instance (at-reveal)',
      'policy.migrate',
    )
  return { order, placement, binding: binding ?? defaultBinding(placement), migrate }
}

function checkTemplates(given: unknown, problems: Problems): CheckedOptions['templates'] {
  const names = new Map<string, number>()
  const entries: TemplateEntry[][] = []
  if (given === undefined) return { names, entries }
  if (!isRecord(given)) {
    problems.add('ERR_LAXITY_OPTION', expected('an object of lists', 'templates', given), 'templates')
    return { names, entries }
  }
  for (const [name, stages] of Object.entries(given)) {
    const place = `templates.${name}`
    const good =
      Array.isArray(stages) &&
      stages.every(
        (s) =>
          isRecord(s) && typeof s.stage === 'string' && isTokens(s.promptTokens) && isTokens(s.outputTokens),
      )
    if (!good)
      problems.add(
        'ERR_LAXITY_OPTION',
        expected('a list of { stage, promptTokens, outputTokens }', place, stages),
        place,
      )
    else if (entries.length >= 0x7fff)
      problems.add('ERR_LAXITY_LIMIT', 'At most 32767 templates are supported', place)
    else names.set(name, entries.push(stages as TemplateEntry[]) - 1)
  }
  return { names, entries }
}

function isTokens(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= 100_000_000
}

function isClock(value: unknown): value is Clock {
  if (typeof value !== 'object' || value === null) return false
  const clock = value as Partial<Clock>
  return (
    typeof clock.now === 'function' &&
    typeof clock.setTimer === 'function' &&
    typeof clock.clearTimer === 'function'
  )
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
