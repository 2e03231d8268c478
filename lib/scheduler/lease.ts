import { expected, LaxityError, quote } from '../errors.ts'
import type { Attempts } from './attempts.ts'
import type { CallRecord } from './call.ts'
import type { EnginePriority } from './check-instance.ts'
import type { InstanceEntry } from './instances.ts'
import { classify, type Outcome } from './outcome.ts'
import type { Receipt } from './receipt.ts'
import type { Workflow } from './workflow.ts'

const MAX_TOKENS = 100_000_000

/**
 * Why a call was leased where it was; of several that hold, the first of these. `probe`: whether an instance has recovered.
 * `panic`: its breaker is open, and passed over. `lookahead`: behind a prefill that runs. `only-feasible` (unified clusters):
 * no other instance that takes calls could serve it. `affinity`: the best score, where its prefix is said to be cached.
 * `best-score`: none of these. On pairs, either leg's probe or panic. `fallback`: in front of an asynchronous plan, which only
 * simulations have. `none`: not known.
 */
export type LeaseReason = (typeof REASONS)[number]

/** `LeaseReason` of native/scheduler/events.h. */
export const REASONS = [
  'none',
  'only-feasible',
  'best-score',
  'lookahead',
  'probe',
  'panic',
  'affinity',
  'fallback',
] as const

/**
 * Leave to send one attempt of a call to one instance; on a prefill-decode cluster to a pair of them. It closes exactly
 * once, by `done`, `failed` or `cancel`; what comes later is ignored and counted.
 *
 * A pair: send the prompt to `prefillUrl`, tell `firstToken()`, await `admitted()` for the decode instance (it may be
 * another than `decode` said), and tell `transferDone()` when the KV is there, at its first chunk at the latest.
 */
export class Lease {
  readonly #attempts: Attempts
  readonly #call: CallRecord
  readonly #instance: InstanceEntry
  /** Undefined on unified instances. */
  #decode: InstanceEntry | undefined
  #admittedOn: InstanceEntry | undefined
  #admission:
    | { promise: Promise<string>; resolve(id: string): void; reject(error: unknown): void }
    | undefined
  #transferred = false
  readonly #enginePriority: number
  /** Attempt of the call, from 0. */
  readonly epoch: number
  readonly reason: LeaseReason
  /** It goes on where another of the same attempt failed: the KV of the prompt is on `prefill` already. */
  readonly resumed: boolean
  /** ms of the scheduler's clock. */
  readonly grantedAtMs: number
  /** What the decision was made of; only with `receipts: true`. */
  receipt: Receipt | undefined
  #closed = false
  #controller: AbortController | undefined
  #takenAway: { reason: unknown } | undefined

  /** @internal */
  constructor(
    attempts: Attempts,
    call: CallRecord,
    instance: InstanceEntry,
    decode: InstanceEntry | undefined,
    epoch: number,
    reason: LeaseReason,
    enginePriority: number,
    grantedAtMs: number,
    resumed: boolean,
  ) {
    this.#attempts = attempts
    this.#call = call
    this.#instance = instance
    this.#decode = decode
    this.resumed = resumed
    this.epoch = epoch
    this.reason = reason
    this.#enginePriority = enginePriority
    this.grantedAtMs = grantedAtMs
  }

  /** The call's id. */
  get id(): string {
    return this.#call.id
  }

  get workflowId(): string {
    return this.#call.workflow.id
  }

  /** The instance's id; of a pair the one that prefills. */
  get instance(): string {
    return this.#instance.id
  }

  get url(): string | undefined {
    return this.#instance.url
  }

  /** The same as `instance`. */
  get prefill(): string {
    return this.#instance.id
  }

  get prefillUrl(): string | undefined {
    return this.#instance.url
  }

  /** The instance that decodes, as far as it is decided: `admitted` says which in the end. Unified: `instance`. */
  get decode(): string {
    return (this.#decode ?? this.#instance).id
  }

  get decodeUrl(): string | undefined {
    return (this.#decode ?? this.#instance).url
  }

  /** Whether prefill and decode run on two instances. */
  get paired(): boolean {
    return this.#decode !== undefined
  }

  /** The data-parallel rank behind `url`; undefined where the instance is not one. */
  get rank(): number | undefined {
    return this.#instance.given.rank
  }

  /** The same behind `decodeUrl`. */
  get decodeRank(): number | undefined {
    return (this.#decode ?? this.#instance).given.rank
  }

  /** For the engine's own static queue, in the engine's polarity and range; undefined unless the instance takes one. */
  get priority(): number | undefined {
    return priorityOf(this.#instance.priority, this.#enginePriority)
  }

  /** The same of the instance that decodes. */
  get decodePriority(): number | undefined {
    return priorityOf((this.#decode ?? this.#instance).priority, this.#enginePriority)
  }

  /** True once it was closed or lost. */
  get closed(): boolean {
    return this.#closed
  }

  /** Aborts when the lease is taken away: cancelled by the workflow's signal or end, lost with its instance, or silent for its TTL. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#takenAway !== undefined) this.#controller.abort(this.#takenAway.reason)
    }
    return this.#controller.signal
  }

  /** The first token, or anything that proves that the prefill is over. Later ones only prove that the lease is alive. */
  firstToken(): void {
    if (this.#closed) return
    this.#attempts.firstToken(this.#call, this)
  }

  /** A sign of life: restarts the lease's TTL. With tokens, it is also proof of whatever comes before them. */
  progress(tokens = 0): void {
    if (this.#closed) return
    whole(tokens, 'tokens')
    this.#attempts.progress(this.#call, this, tokens)
  }

  /**
   * Resolves with the id of the instance that decodes, when the call has room there (then `decode` and `decodeUrl` say
   * the same): at once on unified instances, and where engines admit by themselves. Rejects when the lease ends before.
   *
   * @throws (rejects) LaxityError ERR_LAXITY_LOST, _STATE, or why the lease was taken away
   */
  admitted(): Promise<string> {
    if (this.#decode === undefined) return Promise.resolve(this.#instance.id)
    if (this.#admittedOn !== undefined) return Promise.resolve(this.#admittedOn.id)
    if (this.#takenAway !== undefined) return Promise.reject(this.#takenAway.reason)
    if (this.#closed) return Promise.reject(this.#overError())
    if (this.#admission === undefined) {
      let resolve!: (id: string) => void
      let reject!: (error: unknown) => void
      const promise = new Promise<string>((a, b) => {
        resolve = a
        reject = b
      })
      promise.catch(() => {}) // whoever asked and went away need not hear of it
      this.#admission = { promise, resolve, reject }
    }
    return this.#admission.promise
  }

  /** The KV has reached the decode instance, so its room on the other is free. Nothing to do on unified instances. */
  transferDone(): void {
    if (this.#closed || this.#transferred || this.#decode === undefined) return
    this.#transferred = true
    this.#attempts.transferDone(this.#call, this)
  }

  /**
   * The call is finished. `outputTokens`: length of its output (of one of its sequences, for n > 1); left out or 0 where
   * it is not known. False where the lease was closed before.
   *
   * @throws LaxityError ERR_LAXITY_FIELD
   */
  done(result?: { outputTokens?: number | undefined }): boolean {
    if (result !== undefined && (typeof result !== 'object' || result === null))
      throw new LaxityError('ERR_LAXITY_FIELD', expected('{ outputTokens }', 'result', result), 'result')
    const tokens = result?.outputTokens === undefined ? 0 : result.outputTokens
    whole(tokens, 'outputTokens')
    if (!this.#close()) return false
    this.#attempts.finished(this.#call, this, tokens)
    return true
  }

  /** Nobody wants the answer any more. False where the lease was closed before. */
  cancel(): boolean {
    if (!this.#close()) return false
    this.#attempts.cancelled(this.#call, this)
    return true
  }

  /**
   * The attempt failed. The lease of the next attempt, or null where there is none: the client's own error, bytes that
   * already reached the client, two retries made, the retry budget spent, a workflow that ended.
   * A lease that was closed before gives null; one that was lost with its instance, or taken back, the attempt that
   * replaces it. Where leg d or the link of a pair failed and the KV is still on p (`kvOnPrefill`), the same attempt may
   * go on elsewhere: then the lease is `resumed`.
   *
   * @throws LaxityError ERR_LAXITY_FIELD
   */
  failed(outcome: Outcome): Promise<Lease | null> {
    const kind = classify(outcome)
    if (kind === 'ok')
      throw new LaxityError('ERR_LAXITY_FIELD', 'Expected a failure, got an ok outcome', 'outcome')
    if (kind === 'cancelled') {
      this.cancel()
      return Promise.resolve(null)
    }
    if (!this.#close()) return Promise.resolve(null)
    return this.#attempts.failed(this.#call, this, kind, outcome)
  }

  /** Closes it as cancelled unless it was closed before: `using lease = await workflow.call(…)`. */
  [Symbol.dispose](): void {
    if (!this.#closed) this.cancel()
  }

  /** @internal */
  takeAway(reason: unknown, closed: boolean): void {
    if (closed) this.#closed = true
    this.#takenAway ??= { reason }
    this.#controller?.abort(reason)
    this.#admission?.reject(reason)
  }

  /** @internal Room on a decode instance. */
  admit(decode: InstanceEntry): void {
    this.#decode = this.#admittedOn = decode
    this.#admission?.resolve(decode.id)
  }

  /** @internal Its call, if it is one of that workflow. */
  callOf(workflow: Workflow): CallRecord | undefined {
    return this.#call.workflow === workflow ? this.#call : undefined
  }

  /** @internal */
  get admittedOn(): InstanceEntry | undefined {
    return this.#admittedOn
  }

  /** @internal */
  get prefillEntry(): InstanceEntry {
    return this.#instance
  }

  /** @internal */
  get decodeEntry(): InstanceEntry {
    return this.#decode ?? this.#instance
  }

  /** @internal */
  get rawPriority(): number {
    return this.#enginePriority
  }

  /** @internal */
  get slot(): number {
    return this.#instance.slot
  }

  #close(): boolean {
    if (this.#closed) {
      this.#attempts.doubleClose()
      return false
    }
    this.#closed = true
    this.#admission?.reject(this.#overError())
    return true
  }

  #overError(): LaxityError {
    return new LaxityError('ERR_LAXITY_STATE', `The lease of call ${quote(this.id)} is closed`)
  }
}

function priorityOf(priority: EnginePriority | undefined, urgency: number): number | undefined {
  if (priority === undefined) return undefined
  const value = Math.round((priority.sign * urgency) / (priority.divideBy ?? 1))
  return Math.min(Math.max(value, priority.min ?? -0x8000_0000), priority.max ?? 0x7fff_ffff) + 0
}

function whole(value: unknown, field: string): void {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > MAX_TOKENS)
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`a whole number from 0 to ${MAX_TOKENS}`, field, value),
      field,
    )
}
