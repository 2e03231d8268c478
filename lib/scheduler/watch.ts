import type { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import type { Lease } from './lease.ts'

const BREAKERS = ['closed', 'open', 'half-open'] as const
const UP = 1
const OPEN = 1
/** Call sites are taken of one lease in so many. */
const SAMPLED = 16

/** What is looked at beside the decisions: breakers that move, leases that leak, how long a queue is likely to take. */
export class Watch {
  readonly #core: Core
  /** Breakers are to be looked at after the next decide. */
  breakers = false
  /** Some breaker was not closed when last looked at. */
  awake = false
  readonly #states: number[] = []
  #panic = false
  #retryAfter = { t: -1, ms: 0 }
  #sample = 0
  readonly #leaks:
    | FinalizationRegistry<{ call: CallRecord; epoch: number; site: string | undefined }>
    | undefined

  constructor(core: Core) {
    this.#core = core
    if (core.options.detectLeaks)
      this.#leaks = new FinalizationRegistry(({ call, epoch, site }) => this.#leaked(call, epoch, site))
  }

  afterOk(): void {
    if (this.awake) this.breakers = true
  }

  afterFailure(): void {
    this.breakers = true
  }

  reportBreakers(): void {
    this.breakers = this.awake = false
    const passedOver: string[] = []
    this.#core.eachInstance((columns, at, slot) => {
      const state = columns[at + 2]!
      if (columns[at] === UP && columns[at + 1] === 0 && state === OPEN)
        passedOver.push(this.#core.instances.list[slot]!.id)
      const was = this.#states[slot] ?? 0
      this.#states[slot] = state
      if (state !== 0) this.awake = true
      if (state !== was)
        this.#core.emit('breaker', {
          instance: this.#core.instances.list[slot]!.id,
          from: BREAKERS[was],
          to: BREAKERS[state],
        })
    })
    const panic = passedOver.length > 0
    if (panic !== this.#panic) this.#core.emit('panic', { active: panic, instances: passedOver })
    this.#panic = panic
  }

  /** When a place in a queue is likely to be free: the outstanding work spread over what serves it, 0.1 to 60 s. */
  retryAfterMs(t: number): number {
    if (this.#retryAfter.t === t) return this.#retryAfter.ms
    let work = 0
    let lanes = 0
    let assigned = 0
    this.#core.eachInstance((columns, at) => {
      if (columns[at] !== 1) return
      work += columns[at + 5]!
      assigned += columns[at + 4]!
      lanes += Math.max(1, columns[at + 6]!)
    })
    const one = assigned > 0 ? work / assigned : 1000
    const ms = lanes === 0 ? 60_000 : (one * Math.max(1, assigned / lanes)) / 2
    this.#retryAfter = { t, ms: Math.round(Math.min(Math.max(ms, 100), 60_000)) }
    return this.#retryAfter.ms
  }

  /** A lease was handed to somebody. */
  leased(call: CallRecord, lease: Lease): void {
    if (this.#leaks === undefined) return
    this.#sample += 1
    const site = this.#sample % SAMPLED === 1 ? new Error('lease granted here').stack : undefined
    this.#leaks.register(lease, { call, epoch: lease.epoch, site })
    call.weaken()
  }

  #leaked(call: CallRecord, epoch: number, site: string | undefined): void {
    const core = this.#core
    if (call.phase !== 'leased') return
    core.writer.cancel(core.begin(), call.slot, call.generation, epoch)
    core.wrote(undefined)
    core.end(call, 'leaked')
    core.metrics.orphans += 1
    core.emit('leak', { call: call.id, workflow: call.workflow.id, site })
  }
}
