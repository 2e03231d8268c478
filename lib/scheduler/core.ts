import { EventEmitter } from 'node:events'
import { describe, expected, LaxityError, quote } from '../errors.ts'
import { type NativeScheduler, native } from '../native.ts'
import { Attempts } from './attempts.ts'
import { CallRecord } from './call.ts'
import { CallReader } from './call-reader.ts'
import { abortError, isSignal, text } from './checks.ts'
import type { Clock } from './clock.ts'
import { DECISION, Decisions } from './decisions.ts'
import { EventWriter } from './events.ts'
import { Instances } from './instances.ts'
import type { Journal } from './journal.ts'
import type { Lease } from './lease.ts'
import { Metrics } from './metrics.ts'
import { Names } from './names.ts'
import { type CheckedOptions, checkOptions } from './options.ts'
import type { Candidate } from './receipt.ts'
import { candidatesOf, preview } from './receipts.ts'
import { SlotTable } from './slots.ts'
import { CALL, CALL_COLUMNS, INSTANCE_COLUMNS } from './snapshot.ts'
import { WakeTimer } from './wake.ts'
import { Watch } from './watch.ts'
import { type CallOptions, Workflow } from './workflow.ts'
import { Workflows } from './workflows.ts'

const RING = 8192
const OUT_HEADER = 24
const OUT_DECISIONS = 4096
const MAX_CALLS = 2 ** 24
const STALE = 1
const SLOT_IN_USE = 6
const BAD_STATE = 12
/** `kMaxTime` of the core. */
const LAST_NS = 2 ** 62

/** Marks the record of an administrative change. */
const ADMIN = Symbol('admin')

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
  readonly paired: boolean
  readonly #reader: CallReader
  readonly models: Names
  readonly stages: Names
  readonly tenants: Names
  readonly #out8: Uint8Array
  readonly #decisions: Decisions
  readonly #header32: Uint32Array
  readonly #header64: Float64Array
  /** What `stateOf` read last. */
  readonly callColumns = new Float64Array(CALL_COLUMNS)

  /** Clock reading of t = 0, and the latest t. */
  #originMs: number
  #lastNs = 0
  #scheduled = false
  #draining = false
  #t = 0
  #base = 0
  readonly #origins: Origin[] = []

  readonly calls = new SlotTable<CallRecord>()
  readonly workflows: Workflows
  readonly attempts: Attempts
  readonly watch: Watch

  /** Calls that have not ended, for draining. */
  active = 0
  closing = false
  #idle: (() => void)[] = []
  readonly #timer: WakeTimer
  #drainAt = Number.POSITIVE_INFINITY
  #onDrain: (() => void) | undefined
  #nextWake = -1
  journal: Journal | undefined
  /** Gets the log of every drain, where the options ask for one who listens. */
  onLog: ((records: Uint8Array) => void) | undefined
  #adminRefusal = 0
  #plans = 0
  policyName: string

  constructor(options: unknown) {
    super()
    this.options = checkOptions(options)
    const { clock, policy } = this.options
    const { instances, learned } = Instances.read((options as { cluster?: unknown }).cluster)
    this.instances = instances
    this.paired = instances.paired
    this.clock = clock
    this.models = new Names()
    this.stages = new Names()
    this.#reader = new CallReader(instances, this.stages, this.options.parameters)
    this.tenants = new Names()
    const out = new SharedArrayBuffer(OUT_HEADER + Decisions.bytesOf(OUT_DECISIONS))
    this.#out8 = new Uint8Array(out)
    this.#header32 = new Uint32Array(out, 0, OUT_HEADER / 4)
    this.#header64 = new Float64Array(out, 0, OUT_HEADER / 8)
    this.#decisions = new Decisions(out, OUT_HEADER)
    this.native = this.#create()
    this.policyName = `${policy.order} x ${policy.placement} x ${policy.binding}`
    this.#originMs = clock.now()
    this.workflows = new Workflows(this)
    this.attempts = new Attempts(this)
    this.watch = new Watch(this)
    this.#timer = new WakeTimer(clock, () => this.#wake())
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
    const { policy, parameters, lookahead, tieSeed, templates, pairs } = this.options
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
          ...(pairs !== undefined && { pairs }),
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

  readonly nowMs = (): number => this.#nowNs() / 1e6

  /** The instant of this turn, ms. */
  get tMs(): number {
    return this.#t / 1e6
  }

  /** ns since t = 0; never decreases. A reading that is no time leaves it where it is. */
  #nowNs(): number {
    const t = Math.round((this.clock.now() - this.#originMs) * 1e6)
    if (t > this.#lastNs && t < LAST_NS) this.#lastNs = t
    return this.#lastNs
  }

  /** Continues another scheduler's time: `t` is now. */
  continueAt(ns: number): void {
    this.#originMs = this.clock.now() - ns / 1e6
    this.#lastNs = ns
  }

  // --- events

  /** The instant of this turn, with room for `records` events. */
  begin(records = 1): number {
    if (!this.#scheduled) {
      this.#scheduled = true
      this.#t = this.#nowNs()
      queueMicrotask(this.#flush)
    }
    if (this.writer.free < records) this.#drain()
    return this.#t
  }

  wrote(origin: Origin): void {
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
    const took = (performance.now() - started) / 1000
    this.metrics.decision.observe(took)
    const header = this.#header32
    if (header[3] !== this.#plans) {
      this.#plans = header[3]!
      this.metrics.planDuration.observe(took)
    }
    const refusals = header[1]!
    const freed = header[2]!
    this.#nextWake = this.#header64[2]!
    if (refusals > 0) this.#refused()
    this.#base = this.writer.written
    this.#origins.length = 0
    if (made > 0) this.#dispatch(made)
    if (this.attempts.unsettled) this.attempts.settle()
    if (freed > 0) this.#release()
    this.#draining = false
    if (this.journal !== undefined || this.onLog !== undefined) this.publishLog()
    if (this.watch.breakers) this.watch.reportBreakers()
    this.arm()
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
    const d = this.#decisions
    if (made > OUT_DECISIONS) d.useCopy(this.native.decisions)
    for (let i = 0; i < made; i += 1) {
      d.go(i)
      const call = this.calls.at(d.call)
      if (call === undefined || call.generation !== d.generation) continue
      const { kind } = d
      if (kind === DECISION.lease) this.attempts.granted(call, d)
      else if (kind === DECISION.admitDecode) this.attempts.admitted(call, d.epoch, d.decode)
      else if (kind === DECISION.reject) this.attempts.rejected(call, d.rejectReason)
      else if (kind === DECISION.revoke) this.attempts.revoked(call, d.rejectReason)
    }
    d.useShared()
  }

  /** Slots return when the core has freed their workflow's records. */
  #release(): void {
    for (const slot of this.native.freed) {
      const workflow = this.workflows.table.at(slot)
      if (workflow === undefined) continue
      for (const call of workflow.calls) this.calls.release(call)
      this.workflows.table.release(workflow)
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
        this.stateOf(origin) < 0
      ) {
        fresh.push(origin)
        this.end(origin, 'refused')
        const error = new LaxityError('ERR_LAXITY_NATIVE', native.statusReasons[status] ?? `status ${status}`)
        origin.reject?.(error)
      } else if (origin instanceof Workflow && !origin.ended && status !== STALE) {
        this.emit(
          'warning',
          new LaxityError('ERR_LAXITY_NATIVE', native.statusReasons[status] ?? `status ${status}`),
        )
      }
    }
    for (const call of fresh.reverse()) this.calls.release(call)
  }

  /** The call's state in the core, or -1 where it has no record; its columns are in `callColumns`. */
  stateOf(call: CallRecord): number {
    const status = this.native.callInfo(call.slot, call.generation, this.callColumns)
    return status === 0 ? this.callColumns[CALL.state]! : -1
  }

  epochOf(call: CallRecord): number {
    return this.stateOf(call) >= 0 ? this.callColumns[CALL.epoch]! : (call.lease?.epoch ?? 0)
  }

  // --- timers

  arm(): void {
    const wake = this.#nextWake < 0 ? Number.POSITIVE_INFINITY : this.#nextWake / 1e6
    this.#timer.arm(Math.min(wake, this.workflows.sweepAt, this.#drainAt), this.nowMs)
  }

  #wake(): void {
    const now = this.nowMs()
    if (now >= this.workflows.sweepAt) this.workflows.sweep(now)
    if (now >= this.#drainAt) {
      this.#drainAt = Number.POSITIVE_INFINITY
      this.#onDrain?.()
    }
    if (this.#nextWake >= 0 && this.#nowNs() >= this.#nextWake) {
      this.writer.timer(this.begin())
      this.wrote(undefined)
      this.watch.breakers = this.watch.awake
      this.#drain()
    } else {
      this.arm()
    }
  }

  drainTimer(afterMs: number, callback: () => void): void {
    this.#drainAt = this.nowMs() + afterMs
    this.#onDrain = callback
    this.arm()
  }

  whenIdle(): Promise<void> {
    if (this.active === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  stop(): void {
    this.#timer.stop()
    this.workflows.sweepAt = this.#drainAt = Number.POSITIVE_INFINITY
    this.#nextWake = -1
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
    this.checkOpen()
    this.workflows.checkOpen(workflow)
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

    const t = this.begin(parents === undefined ? 1 : EventWriter.revealRecords(parents.length))
    const slot = this.calls.take()
    const generation = this.calls.generationOf(slot)
    const call = new CallRecord(
      slot,
      generation,
      workflow,
      workflow.calls.length,
      id,
      options.stage ?? 'default',
      t / 1e6,
    )
    this.calls.put(call)
    workflow.calls.push(call)
    if (id !== undefined) {
      workflow.ids ??= new Map()
      workflow.ids.set(id, call)
    }
    workflow.lastActiveMs = t / 1e6
    this.link(call)
    this.metrics.calls += 1
    if (parents !== undefined) for (const parent of parents) if (parent.phase !== 'ended') call.ready = false
    fields.slot = slot
    fields.generation = generation
    fields.parents = parents
    if (this.options.receipts) call.preview = preview(this.writer, this.native, t, fields)
    this.writer.reveal(t, fields)
    this.wrote(call)
    if (signal !== undefined && signal !== workflow.signal) {
      call.signal = signal
      call.onAbort = () => this.abort(call, signal.reason)
      signal.addEventListener('abort', call.onAbort)
    }
    return this.await(call) as Promise<Lease>
  }

  /** Into its workflow's list of calls that have not ended. */
  link(call: CallRecord): void {
    const { workflow } = call
    call.next = workflow.first
    if (workflow.first !== undefined) workflow.first.previous = call
    workflow.first = call
    this.active += 1
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

  await(call: CallRecord): Promise<Lease | null> {
    call.wait = new Promise<Lease | null>((resolve, reject) => {
      call.resolve = resolve
      call.reject = reject
    })
    return call.wait
  }

  /** The call is over for the facade. */
  end(call: CallRecord, outcome: string): void {
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
    if (call.preview !== undefined && call.lease !== undefined)
      this.attempts.closeReceipt(call.lease, outcome)
    if (this.active === 0 && this.#idle.length > 0 && !this.#scheduled && !this.#draining)
      for (const done of this.#idle.splice(0)) done()
  }

  abort(call: CallRecord, reason: unknown): void {
    if (call.phase === 'ended') return
    const { lease } = call
    // An attempt that waits again has an epoch that only the core knows.
    const epoch = this.epochOf(call)
    this.writer.cancel(this.begin(), call.slot, call.generation, epoch)
    this.wrote(undefined)
    const undelivered = call.resolve !== undefined
    this.end(call, 'cancelled')
    if (undelivered) {
      if (call.retrying) call.resolve?.(null)
      else call.reject?.(abortError(reason))
    }
    lease?.takeAway(abortError(reason), true)
  }

  cancelAll(reason: unknown): number {
    let count = 0
    for (const call of this.calls) {
      if (call.phase === 'ended') continue
      count += 1
      this.abort(call, reason)
    }
    return count
  }

  // --- cluster, policy, parameters: applied at once, so that a refusal has its error

  administer(write: (writer: EventWriter, t: number) => void, place: string): void {
    this.checkOpen()
    this.#drain()
    write(this.writer, this.begin())
    this.wrote(ADMIN)
    this.#adminRefusal = 0
    this.#drain()
    const status = this.#adminRefusal
    if (status === 0) return
    const code = status === BAD_STATE || status === SLOT_IN_USE ? 'ERR_LAXITY_STATE' : 'ERR_LAXITY_OPTION'
    throw new LaxityError(code, native.statusReasons[status] ?? `status ${status}`, place)
  }

  eachInstance(visit: (columns: Float64Array, at: number, slot: number) => void): void {
    const columns = new Float64Array(this.instances.list.length * INSTANCE_COLUMNS)
    const count = Math.min(this.native.instances(columns), this.instances.list.length)
    for (let slot = 0; slot < count; slot += 1) visit(columns, slot * INSTANCE_COLUMNS, slot)
  }

  // --- replaying

  /** Drains records of a log, and gives the decisions. */
  replayed(): Uint8Array {
    const made = this.native.decide()
    if (this.#header32[1]! > 0) {
      const status = this.native.refusals[1]!
      throw new LaxityError('ERR_LAXITY_LOG', native.statusReasons[status] ?? `status ${status}`)
    }
    this.#nextWake = this.#header64[2]!
    this.#plans = this.#header32[3]!
    this.#base = this.writer.written
    return made > 0 ? this.native.decisions : new Uint8Array(0)
  }

  /** The core freed some records; only now, since its last decisions may name them. */
  releaseAdopted(): void {
    if (this.#header32[2]! > 0) this.#release()
  }

  /** The instant that leases made by a replay carry. */
  replayAt(ns: number): void {
    this.#t = ns
  }

  // ---

  /** What a call that is not revealed would meet. */
  estimate(
    workflow: Workflow | undefined,
    options: CallOptions,
  ): { instance: string | undefined; candidates: Candidate[] } {
    this.#drain()
    const fields = this.#reader.read(workflow, options)
    const answer = preview(this.writer, this.native, this.#nowNs(), fields)
    return {
      instance: this.instances.list[answer[1]!]?.id,
      candidates: candidatesOf(answer, this.instances),
    }
  }

  checkOpen(): void {
    if (this.closing) throw new LaxityError('ERR_LAXITY_CLOSED', 'The scheduler is closed')
  }
}
