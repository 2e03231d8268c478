import { describe, expected, LaxityError, quote } from '../errors.ts'
import type { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import { Lease } from './lease.ts'
import type { Remaining } from './remaining.ts'

export interface WorkflowOptions {
  /** Left out: generated. An id that is open already gives that workflow. At most 256 characters. */
  id?: string | undefined
  tenant?: string | undefined
  /** Deadline, from now. */
  sloMs?: number | undefined
  /** Name of one of the scheduler's `templates`. */
  template?: string | undefined
  /** Of the part not yet revealed. */
  remaining?: Remaining | undefined
  /**
   * The standalone time of the whole workflow by a predictor, ms: any, since the scheduler learns how far it is off and counts a
   * lower quantile (docs/horizon.md).
   */
  predictedMs?: number | undefined
  /** Cancels every call of the workflow and ends it. One listener, however many calls. */
  signal?: AbortSignal | undefined
}

export interface WorkflowChange {
  sloMs?: number | null | undefined
  remaining?: Remaining | undefined
  predictedMs?: number | undefined
}

export interface CallOptions {
  /** Idempotency key inside the workflow: the same id gives the same call. Left out: generated. */
  id?: string | undefined
  /** What kind of call it is (planner, reviser, …): lengths are learned per stage. */
  stage?: string | undefined
  /** A model or one of its adapters; may be left out where the cluster serves one model. */
  model?: string | undefined
  promptTokens: number
  /** Expected output, mean, of one sequence. Left out: learned per stage. */
  outputTokens?: number | undefined
  /** A high quantile of it. */
  highOutputTokens?: number | undefined
  /** The request's max_tokens: a bound of the learned prediction. */
  maxOutputTokens?: number | undefined
  /** Ids or leases of the calls it follows; left out: all finished calls without a finished child (CONTRACT 3). */
  parents?: readonly (string | Lease)[] | undefined
  /** Tokens of the prompt that an instance has cached: by instance id (the two largest count), or a number for where the workflow's last call ran. */
  cachedTokens?: number | Readonly<Record<string, number>> | undefined
  /** Parallel samples (n): so many sequences and outputs. */
  n?: number | undefined
  /** False: the first token cannot be seen. */
  stream?: boolean | undefined
  /** Of what the workflow needs after this call. */
  remaining?: Remaining | undefined
  /** Cancels this call, waiting or leased. The workflow's own signal needs no second listener. */
  signal?: AbortSignal | undefined
}

/** A graph of dependent calls that is revealed as it runs. */
export class Workflow {
  readonly #core: Core
  readonly id: string
  readonly tenant: string
  readonly arrivedAtMs: number
  /** @internal */
  readonly slot: number
  /** @internal */
  readonly generation: number
  /** @internal */
  readonly named: boolean
  /** @internal every call, in order of reveal */
  readonly calls: CallRecord[] = []
  /** @internal */
  ids: Map<string, CallRecord> | undefined
  /** @internal head of the calls that have not ended */
  first: CallRecord | undefined
  /** @internal slot of the instance where a call of it finished last, -1 = nowhere */
  lastInstance = -1
  /** @internal */
  lastActiveMs: number
  /** @internal */
  deadlineMs: number
  /** @internal */
  ended = false
  readonly #signal: AbortSignal | undefined
  readonly #onAbort: (() => void) | undefined

  /** @internal */
  constructor(
    core: Core,
    id: string,
    named: boolean,
    tenant: string,
    slot: number,
    generation: number,
    nowMs: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ) {
    this.#core = core
    this.id = id
    this.named = named
    this.tenant = tenant
    this.slot = slot
    this.generation = generation
    this.arrivedAtMs = this.lastActiveMs = nowMs
    this.deadlineMs = deadlineMs
    this.#signal = signal
    if (signal !== undefined) {
      this.#onAbort = () => this.#core.workflows.abort(this, signal.reason)
      signal.addEventListener('abort', this.#onAbort)
    }
  }

  /** The workflow's own signal. */
  get signal(): AbortSignal | undefined {
    return this.#signal
  }

  get closed(): boolean {
    return this.ended
  }

  /**
   * Reveals a call and resolves with its lease: on which instance to run it, and when (now). All calls of one turn of the
   * event loop are one instant.
   *
   * @throws (rejects) LaxityError ERR_LAXITY_FIELD, _PARENT (unknown), _DUPLICATE (an id whose call has ended),
   * _CLOSED, _ABORTED (a signal), _NEVER_FITS, _NO_INSTANCE, _QUEUE_FULL, _QUEUE_TIMEOUT, _DEADLINE; the last three carry
   * `retryAfterMs`.
   */
  call(options: CallOptions): Promise<Lease> {
    return this.#core.call(this, options)
  }

  /** Another deadline (`sloMs` from now; null = none), another remaining time, or another prediction of the whole. */
  update(change: WorkflowChange): void {
    this.#core.workflows.update(this, change)
  }

  /** No more calls. What waits is cancelled, what is leased still ends on its own. A second end does nothing. */
  end(): void {
    this.#core.workflows.end(this)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end()
  }

  /** @internal The call with this id: a given one, or `#n`. */
  find(id: string): CallRecord | undefined {
    const given = this.ids?.get(id)
    if (given !== undefined) return given
    if (!/^#\d{1,9}$/.test(id)) return undefined
    const call = this.calls[Number(id.slice(1))]
    return call?.givenId === undefined ? call : undefined
  }

  /** @internal */
  parentsOf(parents: readonly (string | Lease)[]): CallRecord[] {
    if (!Array.isArray(parents))
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('a list of ids or leases', 'parents', parents),
        'parents',
      )
    return parents.map((parent: unknown, i) => {
      const field = `parents[${i}]`
      if (typeof parent !== 'string' && !(parent instanceof Lease))
        throw new LaxityError('ERR_LAXITY_FIELD', expected('an id or a lease', field, parent), field)
      const id = typeof parent === 'string' ? parent : parent.workflowId === this.id ? parent.id : undefined
      const call = id === undefined ? undefined : this.find(id)
      if (call !== undefined) return call
      const name = typeof parent === 'string' ? quote(parent) : describe(parent)
      throw new LaxityError('ERR_LAXITY_PARENT', `No call ${name} in workflow ${quote(this.id)}`, field)
    })
  }

  /** @internal */
  forgetSignal(): void {
    if (this.#onAbort !== undefined) this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}
