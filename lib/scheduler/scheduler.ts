import { ROLES } from '../cluster/roles.ts'
import { describe, expected, LaxityError } from '../errors.ts'
import { type NativeRun, native } from '../native.ts'
import { Problems } from '../report/problems.ts'
import { serving } from '../simulator/background.ts'
import type { TemplateEntry } from '../traces/table.ts'
import type { TuningEvent } from '../tuning/auto-events.ts'
import { TunerHistory } from '../tuning/auto-history.ts'
import { LiveTuner } from '../tuning/auto-live.ts'
import type { CallRecord } from './call.ts'
import { text } from './checks.ts'
import { Core } from './core.ts'
import type { InstanceSpec } from './events.ts'
import { homeAmong } from './home.ts'
import { idOf, type LiveInstance, type ServedModel } from './instances.ts'
import { Journal, type LiveLogHeader } from './journal.ts'
import type { Lease } from './lease.ts'
import { schedulerMetrics } from './metric-list.ts'
import type { Metric } from './metrics.ts'
import { checkParameters, checkPolicy, type PolicyParts, type SchedulerOptions } from './options.ts'
import type { CallEstimate } from './receipt.ts'
import { restoreInto } from './restore.ts'
import { instanceSnapshot, type Snapshot } from './snapshot.ts'
import { checkSample, suspicious, type TelemetrySample } from './telemetry.ts'
import { type CallOptions, Workflow, type WorkflowOptions } from './workflow.ts'

export interface SchedulerEvents {
  breaker: { instance: string; from: string; to: string }
  /** Too few instances are left, so open breakers are passed over; or no longer. */
  panic: { active: boolean; instances: string[] }
  lost: { call: string; workflow: string; instance: string | undefined }
  leak: { call: string; workflow: string; site: string | undefined }
  /** With `autoTune`: a detector's alarm, or what a sweep said. */
  tuned: TuningEvent
  warning: LaxityError
}

/** Options of schedulers that are being restored. */
const restoring = new WeakSet<object>()

/** `BreakerState` of native/scheduler/breaker.h. */
const OPEN = 1
/** `InstanceChange` of native/scheduler/events.h; as a condition, `up` is 1 too. */
const CHANGES = { add: 0, up: 1, drain: 2, down: 3, remove: 4 } as const

/**
 * Decides for every call of every workflow on which instance it runs, and when. One per process and cluster; synchronous,
 * on the caller's thread; the same core that `simulate` drives in virtual time.
 *
 *     const scheduler = new Scheduler({ cluster: [{ url: 'http://gpu-1:8000' }, { url: 'http://gpu-2:8000' }] })
 *     const workflow = scheduler.workflow({ tenant: 'acme', sloMs: 60_000 })
 *     const lease = await workflow.call({ stage: 'revise', promptTokens: 5963 })
 *     … send the request to lease.url, lease.firstToken() …
 *     lease.done({ outputTokens: 91 })
 *     workflow.end()
 *
 * Times are ms of its clock, counted from its construction.
 */
export class Scheduler {
  readonly #core: Core
  readonly #usage = new Map<string, { zeroSince: number; warned: boolean; sampledMs: number }>()
  readonly #detached = new Set<CallRecord>()
  readonly #served: () => void
  readonly #tuner: LiveTuner | undefined
  #history: TunerHistory | undefined
  #closed: Promise<{ drained: boolean; cancelled: number }> | undefined

  /** @throws LaxityError ERR_LAXITY_OPTION, _FIELD, _EMPTY, _DUPLICATE, _LIMIT (every problem at once); _FILE for the log. */
  constructor(options: SchedulerOptions) {
    this.#core = new Core(options)
    const { log, durable, autoTune } = this.#core.options
    if (autoTune !== undefined) this.#tuner = new LiveTuner(this.#core, autoTune)
    // `restore` continues a log that is there.
    this.#served = serving()
    if (restoring.has(options)) return
    if (log !== undefined) this.#record(log, durable)
    else if (this.#tuner !== undefined) this.#listen(undefined)
  }

  /**
   * The scheduler whose log is `options.log`, as it was when its process ended: same options, same decisions. Its leases
   * wait to be taken over by `attach` for `leaseTtlMs`, then they are lost; calls that were waiting are cancelled, and are
   * the caller's to submit again, under their ids unless an attempt had been leased. Workflows with an id are found by it. The
   * log is continued.
   *
   * @throws (rejects) LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_FILE, ERR_LAXITY_LOG, ERR_LAXITY_SYNTAX
   */
  static async restore(options: SchedulerOptions & { log: string }): Promise<Scheduler> {
    if (typeof options === 'object' && options !== null) restoring.add(options)
    const scheduler = new Scheduler(options)
    const core = scheduler.#core
    const { log, durable, parameters } = core.options
    if (log === undefined || (parameters.leaseTtlMs ?? 0) === 0)
      throw new LaxityError('ERR_LAXITY_OPTION', 'Expected a `log`, and a `leaseTtlMs` above 0', 'options')
    const tuner = scheduler.#tuner
    const warn = (error: LaxityError) => core.emit('warning', error)
    const history = tuner && (await TunerHistory.read(log, warn))
    const leases = await restoreInto(core, log, history && ((records) => tuner!.replay(records, history)))
    if (leases === undefined) {
      scheduler.#record(log, durable)
      return scheduler
    }
    history?.settle()
    core.journal = new Journal(log, undefined, durable, warn)
    scheduler.#listen(history)
    for (const call of leases) scheduler.#detached.add(call)
    return scheduler
  }

  /** Leases that were restored and not attached. */
  get detached(): { workflow: string; call: string; epoch: number }[] {
    return this.#unclaimed().map((call) => ({
      workflow: call.workflow.id,
      call: call.id,
      epoch: call.lease!.epoch,
    }))
  }

  /** A lease goes to whoever comes first: by `attach`, or by its call's id submitted again. */
  #unclaimed(): CallRecord[] {
    return [...this.#detached].filter(({ phase, claimed }) => phase === 'leased' && !claimed)
  }

  /**
   * Takes over a restored lease; once. `workflow` may be left out where one call of this id is detached.
   *
   * @throws LaxityError ERR_LAXITY_UNKNOWN
   */
  attach(callId: string, workflow?: string): Lease {
    const found = this.#unclaimed().filter(
      (call) => call.id === callId && (workflow === undefined || call.workflow.id === workflow),
    )
    const [call] = found
    if (call === undefined || found.length > 1) {
      const message = `${found.length === 0 ? 'No' : 'More than one'} detached call has the id ${describe(callId)}`
      throw new LaxityError('ERR_LAXITY_UNKNOWN', message, 'callId')
    }
    this.#detached.delete(call)
    call.claimed = true
    call.lease!.progress()
    return call.lease!
  }

  /** From now on everything is logged; what happened so far (the instances) goes first. */
  #record(path: string, durable: boolean): void {
    const core = this.#core
    const warn = (error: LaxityError) => core.emit('warning', error)
    core.journal = new Journal(path, liveHeader(core), durable, warn)
    this.#listen(this.#tuner && TunerHistory.start(path, warn))
  }

  #listen(history: TunerHistory | undefined): void {
    this.#history = history
    this.#tuner?.listen(history)
    this.#core.publishLog()
  }

  /** A workflow: opened, or the one that is open under this id. */
  workflow(options?: WorkflowOptions): Workflow {
    return this.#core.workflows.open(options)
  }

  /** Whether prefill and decode run on instances of their own. */
  get paired(): boolean {
    return this.#core.paired
  }

  /** Ms since this scheduler began. */
  get nowMs(): number {
    return this.#core.nowMs()
  }

  // --- the cluster while it runs

  /**
   * Another instance, or one that returns under its id: leases that are still open there are its own again.
   *
   * @throws LaxityError ERR_LAXITY_FIELD, ERR_LAXITY_STATE where that id is in use
   */
  addInstance(instance: LiveInstance): string {
    const core = this.#core
    core.checkOpen()
    const id = typeof instance === 'object' && instance !== null ? idOf(instance) : undefined
    const known = typeof id === 'string' ? core.instances.byId(id) : undefined
    if (known !== undefined && this.#conditionOf(known.slot) !== 'removed')
      throw new LaxityError(
        'ERR_LAXITY_STATE',
        `Instance ${JSON.stringify(id)} is there already: remove it first`,
        'instance.id',
      )
    const { entry, latency } = core.instances.add(instance)
    if (latency !== undefined)
      core.administer(
        (w, t) => w.setLatency(t, latency.index, latency.learned, latency.constants),
        'instance',
      )
    core.administer((w, t) => w.instance(t, entry.slot, CHANGES.add, entry.spec), 'instance')
    return entry.id
  }

  /** No new leases; what it has it finishes, what waits for it moves. */
  drainInstance(id: string): void {
    this.#change(id, 'drain')
  }

  /** Takes leases again after `drainInstance` or `failInstance`. */
  restoreInstance(id: string): void {
    this.#change(id, 'up')
  }

  /** Gone, but its leases may still finish. It returns by `addInstance` with the same id. */
  removeInstance(id: string): void {
    this.#change(id, 'remove')
  }

  /** Lost with its KV cache: its leases' signals abort, their calls are placed again as new attempts, their debt intact. */
  failInstance(id: string): void {
    this.#change(id, 'down')
    this.#core.attempts.lostWith(id)
  }

  #change(id: string, change: keyof typeof CHANGES): void {
    const { slot } = this.#core.instances.find(id)
    this.#core.administer((w, t) => w.instance(t, slot, CHANGES[change]), 'instance')
  }

  #conditionOf(slot: number): string {
    return this.snapshot().instances[slot]!.condition
  }

  // --- policy while it runs

  /**
   * Waiting calls are placed and ordered again, and may move or not as the policy says (`migrate`); leases stay.
   *
   * @throws LaxityError ERR_LAXITY_OPTION
   */
  setPolicy(policy: string | PolicyParts): void {
    const problems = new Problems()
    const { paired } = this.#core
    const { order, placement, binding, migrate } = checkPolicy(policy, problems, paired)
    problems.throwIfAny()
    this.#core.administer(
      (w, t) =>
        w.setPolicy(
          t,
          native.orders.indexOf(order),
          (paired ? native.pairPlacements : native.placements).indexOf(placement),
          binding === 'at-credit' ? 1 : 0,
          migrate,
        ),
      'policy',
    )
    this.#core.options.policy = { order, placement, binding, migrate }
    this.#core.policyName = `${order} x ${placement} x ${binding}`
  }

  /** Numbers by name (`alpha`, `queueLimit`, …). The first that is out of range stops it. @throws LaxityError ERR_LAXITY_OPTION */
  setParameters(parameters: Readonly<Record<string, number>>): void {
    const problems = new Problems()
    const checked = checkParameters(parameters, problems)
    problems.throwIfAny()
    for (const [name, value] of Object.entries(checked)) {
      this.#core.administer(
        (w, t) => w.setParameter(t, native.parameters.indexOf(name), value),
        `parameters.${name}`,
      )
      this.#core.options.parameters[name] = value
    }
  }

  // --- telemetry

  /**
   * What an engine says of its load. It corrects the scheduler's own accounting until it is stale (`telemetryMs`), and
   * never replaces it. What is left out is unknown, not 0.
   *
   * @throws LaxityError ERR_LAXITY_FIELD, ERR_LAXITY_UNKNOWN
   */
  telemetry(instance: string, sample: TelemetrySample): void {
    const core = this.#core
    const { slot, id } = core.instances.find(instance)
    const { waiting, running, kvUsage } = checkSample(sample)
    core.administer((w, t) => w.telemetry(t, slot, waiting, running, kvUsage), 'sample')
    const own = this.snapshot().instances[slot]!
    const state = this.#usage.get(id) ?? { zeroSince: Number.NaN, warned: false, sampledMs: this.nowMs }
    this.#usage.set(id, state)
    if (this.nowMs - state.sampledMs > core.options.parameters.telemetryMs!) core.metrics.telemetryStale += 1
    state.sampledMs = this.nowMs
    if (suspicious(state, kvUsage, own.leased, this.nowMs)) {
      core.metrics.telemetrySuspicious += 1
      const message = `Instance ${JSON.stringify(id)} has reported a KV usage of 0 for 30 s while it holds leases: was the metric renamed?`
      core.emit('warning', new LaxityError('ERR_LAXITY_STATE', message, 'telemetry'))
    }
  }

  // --- seeing

  /**
   * Whether calls of a model (left out: of every model) can be served now: an instance takes calls, of a prefill-decode
   * cluster one of each role. Half-open breakers count, since only a call closes them.
   *
   * @throws LaxityError ERR_LAXITY_NO_INSTANCE where nothing serves the model, ERR_LAXITY_FIELD
   */
  ready(model?: string): boolean {
    const core = this.#core
    const one = this.#modelOf(model)
    core.flush()
    const { instances } = core
    const up = instances.models.map(() => new Set<number>())
    core.eachInstance((columns, at, slot) => {
      const { spec } = instances.list[slot]!
      if (columns[at] === CHANGES.up && columns[at + 2] !== OPEN && serves(spec, one))
        up[spec.model]!.add(spec.role)
    })
    const roles = core.paired ? [1, 2] : [0]
    return up.every(
      (seen, id) => (one !== undefined && one.model !== id) || roles.every((role) => seen.has(role)),
    )
  }

  /**
   * Where a session is at home: the instance that every scheduler over the same instances names for this id, without a
   * shared table. A hint for `cachedTokens` where several processes route to the same engines; nothing is placed by it
   * alone. Of a prefill-decode cluster one that prefills. Undefined while no instance of the model takes calls.
   *
   * @throws LaxityError ERR_LAXITY_NO_INSTANCE where nothing serves the model, ERR_LAXITY_FIELD
   */
  homeOf(id: string, model?: string): string | undefined {
    const core = this.#core
    text(id, 'id')
    const one = this.#modelOf(model)
    const names: string[] = []
    core.eachInstance((columns, at, slot) => {
      const { spec, id: name } = core.instances.list[slot]!
      const prefills = ROLES[spec.role] !== 'decode'
      if (columns[at] === CHANGES.up && columns[at + 2] !== OPEN && prefills && serves(spec, one))
        names.push(name)
    })
    return homeAmong(id, names)
  }

  #modelOf(model: string | undefined): ServedModel | undefined {
    if (model === undefined) return undefined
    text(model, 'model')
    const one = this.#core.instances.modelOf(model)
    if (one === undefined)
      throw new LaxityError('ERR_LAXITY_NO_INSTANCE', `No instance serves model ${describe(model)}`, 'model')
    return one
  }

  /** Where a call would go and how long it would take, without submitting it. Its workflow may be left out. */
  estimate(call: CallOptions & { workflow?: Workflow | undefined }): CallEstimate {
    if (typeof call !== 'object' || call === null)
      throw new LaxityError('ERR_LAXITY_FIELD', `Expected an object, got ${describe(call)}`, 'call')
    const { workflow, ...options } = call
    if (workflow !== undefined && !(workflow instanceof Workflow && workflow.isOf(this.#core)))
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('a workflow of this scheduler', 'workflow', workflow),
        'workflow',
      )
    return this.#core.estimate(workflow?.closed === false ? workflow : undefined, options)
  }

  /** For dashboards: everything the core believes now. Events of this turn are applied first. */
  snapshot(): Snapshot {
    const core = this.#core
    core.flush()
    const totals = new Float64Array(10)
    core.native.totals(totals)
    const instances: Snapshot['instances'] = []
    core.eachInstance((columns, at, slot) => {
      instances.push(instanceSnapshot(core.instances.list[slot]!, columns, at))
    })
    return {
      nowMs: this.nowMs,
      policy: { ...core.options.policy },
      workflows: totals[2]!,
      activeCalls: core.active,
      queued: totals[3]!,
      leasesGranted: totals[1]!,
      retriesRefused: totals[4]!,
      kvExpired: totals[6]!,
      revoked: totals[7]!,
      plans: totals[8]!,
      plannedCalls: totals[9]!,
      nextWakeMs: core.native.nextWakeMs,
      instances,
    }
  }

  /** Calls that wait for an instance, in the order in which they would be leased now. */
  queue(instance: string): { workflow: string; call: string; key: number }[] {
    const core = this.#core
    const { slot } = core.instances.find(instance)
    core.flush()
    const rows = core.native.queue(slot)
    const queue: { workflow: string; call: string; key: number }[] = []
    for (let i = 0; i < rows.length; i += 3) {
      const call = core.calls.find(rows[i]!, rows[i + 1]!)
      if (call !== undefined) queue.push({ workflow: call.workflow.id, call: call.id, key: rows[i + 2]! })
    }
    return queue
  }

  /** The output lengths learned for a stage, and how far predictions were off. */
  lengths(
    stage: string,
    template?: string,
  ): {
    observations: number
    mean: number
    high: number
    meanAbsoluteError: number
    aboveHigh: number
  } {
    const core = this.#core
    text(stage, 'stage')
    const templateId = template === undefined ? -1 : core.options.templates.names.get(template)
    if (templateId === undefined)
      throw new LaxityError('ERR_LAXITY_UNKNOWN', `Unknown template ${describe(template)}`, 'template')
    core.flush()
    const out = new Float64Array(7)
    core.native.lengths(templateId, core.stages.find(stage), out)
    const [observations, mean, high, observed, , absolute, above] = out as unknown as number[]
    return {
      observations: observations!,
      mean: mean!,
      high: high!,
      meanAbsoluteError: observed! > 0 ? absolute! / observed! : 0,
      aboveHigh: observed! > 0 ? above! / observed! : 0,
    }
  }

  /**
   * The stages of a template: as declared, or as learned by now.
   *
   * @throws LaxityError ERR_LAXITY_UNKNOWN
   */
  template(name: string): TemplateEntry[] {
    const core = this.#core
    const id = core.options.templates.names.get(name)
    if (id === undefined)
      throw new LaxityError('ERR_LAXITY_UNKNOWN', `Unknown template ${describe(name)}`, 'template')
    core.flush()
    const columns = core.native.stages(id)!
    return Array.from({ length: columns.length / 3 }, (_, i) => ({
      stage: core.stages.list[columns[3 * i]!] ?? 'other',
      promptTokens: columns[3 * i + 1]!,
      outputTokens: columns[3 * i + 2]!,
    }))
  }

  /** Counters and histograms; `laxity/prometheus` registers them with prom-client. */
  metrics(): Metric[] {
    return schedulerMetrics(this.#core, this.snapshot())
  }

  /** `breaker`, `panic`, `lost`, `leak`, `tuned`, `warning`. */
  on<E extends keyof SchedulerEvents>(event: E, listener: (value: SchedulerEvents[E]) => void): this {
    checkListener(event, listener)
    this.#core.on(event, listener)
    return this
  }

  off<E extends keyof SchedulerEvents>(event: E, listener: (value: SchedulerEvents[E]) => void): this {
    checkListener(event, listener)
    this.#core.off(event, listener)
    return this
  }

  /** Derives every ledger, queue and list from the calls again and compares; slow. */
  audit(): boolean {
    this.#core.flush()
    return this.#core.native.audit()
  }

  // --- the end

  /**
   * No more calls. Waits up to `drainMs` for those that are there, cancels the rest, closes the log. A second close gives
   * the first one's promise.
   */
  close(options: { drainMs?: number | undefined } = {}): Promise<{ drained: boolean; cancelled: number }> {
    if (typeof options !== 'object' || options === null) {
      const message = expected('{ drainMs }', 'options', options)
      return Promise.reject(new LaxityError('ERR_LAXITY_FIELD', message, 'options'))
    }
    const { drainMs = 0 } = options
    if (typeof drainMs !== 'number' || !(drainMs >= 0 && drainMs <= 1e12)) {
      const message = expected('milliseconds from 0 to 1e12', 'drainMs', drainMs)
      return Promise.reject(new LaxityError('ERR_LAXITY_FIELD', message, 'drainMs'))
    }
    this.#closed ??= this.#close(drainMs)
    return this.#closed
  }

  async #close(drainMs: number): Promise<{ drained: boolean; cancelled: number }> {
    const core = this.#core
    core.closing = true
    core.flush()
    if (core.active > 0 && drainMs > 0)
      await Promise.race([core.whenIdle(), new Promise<void>((resolve) => core.drainTimer(drainMs, resolve))])
    const cancelled = core.cancelAll(new LaxityError('ERR_LAXITY_CLOSED', 'The scheduler is closed'))
    core.workflows.endAll()
    core.flush()
    core.stop()
    await core.journal?.close()
    this.#served()
    await this.#history?.close()
    return { drained: cancelled === 0, cancelled }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Undefined = any model. */
function serves(spec: InstanceSpec, one: ServedModel | undefined): boolean {
  if (one === undefined) return true
  return (
    spec.model === one.model &&
    (one.adapter === 0 || ((spec.adapters >> BigInt(one.adapter - 1)) & 1n) === 1n)
  )
}

const EVENTS: readonly (keyof SchedulerEvents)[] = ['breaker', 'panic', 'lost', 'leak', 'tuned', 'warning']

function checkListener(event: unknown, listener: unknown): void {
  if (!(EVENTS as readonly unknown[]).includes(event))
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`one of ${EVENTS.join(', ')}`, 'event', event),
      'event',
    )
  if (typeof listener !== 'function')
    throw new LaxityError('ERR_LAXITY_FIELD', expected('a function', 'listener', listener), 'listener')
}

export function liveHeader(core: Core): LiveLogHeader {
  const { policy, parameters, lookahead, tieSeed, templates, pairs } = core.options
  const run: NativeRun = {
    ...policy,
    feedback: 'lease',
    lookahead,
    knowledge: templates.entries.length > 0 ? 'template' : 'online',
    parameters,
    tieSeed,
    compat: 'none',
    arrivals: 'trace',
    rate: 1,
    seed: 0,
    replication: 0,
    sloScale: 1,
    sloBase: 'exclusive',
    laws: false,
    ...(pairs !== undefined && { pairs }),
  }
  return {
    run,
    cluster: {
      instances: [],
      latencies: core.instances.latencies,
      templates: templates.entries.map((entries) =>
        entries.map(({ stage, ...tokens }) => ({ stage: core.stages.id(stage), ...tokens })),
      ),
    },
    trace: { source: 'live', stages: [...core.stages.list], models: [...core.instances.models] },
    live: { wallMs: Date.now() - core.nowMs(), tenants: [...core.tenants.list], options: {} },
  }
}

export type { Lease }
