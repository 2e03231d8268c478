import { expected, LaxityError } from '../errors.ts'
import type { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import type { InstanceEntry } from './instances.ts'
import { checkOutcome, classify, type Outcome } from './outcome.ts'
import type { Receipt } from './receipt.ts'

const MAX_TOKENS = 100_000_000

export type LeaseReason = 'none' | 'only-feasible' | 'best-score' | 'lookahead' | 'probe'

/**
 * Leave to send one attempt of a call to one instance. It closes exactly once, by `done`, `failed` or `cancel`; what
 * comes later is ignored and counted.
 */
export class Lease {
  readonly #core: Core
  readonly #call: CallRecord
  readonly #instance: InstanceEntry
  readonly #enginePriority: number
  /** Attempt of the call, from 0. */
  readonly epoch: number
  readonly reason: LeaseReason
  /** ms of the scheduler's clock. */
  readonly grantedAtMs: number
  /** What the decision was made of; only with `receipts: true`. */
  receipt: Receipt | undefined
  #closed = false
  #controller: AbortController | undefined
  #takenAway: { reason: unknown } | undefined

  /** @internal */
  constructor(
    core: Core,
    call: CallRecord,
    instance: InstanceEntry,
    epoch: number,
    reason: LeaseReason,
    enginePriority: number,
    grantedAtMs: number,
  ) {
    this.#core = core
    this.#call = call
    this.#instance = instance
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

  /** The instance's id. */
  get instance(): string {
    return this.#instance.id
  }

  /** On unified instances the same as `instance`. */
  get prefill(): string {
    return this.#instance.id
  }

  /** On unified instances the same as `instance`. */
  get decode(): string {
    return this.#instance.id
  }

  get url(): string | undefined {
    return this.#instance.url
  }

  /** For the engine's own static queue, in the engine's polarity and range; undefined unless the instance takes one. */
  get priority(): number | undefined {
    const { priority } = this.#instance
    if (priority === undefined) return undefined
    const value = Math.round((priority.sign * this.#enginePriority) / (priority.divideBy ?? 1))
    return Math.min(Math.max(value, priority.min ?? -0x8000_0000), priority.max ?? 0x7fff_ffff) + 0
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
    this.#core.firstToken(this.#call, this)
  }

  /** A sign of life: restarts the lease's TTL. */
  progress(tokens = 0): void {
    if (this.#closed) return
    whole(tokens, 'tokens')
    this.#core.progress(this.#call, this, tokens)
  }

  /** The instance that decodes; on unified instances at once. */
  admitted(): Promise<string> {
    return Promise.resolve(this.#instance.id)
  }

  /** Nothing to do on unified instances. */
  transferDone(): void {}

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
    this.#core.finished(this.#call, this, tokens)
    return true
  }

  /** Nobody wants the answer any more. False where the lease was closed before. */
  cancel(): boolean {
    if (!this.#close()) return false
    this.#core.cancelled(this.#call, this)
    return true
  }

  /**
   * The attempt failed. The lease of the next attempt, or null where there is none: the client's own error, bytes that
   * already reached the client, two retries made, the retry budget spent, a workflow that ended.
   * A lease that was closed before gives null; one that was lost with its instance, the attempt that replaces it.
   *
   * @throws LaxityError ERR_LAXITY_FIELD
   */
  failed(outcome: Outcome): Promise<Lease | null> {
    checkOutcome(outcome)
    const kind = classify(outcome)
    if (kind === 'ok')
      throw new LaxityError('ERR_LAXITY_FIELD', 'Expected a failure, got an ok outcome', 'outcome')
    if (kind === 'cancelled') {
      this.cancel()
      return Promise.resolve(null)
    }
    if (!this.#close()) return Promise.resolve(null)
    return this.#core.failed(this.#call, this, kind, outcome.clientBytes ?? 0, outcome.retryAfterMs ?? 0)
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
  }

  /** @internal */
  get slot(): number {
    return this.#instance.slot
  }

  #close(): boolean {
    if (this.#closed) {
      this.#core.metrics.doubleCloses += 1
      return false
    }
    this.#closed = true
    return true
  }
}

function whole(value: unknown, field: string): void {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > MAX_TOKENS)
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected(`a whole number from 0 to ${MAX_TOKENS}`, field, value),
      field,
    )
}
