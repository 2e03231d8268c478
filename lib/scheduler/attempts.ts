import { LaxityError, quote } from '../errors.ts'
import type { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import { type Decisions, REVOKED } from './decisions.ts'
import type { InstanceEntry } from './instances.ts'
import { Lease, type LeaseReason, REASONS } from './lease.ts'
import { LEGS, type Outcome } from './outcome.ts'
import { closeReceipt, noteFirstToken, openReceipt } from './receipts.ts'
import { REJECT_REASONS, RejectionError } from './rejection.ts'
import { CALL, FIRST_LEASED, FIRST_TERMINAL } from './snapshot.ts'

const FAILURES = { client_error: 0, backpressure: 1, fault: 2 } as const

/**
 * Leases: what the core decides of them, and what their holders report. A lease that the core took back stays with its
 * holder until he asks for the one that replaces it (`failed`); a call whose lease nobody holds goes on all the same.
 */
export class Attempts {
  readonly #core: Core
  /** Attempts that were reported as failed, or taken back: does the call go on? */
  readonly #open: { call: CallRecord; lease: Lease }[] = []

  constructor(core: Core) {
    this.#core = core
  }

  // --- what the core decided

  granted(call: CallRecord, d: Decisions): void {
    const core = this.#core
    const { epoch, decode } = d
    const lease = this.#make(
      call,
      core.instances.list[d.instance]!,
      core.paired ? core.instances.list[decode] : undefined,
      epoch,
      REASONS[d.leaseReason] ?? 'none',
      d.enginePriority,
      false,
    )
    const old = call.lease
    call.lease = lease
    core.metrics.leased(core.policyName, lease.reason)
    core.metrics.predictedTtft.observe(core.native.predictedTtftMs(call.slot) / 1000)
    if (call.phase === 'ended') {
      // Its answer came from an instance that was given up, or it was cancelled meanwhile.
      const t = core.begin()
      if (call.finishTokens >= 0)
        core.writer.finished(t, call.slot, call.generation, epoch, call.finishTokens)
      else core.writer.cancel(t, call.slot, call.generation, epoch)
      core.wrote(undefined)
      return
    }
    if (epoch > 0) core.metrics.retries += 1
    else if (call.ready) core.metrics.queueWait.observe((core.tMs - call.revealedAtMs) / 1000)
    if (old !== undefined && !old.closed) old.takeAway(lostWith(old.instance), false)
    if (call.preview !== undefined) {
      core.stateOf(call)
      lease.receipt = openReceipt(call, lease, core.callColumns, {
        policy: core.policyName,
        tieSeed: core.options.tieSeed,
        instances: core.instances,
      })
    }
    this.#hand(call, lease)
  }

  /** Room on a decode instance: of the present lease, of one that goes on elsewhere, or of one that is being replaced. */
  admitted(call: CallRecord, epoch: number, decode: number): void {
    const core = this.#core
    const entry = core.instances.list[decode]!
    const { lease } = call
    if (lease === undefined || lease.epoch !== epoch || call.phase === 'ended') return
    if (call.phase === 'waiting') {
      call.readmitted = entry // `settle` makes the lease that goes on
    } else if (lease.admittedOn === undefined) {
      if (core.options.durable) core.journal!.afterSync(() => lease.admit(entry))
      else lease.admit(entry)
    } else if (lease.admittedOn !== entry) {
      call.lease = this.#resumed(call, lease, entry, true)
      call.claimed = false
      lease.takeAway(lostWith(lease.decode), false)
    }
  }

  revoked(call: CallRecord, reason: number): void {
    if (reason === REVOKED.lost) this.#lost(call)
    else this.#takenBack(call, reason)
  }

  rejected(call: CallRecord, reason: number): void {
    const core = this.#core
    if (call.phase === 'ended') return
    const { code, message, name, retry } = REJECT_REASONS[reason] ?? REJECT_REASONS[0]!
    core.end(call, 'rejected')
    core.metrics.count(core.metrics.rejections, name)
    const error = new RejectionError(code, message, retry ? core.watch.retryAfterMs(core.tMs) : undefined)
    call.lease?.takeAway(error, true)
    if (call.retrying) call.resolve?.(null)
    else call.reject?.(error)
  }

  /** After the decisions of a decide were handed out. */
  settle(): void {
    const core = this.#core
    for (const { call, lease } of this.#open.splice(0)) {
      const state = core.stateOf(call)
      // Granted again in the same instant, or over for another reason.
      if (call.phase === 'ended' || call.lease !== lease) continue
      if (state >= FIRST_LEASED && state < FIRST_TERMINAL && core.callColumns[CALL.epoch] === lease.epoch) {
        this.#resume(call, lease)
        continue
      }
      if (state >= 0 && state < FIRST_TERMINAL) continue
      core.metrics.retriesExhausted += 1
      core.end(call, 'failed')
      call.resolve?.(null)
    }
  }

  get unsettled(): boolean {
    return this.#open.length > 0
  }

  /** Leases that went with an instance, as the core has them now. */
  lostWith(instance: string): void {
    const core = this.#core
    for (const call of core.calls) {
      const { lease } = call
      if (call.phase !== 'leased' || lease === undefined || lease.closed) continue
      if (lease.instance !== instance && lease.decode !== instance) continue
      if (core.stateOf(call) >= FIRST_LEASED && core.callColumns[CALL.epoch] === lease.epoch) continue
      call.phase = 'waiting'
      call.retrying = true
      this.#open.push({ call, lease }) // a call of an ended workflow is over with its lease
      lease.takeAway(lostWith(instance), false)
    }
    this.settle()
  }

  // --- what holders report

  firstToken(call: CallRecord, lease: Lease): void {
    const core = this.#core
    core.writer.firstToken(core.begin(), call.slot, call.generation, lease.epoch)
    core.wrote(undefined)
    noteFirstToken(lease, core.tMs)
    core.metrics.ttft.observe((core.tMs - lease.grantedAtMs) / 1000)
  }

  transferDone(call: CallRecord, lease: Lease): void {
    const core = this.#core
    core.writer.transferDone(core.begin(), call.slot, call.generation, lease.epoch)
    core.wrote(undefined)
  }

  progress(call: CallRecord, lease: Lease, tokens: number): void {
    const core = this.#core
    core.writer.progress(core.begin(), call.slot, call.generation, lease.epoch, tokens)
    core.wrote(undefined)
  }

  finished(call: CallRecord, lease: Lease, outputTokens: number): void {
    const core = this.#core
    const t = core.begin()
    if (call.lease === lease) {
      core.writer.finished(t, call.slot, call.generation, lease.epoch, outputTokens)
      core.wrote(undefined)
      call.workflow.lastInstance = lease.slot
      if (outputTokens > 1) core.metrics.tpot.observe((t / 1e6 - lease.grantedAtMs) / 1000 / outputTokens)
    }
    // Should the core have taken this lease back, the answer still counts: the attempt that replaces it is finished too.
    call.finishTokens = outputTokens
    if (call.lease !== lease && call.phase === 'leased') {
      core.writer.finished(t, call.slot, call.generation, call.lease!.epoch, outputTokens)
      core.wrote(undefined)
    }
    call.workflow.lastActiveMs = t / 1e6
    core.watch.afterOk()
    core.end(call, 'ok')
  }

  cancelled(call: CallRecord, lease: Lease): void {
    const core = this.#core
    const epoch = call.phase === 'waiting' ? core.epochOf(call) : (call.lease?.epoch ?? lease.epoch)
    core.writer.cancel(core.begin(), call.slot, call.generation, epoch)
    core.wrote(undefined)
    core.end(call, 'cancelled')
  }

  failed(
    call: CallRecord,
    lease: Lease,
    kind: keyof typeof FAILURES,
    { leg = 'prefill', kvOnPrefill = false, clientBytes = 0, retryAfterMs = 0 }: Outcome,
  ): Promise<Lease | null> {
    const core = this.#core
    core.metrics.count(core.metrics.outcomes, kind)
    if (call.phase === 'ended') return Promise.resolve(null)
    if (call.lease !== lease) {
      // It was lost with its instance, or taken back, and has been replaced or will be.
      if (call.phase === 'leased' && !call.claimed) {
        call.claimed = true
        return Promise.resolve(call.lease!)
      }
      return call.wait ?? Promise.resolve(null)
    }
    if (call.phase === 'waiting') {
      // The core knows: its instance was lost, or the lease was taken back.
      call.retrying = true
      return call.wait ?? core.await(call)
    }
    core.writer.failed(core.begin(), call.slot, call.generation, lease.epoch, {
      failure: FAILURES[kind],
      leg: core.paired ? 1 + LEGS.indexOf(leg) : 0,
      kvOnPrefill: kvOnPrefill && leg !== 'prefill',
      clientBytes,
      retryAfterNs: Math.round(retryAfterMs * 1e6),
    })
    core.wrote(undefined)
    core.watch.afterFailure()
    if (lease.receipt !== undefined) this.closeReceipt(lease, kind)
    call.phase = 'waiting'
    call.retrying = true
    this.#open.push({ call, lease })
    return core.await(call)
  }

  doubleClose(): void {
    this.#core.metrics.doubleCloses += 1
  }

  /** A lease that a log granted. */
  adopt(call: CallRecord, d: Decisions): void {
    const { list } = this.#core.instances
    const p = list[d.instance]
    if (p === undefined) return
    const decode = this.#core.paired ? list[d.decode] : undefined
    call.lease = this.#make(
      call,
      p,
      decode,
      d.epoch,
      REASONS[d.leaseReason] ?? 'none',
      d.enginePriority,
      false,
    )
  }

  /** Its room on a decode instance, from the log. */
  adoptRoom(call: CallRecord, d: Decisions): void {
    const entry = this.#core.instances.list[d.decode]
    if (entry === undefined || call.lease?.epoch !== d.epoch) return
    if (call.lease.admittedOn === undefined || call.lease.admittedOn === entry) call.lease.admit(entry)
    else call.lease = this.#resumed(call, call.lease, entry, true)
  }

  closeReceipt(lease: Lease, outcome: string): void {
    const { receipt } = lease
    if (receipt === undefined || receipt.actual !== undefined) return
    closeReceipt(lease, receipt, this.#core.tMs, outcome)
    this.#core.options.onReceipt?.(receipt)
  }

  // ---

  #make(
    call: CallRecord,
    instance: InstanceEntry,
    decode: InstanceEntry | undefined,
    epoch: number,
    reason: LeaseReason,
    enginePriority: number,
    resumed: boolean,
  ): Lease {
    const core = this.#core
    const lease = new Lease(this, call, instance, decode, epoch, reason, enginePriority, core.tMs, resumed)
    if (decode !== undefined && core.options.pairs?.decodeAdmission === 'engine') lease.admit(decode)
    return lease
  }

  /** To whoever waits for it, else it stays with the call until `failed` asks. */
  #hand(call: CallRecord, lease: Lease): void {
    const core = this.#core
    call.phase = 'leased'
    const { resolve } = call
    call.claimed = resolve !== undefined
    if (resolve === undefined) return
    call.resolve = call.reject = undefined
    if (core.options.durable) {
      core.journal!.afterSync(() => {
        if (call.wait !== undefined && call.lease === lease) call.wait = undefined
        resolve(lease)
        core.watch.leased(call, lease)
      })
    } else {
      call.wait = undefined
      resolve(lease)
      core.watch.leased(call, lease)
    }
  }

  /** Leg d or the link failed, and the same attempt goes on from the KV on p. */
  #resume(call: CallRecord, lease: Lease): void {
    const core = this.#core
    const entry = core.instances.list[core.callColumns[CALL.decode]!]!
    const next = this.#resumed(call, lease, entry, call.readmitted === entry)
    call.readmitted = undefined
    call.lease = next
    core.metrics.retries += 1
    this.#hand(call, next)
  }

  #resumed(call: CallRecord, lease: Lease, decode: InstanceEntry, admitted: boolean): Lease {
    const { prefillEntry: p, epoch, reason, rawPriority } = lease
    const next = this.#make(call, p, decode, epoch, reason, rawPriority, true)
    if (admitted) next.admit(decode)
    return next
  }

  /** The call waits again; whoever holds the lease learns it from its signal. */
  #takenBack(call: CallRecord, reason: number): void {
    const { lease } = call
    if (call.phase !== 'leased' || lease === undefined) return
    call.phase = 'waiting'
    call.retrying = true
    this.#open.push({ call, lease })
    const why =
      reason === REVOKED.kvExpired
        ? `The KV of call ${quote(call.id)} waited too long on ${quote(lease.prefill)} for room to decode`
        : `The lease of call ${quote(call.id)} on ${quote(lease.instance)} was taken back`
    lease.takeAway(new LaxityError('ERR_LAXITY_LOST', why), false)
  }

  #lost(call: CallRecord): void {
    const core = this.#core
    core.metrics.lost += 1
    const { lease } = call
    if (call.phase === 'ended') return
    core.end(call, 'lost')
    const message = `The lease of call ${quote(call.id)} gave no sign of life for its TTL`
    lease?.takeAway(new LaxityError('ERR_LAXITY_LOST', message), true)
    call.resolve?.(null)
    core.emit('lost', { call: call.id, workflow: call.workflow.id, instance: lease?.instance })
  }
}

function lostWith(instance: string): LaxityError {
  return new LaxityError('ERR_LAXITY_LOST', `Instance ${quote(instance)} was lost`)
}
