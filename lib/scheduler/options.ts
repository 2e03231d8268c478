import { describe, expected, LaxityError } from '../errors.ts'
import { type Binding, native } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import { defaultBinding, POLICY_PRESETS, type Policy } from '../simulator/policies.ts'
import type { TemplateEntry } from '../traces/table.ts'
import { type AutoTuneOptions, type CheckedAutoTune, checkAutoTune } from '../tuning/auto-options.ts'
import { type Clock, systemClock } from './clock.ts'
import type { LiveCluster, LiveInstance } from './instances.ts'
import type { Receipt } from './receipt.ts'

export interface SchedulerOptions {
  /** A preset's name, a cluster, or a list of instances. */
  cluster: string | LiveCluster | readonly LiveInstance[]
  /** `laxity` (default), `hexgen-flow`, `vllm`, or the parts. */
  policy?: string | (Pick<Policy, 'order' | 'placement'> & { binding?: Binding | undefined }) | undefined
  /** Parameters by name (`alpha`, `gamma`, `queueLimit`, `breakerFaults`, …); overrides the named options below. */
  parameters?: Readonly<Record<string, number>> | undefined
  /** Leases beyond the one being prefilled, per instance: the engine's own queue; default 1. */
  lookahead?: number | undefined
  /** Sends every call at once, with its urgency as the engine's priority; credit gates nothing. */
  passThrough?: boolean | undefined
  /** Permutes ties between equal instances; default 0. */
  tieSeed?: number | undefined
  /** Stage templates by name. */
  templates?: Readonly<Record<string, readonly TemplateEntry[]>> | undefined
  /** Ready calls without a lease, in all; default 100,000. 0 = no limit. */
  queueLimit?: number | undefined
  /** The same per tenant; default no limit. */
  tenantQueueLimit?: number | undefined
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
  telemetryMs: 2_000,
  predictLengths: 1,
  keepHorizons: 1,
  enginePriority: 1,
}
const HOPELESS = ['run', 'demote', 'reject'] as const
const KEYS = [
  'cluster',
  'policy',
  'parameters',
  'lookahead',
  'passThrough',
  'tieSeed',
  'templates',
  'queueLimit',
  'tenantQueueLimit',
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
  Object.assign(parameters, checkParameters(options.parameters, problems))
  const policy = checkPolicy(options.policy ?? 'laxity', problems)
  const { log, clock = systemClock, onReceipt } = options
  if (log !== undefined && (typeof log !== 'string' || log === '')) wrong('a path', 'log', log)
  const durable = flag('durable')
  if (durable && log === undefined) problems.add('ERR_LAXITY_OPTION', '`durable` needs a `log`', 'durable')
  if (!isClock(clock)) wrong('{ now, setTimer, clearTimer }', 'clock', clock)
  if (onReceipt !== undefined && typeof onReceipt !== 'function') wrong('a function', 'onReceipt', onReceipt)
  const templates = checkTemplates(options.templates, problems)
  const checked: CheckedOptions = {
    policy,
    parameters,
    lookahead,
    tieSeed: number('tieSeed', 0, Number.MAX_SAFE_INTEGER, true),
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

export function checkPolicy(policy: unknown, problems: Problems): Policy {
  const fallback = POLICY_PRESETS.laxity!
  const fail = (message: string, place: string): Policy => {
    problems.add('ERR_LAXITY_OPTION', message, place)
    return fallback
  }
  if (typeof policy === 'string') {
    if (Object.hasOwn(POLICY_PRESETS, policy)) return POLICY_PRESETS[policy]!
    return fail(
      `Unknown policy "${policy.slice(0, 60)}"${hint(policy, Object.keys(POLICY_PRESETS))}`,
      'policy',
    )
  }
  if (!isRecord(policy))
    return fail(expected("a preset's name or { order, placement }", 'policy', policy), 'policy')
  for (const name of Object.keys(policy))
    if (!['order', 'placement', 'binding'].includes(name))
      fail(`Unknown option \`policy.${name}\``, `policy.${name}`)
  const { order, placement, binding } = policy
  if (typeof order !== 'string' || !native.orders.includes(order))
    return fail(`Unknown order ${describe(order)}${hint(order, native.orders)}`, 'policy.order')
  if (typeof placement !== 'string' || !native.placements.includes(placement))
    return fail(
      `Unknown placement ${describe(placement)}${hint(placement, native.placements)}`,
      'policy.placement',
    )
  if (binding !== undefined && binding !== 'at-reveal' && binding !== 'at-credit')
    return fail(expected('"at-reveal" or "at-credit"', 'policy.binding', binding), 'policy.binding')
  return { order, placement, binding: binding ?? defaultBinding(placement), migrate: false }
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
      stages.length > 0 &&
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
