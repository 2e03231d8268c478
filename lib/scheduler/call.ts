import type { InstanceEntry } from './instances.ts'
import type { Lease } from './lease.ts'
import type { Workflow } from './workflow.ts'

/** Where the facade's promise of a call stands; the core's state is another, and the one that decides. */
export type Phase = 'waiting' | 'leased' | 'ended'

/** A call's names and promises. */
export class CallRecord {
  readonly slot: number
  readonly generation: number
  readonly workflow: Workflow
  readonly index: number
  readonly givenId: string | undefined
  readonly stage: string
  readonly revealedAtMs: number
  phase: Phase = 'waiting'
  /** Was ready when it was revealed, so that its wait is a wait for a lease. */
  ready = true
  /** The lease was handed to somebody; one that replaces a lost lease waits here until it is asked for. */
  claimed = false
  /** The lease that is waited for: null only from `failed`. */
  wait: Promise<Lease | null> | undefined
  resolve: ((lease: Lease | null) => void) | undefined
  reject: ((error: unknown) => void) | undefined
  /** `wait` belongs to `failed`, so its end without a lease is null, not an error. */
  retrying = false
  /** Done while it waited again after its instance was lost: to be finished with its next lease. */
  finishTokens = -1
  /** Leg d failed and it got room elsewhere, before the lease that goes on was made. */
  readmitted: InstanceEntry | undefined
  /** Its workflow's list of calls that have not ended. */
  previous: CallRecord | undefined
  next: CallRecord | undefined
  signal: AbortSignal | undefined
  onAbort: (() => void) | undefined
  preview: Float64Array | undefined
  #held: Lease | undefined
  #weak: WeakRef<Lease> | undefined

  constructor(
    slot: number,
    generation: number,
    workflow: Workflow,
    index: number,
    givenId: string | undefined,
    stage: string,
    revealedAtMs: number,
  ) {
    this.slot = slot
    this.generation = generation
    this.workflow = workflow
    this.index = index
    this.givenId = givenId
    this.stage = stage
    this.revealedAtMs = revealedAtMs
  }

  /** The latest that was granted; undefined once it was collected. */
  get lease(): Lease | undefined {
    return this.#held ?? this.#weak?.deref()
  }

  set lease(lease: Lease | undefined) {
    this.#held = lease
    this.#weak = undefined
  }

  /** From now on only its holder keeps the lease alive. */
  weaken(): void {
    if (this.#held === undefined) return
    this.#weak = new WeakRef(this.#held)
    this.#held = undefined
  }

  get id(): string {
    return this.givenId ?? `#${this.index}`
  }
}
