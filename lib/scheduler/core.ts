import { EventEmitter } from 'node:events'
import { describe, expected, LaxityError, quote } from '../errors.ts'
import { type NativeScheduler, native } from '../native.ts'
import { hint } from '../report/near.ts'
import { CallRecord } from './call.ts'
import { CallReader } from './call-reader.ts'
import { abortError, duration, isSignal, text } from './checks.ts'
import type { Clock } from './clock.ts'
import { EventWriter, NEVER, NO_SLOT, type RevealFields } from './events.ts'
import { Instances } from './instances.ts'
import type { Journal } from './journal.ts'
import { Lease, type LeaseReason } from './lease.ts'
import { Metrics } from './metrics.ts'
import { Names } from './names.ts'
import { type CheckedOptions, checkOptions } from './options.ts'
import type { Candidate, Receipt } from './receipt.ts'
import { REJECT_REASONS, RejectionError } from './rejection.ts'
import { CALL, CALL_COLUMNS, FIRST_TERMINAL, INSTANCE_COLUMNS } from './snapshot.ts'
import { type CallOptions, Workflow, type WorkflowOptions } from './workflow.ts'

const RING = 8192
const OUT_HEADER = 24
const OUT_DECISIONS = 4096
const MAX_CALLS = 2 ** 24
const REASONS: readonly LeaseReason[] = ['none', 'only-feasible', 'best-score', 'lookahead', 'probe']
const FAILURES = { client_error: 0, backpressure: 1, fault: 2 } as const
const STALE = 1
/** States from `prefilling` to `decoding` are leased. */
const FIRST_LEASED = 4
const SLOT_IN_USE = 6
const BAD_STATE = 12

const decisionKind = native.eventLayout.kinds.find(({ name }) => name === 'decision')!
/** Byte offset inside a decision. */
function decisionAt(name: string): number {
  const first = Math.min(...decisionKind.fields.map(({ offset }) => offset))
  return decisionKind.fields.find((field) => field.name === name)!.offset - first
}
const D = {
  bytes: native.eventLayout.decisionBytes,
  kind: decisionAt('kind'),
  rejectReason: decisionAt('rejectReason'),
  leaseReason: decisionAt('leaseReason'),
  epoch: decisionAt('epoch') / 4,
  call: decisionAt('call') / 4,
  generation: decisionAt('callGeneration') / 4,
  instance: decisionAt('instance') / 4,
  enginePriority: decisionAt('enginePriority') / 4,
}
/** Marks the record of an administrative change. */
const ADMIN = Symbol('admin')
const LEASE = 1
const REVOKE = 3
const REJECT = 4

/** What a drain must know of a record that the core may refuse. */
type Origin = CallRecord | Workflow | typeof ADMIN | undefined

/**
 * The facade's engine room: strings become slots with generations once, events become records in the ring, one decide per
 * turn of the event loop, one wake timer. What the core knows is read from it, not kept here: a record of a call holds
 * its names and its promises.
 */
export class Core extends EventEmitter {
  readonly options: CheckedOptions
  readonly instances: Instances
  readonly metrics = new Metrics()
  readonly writer = new EventWriter(RING)
  readonly native: NativeScheduler
  readonly clock: Clock
  readonly #reader: CallReader
  readonly models: Names
  readonly stages: Names
  readonly tenants: Names
  readonly #out8: Uint8Array
  #decided8: Uint8Array
  #decided32: Uint32Array
  readonly #header32: Uint32Array
  readonly #header64: Float64Array
  readonly #callColumns = new Float64Array(CALL_COLUMNS)

  /** Clock reading of t = 0, and the latest t. */
  #originMs: number
  #lastNs = 0
  #scheduled = false
  #draining = false
  #t = 0
  #base = 0
  readonly #origins: Origin[] = []
  readonly #attempts: { call: CallRecord; lease: Lease }[] = []

  readonly #calls: (CallRecord | undefined)[] = []
  readonly #callGenerations: number[] = []
  readonly #freeCalls: number[] = []
  readonly #workflows: (Workflow | undefined)[] = []
  readonly #workflowGenerations: number[] = []
  readonly #freeWorkflows: number[] = []
  readonly workflowsById = new Map<string, Workflow>()
  #workflowSequence = 0

  /** Calls that have not ended, for draining. */
  active = 0
  closing = false
  #idle: (() => void)[] = []
  #timer: unknown
  #timerAt = Number.POSITIVE_INFINITY
  #sweepAt = Number.POSITIVE_INFINITY
  #drainAt = Number.POSITIVE_INFINITY
  #onDrain: (() => void) | undefined
  #nextWake = -1
  #watchBreakers = false
  /** Some breaker was not closed when last looked at. */
  #breakersAwake = false
  readonly #breakerStates: number[] = []
  journal: Journal | undefined
  /** Gets the log of every drain, where the options ask for one who listens. */
  onLog: ((records: Uint8Array) => void) | undefined
  #adminRefusal = 0
  #retryAfter = { t: -1, ms: 0 }
  readonly #leaks:
    | FinalizationRegistry<{ call: CallRecord; epoch: number; site: string | undefined }>
    | undefined
  #leakSample = 0
  policyName: string

  constructor(options: unknown) {
    super()
    this.options = checkOptions(options)
    const { clock, policy } = this.options
    const { instances, learned } = Instances.read((options as { cluster?: unknown }).cluster)
    this.instances = instances
    this.clock = clock
    this.models = new Names()
    this.stages = new Names()
    this.#reader = new CallReader(instances, this.stages, this.options.parameters)
    this.tenants = new Names()
    const out = new SharedArrayBuffer(OUT_HEADER + OUT_DECISIONS * D.bytes)
    this.#out8 = new Uint8Array(out)
    this.#header32 = new Uint32Array(out, 0, OUT_HEADER / 4)
    this.#header64 = new Float64Array(out, 0, OUT_HEADER / 8)
    this.#decided8 = new Uint8Array(out, OUT_HEADER)
    this.#decided32 = new Uint32Array(out, OUT_HEADER)
    this.native = this.#create()
    this.policyName = `${policy.order} x ${policy.placement} x ${policy.binding}`
    this.#originMs = clock.now()
    if (this.options.detectLeaks) {
      this.#leaks = new FinalizationRegistry(({ call, epoch, site }) => this.#leaked(call, epoch, site))
    }
    if (this.options.log !== undefined || this.options.autoTune !== undefined) this.native.setLogging(true)
    for (const { index, learned: on, constants } of learned)
      if (on) this.writer.setLatency(0, index, true, constants)
    for (const { slot, spec } of instances.list) {
      if (this.writer.free === 0) this.#settle()
      this.writer.instance(0, slot, 0, spec)
    }
    this.#settle()
  }

  #create(): NativeScheduler {
    const { policy, parameters, lookahead, tieSeed, templates } = this.options
    try {
      return new native.Scheduler(
        {
          ...policy,
          feedback: 'lease',
          lookahead,
          knowledge: templates.entries.length > 0 ? 'template' : 'online',
          parameters,
          tieSeed,
          compat: 'none',
          latencies: this.instances.latencies,
          templates: templates.entries.map((entries) =>
            entries.map(({ stage, promptTokens, outputTokens }) => ({
              stage: this.stages.id(stage),
              promptTokens,
              outputTokens,
            })),
          ),
        },
        this.writer.bytes,
        this.#out8,
      )
    } catch (cause) {
      throw new LaxityError('ERR_LAXITY_OPTION', (cause as Error).message, 'options', { cause })
    }
  }

  /** Drains what only this object wrote; anything refused is an option out of range. */
  #settle(): void {
    this.native.decide()
    if (this.#header32[1]! > 0) {
      const status = this.native.refusals[1]!
      throw new LaxityError(
        'ERR_LAXITY_OPTION',
        native.statusReasons[status] ?? `status ${status}`,
        'cluster',
      )
    }
    this.#base = this.writer.written
  }

  // --- time

  nowMs(): number {
    return this.#nowNs() / 1e6
  }

  /** ns since t = 0; never decreases. */
  #nowNs(): number {
    const t = Math.round((this.clock.now() - this.#originMs) * 1e6)
    if (t > this.#lastNs) this.#lastNs = t
    return this.#lastNs
  }

  /** Continues another scheduler's time: `t` is now. */
  continueAt(ns: number): void {
    this.#originMs = this.clock.now() - ns / 1e6
    this.#lastNs = ns
  }

  // --- events

  /** The instant of this turn, with room for `records` events. */
  #begin(records = 1): number {
    if (!this.#scheduled) {
      this.#scheduled = true
      this.#t = this.#nowNs()
      queueMicrotask(this.#flush)
    }
    if (this.writer.free < records) this.#drain()
    return this.#t
  }

  #wrote(origin: Origin): void {
    this.#origins[(this.writer.written - this.#base - 1) >>> 0] = origin
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    this.#drain()
  }

  /** Applies every event of the turn now, and decides. */
  flush(): void {
    this.#drain()
  }

  #drain(): void {
    if (this.#draining || this.writer.pending === 0) return
    this.#draining = true
    const started = performance.now()
    const made = this.native.decide()
    this.metrics.decision.observe((performance.now() - started) / 1000)
    const header = this.#header32
    const refusals = header[1]!
    const freed = header[2]!
    this.#nextWake = this.#header64[2]!
    if (refusals > 0) this.#refused()
    this.#base = this.writer.written
    this.#origins.length = 0
    if (made > 0) this.#dispatch(made)
    if (this.#attempts.length > 0) this.#settleAttempts()
    if (freed > 0) this.#release()
    this.#draining = false
    if (this.journal !== undefined || this.onLog !== undefined) this.publishLog()
    if (this.#watchBreakers) this.#reportBreakers()
    this.#arm()
    if (this.active === 0 && this.#idle.length > 0) for (const done of this.#idle.splice(0)) done()
    // Events written while decisions were handed out belong to the same instant.
    if (this.writer.pending > 0) this.#drain()
  }

  /** What was logged since the last call goes to the journal and to whoever listens. */
  publishLog(): void {
    const records = this.native.takeLog()
    this.journal?.append(records, this)
    this.onLog?.(records)
  }

  #dispatch(made: number): void {
    let bytes = this.#decided8
    let words = this.#decided32
    if (made > OUT_DECISIONS) {
      bytes = this.native.decisions
      words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
    }
    for (let i = 0; i < made; i += 1) {
      const byte = i * D.bytes
      const word = byte / 4
      const call = this.#calls[words[word + D.call]!]
      if (call === undefined || call.generation !== words[word + D.generation]!) continue
      const kind = bytes[byte + D.kind]!
      if (kind === LEASE) {
        this.#granted(
          call,
          words[word + D.epoch]!,
          words[word + D.instance]!,
          bytes[byte + D.leaseReason]!,
          words[word + D.enginePriority]! | 0,
        )
      } else if (kind === REJECT) {
        this.#rejected(call, bytes[byte + D.rejectReason]!)
      } else if (kind === REVOKE) {
        this.#lost(call)
      }
    }
  }

  /** Slots return when the core has freed their workflow's records. */
  #release(): void {
    for (const slot of this.native.freed) {
      const workflow = this.#workflows[slot]
      if (workflow === undefined) continue
      for (const call of workflow.calls) {
        if (this.#calls[call.slot] !== call) continue
        this.#calls[call.slot] = undefined
        this.#freeCalls.push(call.slot)
      }
      this.#workflows[slot] = undefined
      this.#freeWorkflows.push(slot)
    }
  }

  /** The core declined an event. Only races of stale attempts can: everything else was checked before it was written. */
  #refused(): void {
    const refusals = this.native.refusals
    const fresh: CallRecord[] = []
    for (let i = 0; i < refusals.length; i += 2) {
      const status = refusals[i + 1]!
      const origin = this.#origins[(refusals[i]! - this.#base) >>> 0]
      if (origin === ADMIN) this.#adminRefusal = status
      if (
        origin instanceof CallRecord &&
        origin.phase === 'waiting' &&
        origin.lease === undefined &&
        this.#state(origin) < 0
      ) {
        fresh.push(origin)
        this.#end(origin, 'refused')
        const error = new LaxityError('ERR_LAXITY_NATIVE', native.statusReasons[status] ?? `status ${status}`)
        origin.reject?.(error)
      } else if (origin instanceof Workflow && !origin.ended && status !== STALE) {
        this.emit(
          'warning',
          new LaxityError('ERR_LAXITY_NATIVE', native.statusReasons[status] ?? `status ${status}`),
        )
      }
    }
    for (const call of fresh.reverse()) {
      this.#calls[call.slot] = undefined
      this.#freeCalls.push(call.slot)
    }
  }

  /** The call's state in the core, or -1 where it has no record. */
  #state(call: CallRecord): number {
    const status = this.native.callInfo(call.slot, call.generation, this.#callColumns)
    return status === 0 ? this.#callColumns[CALL.state]! : -1
  }

  /** Attempts that were reported as failed or done: does the call go on? */
  #settleAttempts(): void {
    for (const { call, lease } of this.#attempts.splice(0)) {
      const state = this.#state(call)
      // Granted again in the same instant, or over for another reason.
      if (call.phase === 'ended' || call.lease !== lease) continue
      if (state >= 0 && state < FIRST_TERMINAL) continue
      this.metrics.retriesExhausted += 1
      this.#end(call, 'failed')
      call.resolve?.(null)
    }
  }

  // --- timers

  #arm(): void {
    const wake = this.#nextWake < 0 ? Number.POSITIVE_INFINITY : this.#nextWake / 1e6
    const at = Math.min(wake, this.#sweepAt, this.#drainAt)
    if (this.#timer !== undefined) {
      if (this.#timerAt <= at && at !== Number.POSITIVE_INFINITY) return // wakes early, which is harmless
      this.clock.clearTimer(this.#timer)
      this.#timer = undefined
    }
    if (at === Number.POSITIVE_INFINITY) return
    this.#timerAt = at
    this.#timer = this.clock.setTimer(this.#wake, Math.max(0, at - this.nowMs()))
  }

  readonly #wake = (): void => {
    this.#timer = undefined
    const now = this.nowMs()
    if (now >= this.#sweepAt) this.#sweep(now)
    if (now >= this.#drainAt) {
      this.#drainAt = Number.POSITIVE_INFINITY
      this.#onDrain?.()
    }
    if (this.#nextWake >= 0 && this.#nowNs() >= this.#nextWake) {
      this.writer.timer(this.#begin())
      this.#wrote(undefined)
      this.#watchBreakers = this.#breakersAwake
      this.#drain()
    } else {
      this.#arm()
    }
  }

  /** Named workflows that nobody uses any more. */
  #sweep(now: number): void {
    const { workflowIdleMs } = this.options
    this.#sweepAt = this.workflowsById.size > 0 ? now + workflowIdleMs / 4 : Number.POSITIVE_INFINITY
    for (const workflow of this.workflowsById.values()) {
      if (workflow.first === undefined && now - workflow.lastActiveMs >= workflowIdleMs)
        this.endWorkflow(workflow)
    }
  }

  drainTimer(afterMs: number, callback: () => void): void {
    this.#drainAt = this.nowMs() + afterMs
    this.#onDrain = callback
    this.#arm()
  }

  whenIdle(): Promise<void> {
    if (this.active === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  stop(): void {
    if (this.#timer !== undefined) this.clock.clearTimer(this.#timer)
    this.#timer = undefined
    this.#sweepAt = this.#drainAt = Number.POSITIVE_INFINITY
    this.#nextWake = -1
  }

  // --- workflows

  openWorkflow(options: WorkflowOptions = {}): Workflow {
    this.#checkOpen()
    if (typeof options !== 'object' || options === null)
      throw new LaxityError('ERR_LAXITY_FIELD', `Expected an object, got ${describe(options)}`, 'workflow')
    const { id, tenant = 'default', sloMs, template, remainingMs, signal } = options
    if (id !== undefined) {
      text(id, 'id')
      const known = this.workflowsById.get(id)
      if (known !== undefined) {
        known.lastActiveMs = this.nowMs()
        return known
      }
    }
    text(tenant, 'tenant')
    if (sloMs !== undefined) duration(sloMs, 'sloMs')
    if (remainingMs !== undefined) duration(remainingMs, 'remainingMs')
    if (signal !== undefined && !isSignal(signal))
      throw new LaxityError('ERR_LAXITY_FIELD', expected('an AbortSignal', 'signal', signal), 'signal')
    let templateId = -1
    if (template !== undefined) {
      const found = typeof template === 'string' ? this.options.templates.names.get(template) : undefined
      if (found === undefined) {
        const message = `Unknown template ${describe(template)}${hint(template, this.options.templates.names.keys())}`
        throw new LaxityError('ERR_LAXITY_UNKNOWN', message, 'template')
      }
      templateId = found
    }
    if (signal?.aborted) throw abortError(signal.reason)
    const t = this.#begin()
    const slot = this.#freeWorkflows.pop() ?? this.#workflows.length
    const generation = (this.#workflowGenerations[slot] ?? 0) + 1
    this.#workflowGenerations[slot] = generation
    this.#workflowSequence += 1
    const deadline = sloMs === undefined ? NEVER : t + sloMs * 1e6
    const workflow = new Workflow(
      this,
      id ?? `w${this.#workflowSequence}`,
      id !== undefined,
      tenant,
      slot,
      generation,
      t / 1e6,
      sloMs === undefined ? Number.POSITIVE_INFINITY : t / 1e6 + sloMs,
      signal,
    )
    this.#workflows[slot] = workflow
    const remaining = remainingMs === undefined ? -1 : Math.round(remainingMs * 1e6)
    this.writer.openWorkflow(
      t,
      slot,
      generation,
      this.tenants.id(tenant),
      templateId,
      Math.round(deadline),
      remaining,
    )
    this.#wrote(workflow)
    this.metrics.workflows += 1
    if (id !== undefined) {
      this.workflowsById.set(id, workflow)
      const { workflowIdleMs } = this.options
      if (workflowIdleMs > 0 && this.#sweepAt === Number.POSITIVE_INFINITY) {
        this.#sweepAt = t / 1e6 + workflowIdleMs
      }
    }
    return workflow
  }

  updateWorkflow(
    workflow: Workflow,
    change: { sloMs?: number | null | undefined; remainingMs?: number | undefined },
  ): void {
    if (typeof change !== 'object' || change === null)
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('{ sloMs, remainingMs }', 'change', change),
        'change',
      )
    const { sloMs, remainingMs } = change
    if (sloMs !== undefined && sloMs !== null) duration(sloMs, 'sloMs')
    if (remainingMs !== undefined) duration(remainingMs, 'remainingMs')
    this.#checkWorkflow(workflow)
    if (sloMs === undefined && remainingMs === undefined) return
    const t = this.#begin()
    const deadline = sloMs === undefined ? -1 : sloMs === null ? NEVER : Math.round(t + sloMs * 1e6)
    const remaining = remainingMs === undefined ? -1 : Math.round(remainingMs * 1e6)
    this.writer.updateWorkflow(t, workflow.slot, workflow.generation, deadline, remaining)
    this.#wrote(workflow)
    if (sloMs === null) workflow.deadlineMs = Number.POSITIVE_INFINITY
    else if (sloMs !== undefined) workflow.deadlineMs = t / 1e6 + sloMs
  }

  endWorkflow(workflow: Workflow): void {
    if (workflow.ended) return
    const t = this.#begin()
    workflow.ended = true
    workflow.forgetSignal()
    if (workflow.named && this.workflowsById.get(workflow.id) === workflow) {
      this.workflowsById.delete(workflow.id)
      if (this.workflowsById.size === 0) this.#sweepAt = Number.POSITIVE_INFINITY
    }
    this.#observeWorkflow(workflow, t / 1e6)
    this.writer.closeWorkflow(t, workflow.slot, workflow.generation)
    this.#wrote(workflow)
    // The core cancels what is not leased.
    for (let call = workflow.first; call !== undefined; ) {
      const next = call.next
      if (call.phase === 'waiting') {
        this.#end(call, 'cancelled')
        if (call.retrying) call.resolve?.(null)
        else call.reject?.(new LaxityError('ERR_LAXITY_CLOSED', `Workflow ${quote(workflow.id)} has ended`))
      }
      call = next
    }
  }

  /** Cancels every call, then ends the workflow. */
  abortWorkflow(workflow: Workflow, reason: unknown): void {
    if (workflow.ended) return
    for (let call = workflow.first; call !== undefined; ) {
      const next = call.next
      this.#abort(call, reason)
      call = next
    }
    this.endWorkflow(workflow)
  }

  #observeWorkflow(workflow: Workflow, nowMs: number): void {
    if (workflow.calls.length === 0) return
    const took = nowMs - workflow.arrivedAtMs
    this.metrics.workflowTime.observe(took / 1000)
    if (nowMs > workflow.deadlineMs) this.metrics.deadlineMisses += 1
    const horizon = this.native.horizonMs(workflow.slot)
    if (horizon > 0) this.metrics.ratio.observe(took / horizon)
  }

  // --- calls

  call(workflow: Workflow, options: CallOptions): Promise<Lease> {
    try {
      return this.#call(workflow, options)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #call(workflow: Workflow, options: CallOptions): Promise<Lease> {
    if (typeof options !== 'object' || options === null)
      throw new LaxityError('ERR_LAXITY_FIELD', `Expected an object, got ${describe(options)}`, 'call')
    const { id } = options
    if (id !== undefined) {
      text(id, 'id')
      const known = workflow.find(id)
      if (known !== undefined) return this.#again(known)
    }
    this.#checkOpen()
    this.#checkWorkflow(workflow)
    if (workflow.calls.length >= MAX_CALLS)
      throw new LaxityError('ERR_LAXITY_LIMIT', `A workflow holds at most ${MAX_CALLS} calls`)
    const { signal } = options
    if (signal !== undefined) {
      if (!isSignal(signal))
        throw new LaxityError('ERR_LAXITY_FIELD', expected('an AbortSignal', 'signal', signal), 'signal')
      if (signal.aborted) throw abortError(signal.reason)
    }
    const parents = options.parents === undefined ? undefined : workflow.parentsOf(options.parents)
    const fields = this.#reader.read(workflow, options)

    const t = this.#begin(parents === undefined ? 1 : EventWriter.revealRecords(parents.length))
    const slot = this.#freeCalls.pop() ?? this.#calls.length
    const generation = (this.#callGenerations[slot] ?? 0) + 1
    this.#callGenerations[slot] = generation
    const call = new CallRecord(
      slot,
      generation,
      workflow,
      workflow.calls.length,
      id,
      options.stage ?? 'default',
      t / 1e6,
    )
    this.#calls[slot] = call
    workflow.calls.push(call)
    if (id !== undefined) {
      workflow.ids ??= new Map()
      workflow.ids.set(id, call)
    }
    workflow.lastActiveMs = t / 1e6
    call.next = workflow.first
    if (workflow.first !== undefined) workflow.first.previous = call
    workflow.first = call
    this.active += 1
    this.metrics.calls += 1
    if (parents !== undefined) for (const parent of parents) if (parent.phase !== 'ended') call.ready = false
    fields.slot = slot
    fields.generation = generation
    fields.parents = parents
    if (this.options.receipts) call.preview = this.#preview(t, fields)
    this.writer.reveal(t, fields)
    this.#wrote(call)
    if (signal !== undefined && signal !== workflow.signal) {
      call.signal = signal
      call.onAbort = () => this.#abort(call, signal.reason)
      signal.addEventListener('abort', call.onAbort)
    }
    return this.#await(call) as Promise<Lease>
  }

  /** The same id again: the same call. */
  #again(call: CallRecord): Promise<Lease> {
    if (call.phase === 'waiting' && call.wait !== undefined) return call.wait as Promise<Lease>
    if (call.phase === 'leased') {
      call.claimed = true
      return call.wait !== undefined ? (call.wait as Promise<Lease>) : Promise.resolve(call.lease!)
    }
    const message = `Call ${quote(call.id)} of workflow ${quote(call.workflow.id)} has ended`
    throw new LaxityError('ERR_LAXITY_DUPLICATE', message, 'id')
  }

  #await(call: CallRecord): Promise<Lease | null> {
    call.wait = new Promise<Lease | null>((resolve, reject) => {
      call.resolve = resolve
      call.reject = reject
    })
    return call.wait
  }

  #granted(call: CallRecord, epoch: number, instance: number, reason: number, enginePriority: number): void {
    const entry = this.instances.list[instance]!
    const lease = new Lease(
      this,
      call,
      entry,
      epoch,
      REASONS[reason] ?? 'none',
      enginePriority,
      this.#t / 1e6,
    )
    const old = call.lease
    call.lease = lease
    this.metrics.count(this.metrics.leases, lease.reason)
    if (call.phase === 'ended') {
      // Its answer came from an instance that was given up, or it was cancelled meanwhile.
      const t = this.#begin()
      if (call.finishTokens >= 0)
        this.writer.finished(t, call.slot, call.generation, epoch, call.finishTokens)
      else this.writer.cancel(t, call.slot, call.generation, epoch)
      this.#wrote(undefined)
      return
    }
    if (epoch > 0) this.metrics.retries += 1
    else if (call.ready) this.metrics.queueWait.observe((this.#t / 1e6 - call.revealedAtMs) / 1000)
    if (old !== undefined && !old.closed) {
      old.takeAway(new LaxityError('ERR_LAXITY_LOST', `Instance ${quote(old.instance)} was lost`), false)
    }
    call.phase = 'leased'
    if (call.preview !== undefined) lease.receipt = this.#receipt(call, lease)
    const { resolve } = call
    call.claimed = resolve !== undefined
    if (resolve === undefined) return // stays with the call until `failed` asks for it
    call.resolve = call.reject = undefined
    if (this.options.durable) {
      this.journal!.afterSync(() => {
        if (call.wait !== undefined && call.lease === lease) call.wait = undefined
        this.#deliver(call, lease, resolve)
      })
    } else {
      call.wait = undefined
      this.#deliver(call, lease, resolve)
    }
  }

  #deliver(call: CallRecord, lease: Lease, resolve: (lease: Lease) => void): void {
    resolve(lease)
    if (this.#leaks !== undefined) this.#watch(call, lease)
  }

  #rejected(call: CallRecord, reason: number): void {
    if (call.phase === 'ended') return
    const { code, message, name, retry } = REJECT_REASONS[reason] ?? REJECT_REASONS[0]!
    this.#end(call, 'rejected')
    this.metrics.count(this.metrics.rejections, name)
    const error = new RejectionError(code, message, retry ? this.retryAfterMs() : undefined)
    call.lease?.takeAway(error, true)
    if (call.retrying) call.resolve?.(null)
    else call.reject?.(error)
  }

  /** When a place in a queue is likely to be free: the outstanding work spread over what serves it, 0.1 to 60 s. */
  retryAfterMs(): number {
    if (this.#retryAfter.t === this.#t) return this.#retryAfter.ms
    let work = 0
    let lanes = 0
    let assigned = 0
    this.eachInstance((columns, at) => {
      if (columns[at] !== 1) return
      work += columns[at + 5]!
      assigned += columns[at + 4]!
      lanes += Math.max(1, columns[at + 6]!)
    })
    const one = assigned > 0 ? work / assigned : 1000
    const ms = lanes === 0 ? 60_000 : (one * Math.max(1, assigned / lanes)) / 2
    this.#retryAfter = { t: this.#t, ms: Math.round(Math.min(Math.max(ms, 100), 60_000)) }
    return this.#retryAfter.ms
  }

  #lost(call: CallRecord): void {
    this.metrics.lost += 1
    const { lease } = call
    if (call.phase === 'ended') return
    this.#end(call, 'lost')
    const error = new LaxityError(
      'ERR_LAXITY_LOST',
      `The lease of call ${quote(call.id)} gave no sign of life for its TTL`,
    )
    lease?.takeAway(error, true)
    call.resolve?.(null)
    this.emit('lost', { call: call.id, workflow: call.workflow.id, instance: lease?.instance })
  }

  /** The call is over for the facade. */
  #end(call: CallRecord, outcome: string): void {
    if (call.phase === 'ended') return
    call.phase = 'ended'
    call.wait = undefined
    this.active -= 1
    const { workflow } = call
    if (call.previous !== undefined) call.previous.next = call.next
    else workflow.first = call.next
    if (call.next !== undefined) call.next.previous = call.previous
    call.previous = call.next = undefined
    if (call.onAbort !== undefined) {
      call.signal?.removeEventListener('abort', call.onAbort)
      call.onAbort = call.signal = undefined
    }
    if (outcome !== 'failed') this.metrics.count(this.metrics.outcomes, outcome)
    const receipt = call.lease?.receipt
    if (receipt !== undefined && receipt.actual === undefined) this.#closeReceipt(call, receipt, outcome)
    if (this.active === 0 && this.#idle.length > 0 && !this.#scheduled && !this.#draining)
      for (const done of this.#idle.splice(0)) done()
  }

  // --- what happens to leases

  firstToken(call: CallRecord, lease: Lease): void {
    this.writer.firstToken(this.#begin(), call.slot, call.generation, lease.epoch)
    this.#wrote(undefined)
    if (lease.receipt !== undefined) firstTokens.set(lease, this.#t / 1e6)
    this.metrics.ttft.observe((this.#t / 1e6 - lease.grantedAtMs) / 1000)
  }

  progress(call: CallRecord, lease: Lease, tokens: number): void {
    this.writer.progress(this.#begin(), call.slot, call.generation, lease.epoch, tokens)
    this.#wrote(undefined)
  }

  finished(call: CallRecord, lease: Lease, outputTokens: number): void {
    const t = this.#begin()
    if (call.lease === lease) {
      this.writer.finished(t, call.slot, call.generation, lease.epoch, outputTokens)
      this.#wrote(undefined)
      call.workflow.lastInstance = lease.slot
      if (outputTokens > 1) this.metrics.tpot.observe((t / 1e6 - lease.grantedAtMs) / 1000 / outputTokens)
    }
    // Should the core have taken this lease back, the answer still counts: the attempt that replaces it is finished too.
    call.finishTokens = outputTokens
    if (call.lease !== lease && call.phase === 'leased') {
      this.writer.finished(t, call.slot, call.generation, call.lease!.epoch, outputTokens)
      this.#wrote(undefined)
    }
    call.workflow.lastActiveMs = t / 1e6
    if (this.#breakersAwake) this.#watchBreakers = true
    this.#end(call, 'ok')
  }

  cancelled(call: CallRecord, lease: Lease): void {
    const epoch = call.phase === 'waiting' ? this.#epoch(call) : (call.lease?.epoch ?? lease.epoch)
    this.writer.cancel(this.#begin(), call.slot, call.generation, epoch)
    this.#wrote(undefined)
    this.#end(call, 'cancelled')
  }

  failed(
    call: CallRecord,
    lease: Lease,
    kind: keyof typeof FAILURES,
    clientBytes: number,
    retryAfterMs: number,
  ): Promise<Lease | null> {
    this.metrics.count(this.metrics.outcomes, kind)
    if (call.phase === 'ended') return Promise.resolve(null)
    if (call.lease !== lease) {
      // It was lost with its instance and has been replaced, or will be.
      if (call.phase === 'leased' && !call.claimed) {
        call.claimed = true
        return Promise.resolve(call.lease!)
      }
      return call.wait ?? Promise.resolve(null)
    }
    if (call.phase === 'waiting') {
      // The core knows: its instance was lost.
      call.retrying = true
      return call.wait ?? this.#await(call)
    }
    const t = this.#begin()
    this.writer.failed(
      t,
      call.slot,
      call.generation,
      lease.epoch,
      FAILURES[kind],
      clientBytes,
      Math.round(retryAfterMs * 1e6),
    )
    this.#wrote(undefined)
    this.#watchBreakers = true
    if (lease.receipt !== undefined) this.#closeReceipt(call, lease.receipt, kind)
    call.phase = 'waiting'
    call.retrying = true
    this.#attempts.push({ call, lease })
    return this.#await(call)
  }

  #abort(call: CallRecord, reason: unknown): void {
    if (call.phase === 'ended') return
    const { lease } = call
    // An attempt that waits again has an epoch that only the core knows.
    const epoch = this.#epoch(call)
    this.writer.cancel(this.#begin(), call.slot, call.generation, epoch)
    this.#wrote(undefined)
    const undelivered = call.resolve !== undefined
    this.#end(call, 'cancelled')
    if (undelivered) {
      if (call.retrying) call.resolve?.(null)
      else call.reject?.(abortError(reason))
    }
    lease?.takeAway(abortError(reason), true)
  }

  #epoch(call: CallRecord): number {
    return this.#state(call) >= 0 ? this.#callColumns[CALL.epoch]! : (call.lease?.epoch ?? 0)
  }

  // --- cluster, policy, parameters: applied at once, so that a refusal has its error

  administer(write: (writer: EventWriter, t: number) => void, place: string): void {
    this.#drain()
    write(this.writer, this.#begin())
    this.#wrote(ADMIN)
    this.#adminRefusal = 0
    this.#drain()
    const status = this.#adminRefusal
    if (status === 0) return
    const code = status === BAD_STATE || status === SLOT_IN_USE ? 'ERR_LAXITY_STATE' : 'ERR_LAXITY_OPTION'
    throw new LaxityError(code, native.statusReasons[status] ?? `status ${status}`, place)
  }

  /** Abort signals of the leases on an instance that was given up. */
  leasesLost(instance: string): void {
    for (const call of this.#calls) {
      const lease = call?.lease
      if (call?.phase === 'leased' && lease !== undefined && lease.instance === instance && !lease.closed) {
        call.phase = 'waiting'
        call.retrying = true
        this.#attempts.push({ call, lease }) // a call of an ended workflow is over with its lease
        lease.takeAway(new LaxityError('ERR_LAXITY_LOST', `Instance ${quote(instance)} was lost`), false)
      }
    }
  }

  cancelAll(reason: unknown): number {
    let count = 0
    for (const call of this.#calls) {
      if (call === undefined || call.phase === 'ended') continue
      count += 1
      this.#abort(call, reason)
    }
    return count
  }

  endAll(): void {
    for (const workflow of this.#workflows) if (workflow !== undefined) this.endWorkflow(workflow)
  }

  eachInstance(visit: (columns: Float64Array, at: number, slot: number) => void): void {
    const columns = new Float64Array(this.instances.list.length * INSTANCE_COLUMNS)
    const count = Math.min(this.native.instances(columns), this.instances.list.length)
    for (let slot = 0; slot < count; slot += 1) visit(columns, slot * INSTANCE_COLUMNS, slot)
  }

  #reportBreakers(): void {
    this.#watchBreakers = this.#breakersAwake = false
    const names = ['closed', 'open', 'half-open']
    this.eachInstance((columns, at, slot) => {
      const state = columns[at + 2]!
      const was = this.#breakerStates[slot] ?? 0
      this.#breakerStates[slot] = state
      if (state !== 0) this.#breakersAwake = true
      if (state !== was)
        this.emit('breaker', { instance: this.instances.list[slot]!.id, from: names[was], to: names[state] })
    })
  }

  callAt(slot: number, generation: number): CallRecord | undefined {
    const call = this.#calls[slot]
    return call?.generation === generation ? call : undefined
  }

  workflowAt(slot: number, generation: number): Workflow | undefined {
    const workflow = this.#workflows[slot]
    return workflow?.generation === generation ? workflow : undefined
  }

  // --- restoring

  /** A workflow that a log opened: the core knows it already. */
  adoptWorkflow(
    slot: number,
    generation: number,
    id: string,
    named: boolean,
    tenant: string,
    nowMs: number,
    deadlineMs: number,
  ): void {
    this.#workflows[slot] = new Workflow(
      this,
      id,
      named,
      tenant,
      slot,
      generation,
      nowMs,
      deadlineMs,
      undefined,
    )
    this.#workflowGenerations[slot] = generation
    this.#workflowSequence += 1
    if (named) this.workflowsById.set(id, this.#workflows[slot]!)
  }

  closeAdopted(slot: number): void {
    const workflow = this.#workflows[slot]
    if (workflow === undefined) return
    workflow.ended = true
    if (workflow.named) this.workflowsById.delete(workflow.id)
  }

  adoptCall(
    slot: number,
    generation: number,
    workflowSlot: number,
    id: string | undefined,
    stage: string,
    nowMs: number,
  ): void {
    const workflow = this.#workflows[workflowSlot]!
    const call = new CallRecord(slot, generation, workflow, workflow.calls.length, id, stage, nowMs)
    call.phase = 'ended'
    this.#calls[slot] = call
    this.#callGenerations[slot] = generation
    workflow.calls.push(call)
    if (id === undefined) return
    workflow.ids ??= new Map()
    workflow.ids.set(id, call)
  }

  adoptLease(
    slot: number,
    epoch: number,
    instance: number,
    reason: number,
    enginePriority: number,
    nowMs: number,
  ): void {
    const call = this.#calls[slot]
    const entry = this.instances.list[instance]
    if (call === undefined || entry === undefined) return
    call.lease = new Lease(this, call, entry, epoch, REASONS[reason] ?? 'none', enginePriority, nowMs)
  }

  /** Drains records of a log, and gives the decisions. */
  replayed(): Uint8Array {
    const made = this.native.decide()
    if (this.#header32[1]! > 0) {
      const status = this.native.refusals[1]!
      throw new LaxityError('ERR_LAXITY_LOG', native.statusReasons[status] ?? `status ${status}`)
    }
    this.#nextWake = this.#header64[2]!
    this.#base = this.writer.written
    return made > 0 ? this.native.decisions : new Uint8Array(0)
  }

  /** The core freed some records; only now, since its last decisions may name them. */
  releaseAdopted(): void {
    if (this.#header32[2]! > 0) this.#release()
  }

  /**
   * Every record was replayed: leases of the core are leases again, waiting for `attach`; whatever waited for one is
   * cancelled, since its promise died with its process.
   */
  settleAdopted(): CallRecord[] {
    const leases: CallRecord[] = []
    const waiting: { call: CallRecord; epoch: number }[] = []
    // Slots are handed out again from the lists of free ones, which replaying has only added to.
    this.#freeWorkflows.length = 0
    for (let slot = 0; slot < this.#workflowGenerations.length; slot += 1) {
      if (this.#workflows[slot] === undefined) this.#freeWorkflows.push(slot)
    }
    this.#freeCalls.length = 0
    for (let slot = 0; slot < this.#callGenerations.length; slot += 1) {
      const call = this.#calls[slot]
      if (call === undefined) {
        this.#freeCalls.push(slot)
        continue
      }
      const state = this.#state(call)
      if (state < 0 || state >= FIRST_TERMINAL) continue
      call.phase = 'leased'
      call.next = call.workflow.first
      if (call.next !== undefined) call.next.previous = call
      call.workflow.first = call
      this.active += 1
      if (state >= FIRST_LEASED) leases.push(call)
      else waiting.push({ call, epoch: this.#callColumns[CALL.epoch]! })
    }
    for (const { call, epoch } of waiting) {
      this.writer.cancel(this.#begin(), call.slot, call.generation, epoch)
      this.#wrote(undefined)
      this.#end(call, 'cancelled')
    }
    // Their TTL counts from here.
    for (const call of leases) this.progress(call, call.lease!, 0)
    this.#drain()
    this.#arm()
    return leases
  }

  // --- receipts

  /** What a call that is not revealed would meet. */
  estimate(
    workflow: Workflow | undefined,
    options: CallOptions,
  ): { instance: string | undefined; candidates: Candidate[] } {
    this.#drain()
    const answer = this.#preview(this.#nowNs(), this.#reader.read(workflow, options))
    return { instance: this.instances.list[answer[1]!]?.id, candidates: this.#candidates(answer) }
  }

  #preview(t: number, fields: RevealFields): Float64Array {
    const { parents } = fields
    fields.parents = undefined
    const { workflow } = fields
    this.writer.reveal(t, fields)
    const record = this.writer.takeBack()
    let answer = this.native.preview(record)
    if (answer[0] !== 0) {
      // Its workflow is opened in this very instant.
      fields.workflow = NO_SLOT
      this.writer.reveal(t, fields)
      answer = this.native.preview(this.writer.takeBack())
    }
    fields.workflow = workflow
    fields.parents = parents
    return answer
  }

  #candidates(answer: Float64Array): Candidate[] {
    const candidates: Candidate[] = []
    for (let i = 2; i + 3 < answer.length; i += 4) {
      candidates.push({
        instance: this.instances.list[answer[i]!]!.id,
        prefillMs: answer[i + 1]!,
        execMs: answer[i + 2]!,
        projectedMs: answer[i + 3]!,
      })
    }
    return candidates
  }

  #receipt(call: CallRecord, lease: Lease): Receipt {
    this.#state(call)
    const c = this.#callColumns
    return {
      call: call.id,
      workflow: call.workflow.id,
      epoch: lease.epoch,
      instance: lease.instance,
      reason: lease.reason,
      policy: this.policyName,
      tieSeed: this.options.tieSeed,
      candidates: this.#candidates(call.preview!),
      queueMs: lease.grantedAtMs - c[CALL.readyMs]!,
      budgetMs: c[CALL.budgetMs]!,
      deadlineMs: c[CALL.deadlineMs]!,
      horizonMs: c[CALL.horizonMs]!,
      predictedTokens: c[CALL.predicted]!,
      predicted: { ttftMs: c[CALL.prefillsEndMs]!, finishMs: c[CALL.deltaMs]! },
    }
  }

  #closeReceipt(call: CallRecord, receipt: Receipt, outcome: string): void {
    const lease = call.lease!
    const first = firstTokens.get(lease)
    const finishMs = this.#t / 1e6 - lease.grantedAtMs
    receipt.actual = {
      ttftMs: first === undefined ? undefined : first - lease.grantedAtMs,
      finishMs,
      errorMs: finishMs - receipt.predicted.finishMs,
      outcome,
    }
    this.options.onReceipt?.(receipt)
  }

  // --- leaks

  #watch(call: CallRecord, lease: Lease): void {
    this.#leakSample += 1
    const site = this.#leakSample % 16 === 1 ? new Error('lease granted here').stack : undefined
    this.#leaks!.register(lease, { call, epoch: lease.epoch, site })
    call.weaken()
  }

  #leaked(call: CallRecord, epoch: number, site: string | undefined): void {
    if (call.phase !== 'leased') return
    this.writer.cancel(this.#begin(), call.slot, call.generation, epoch)
    this.#wrote(undefined)
    this.#end(call, 'leaked')
    this.metrics.orphans += 1
    this.emit('leak', { call: call.id, workflow: call.workflow.id, site })
  }

  // --- checks

  #checkOpen(): void {
    if (this.closing) throw new LaxityError('ERR_LAXITY_CLOSED', 'The scheduler is closed')
  }

  #checkWorkflow(workflow: Workflow): void {
    if (workflow.ended) throw new LaxityError('ERR_LAXITY_CLOSED', `Workflow ${quote(workflow.id)} has ended`)
  }
}

/** Only of leases with a receipt. */
const firstTokens = new WeakMap<Lease, number>()
