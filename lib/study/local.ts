import { extname } from 'node:path'
import { LaxityError } from '../errors.ts'
import type { NativeAddon } from '../native.ts'
import { CANCELLED } from '../simulator/chunk.ts'
import { leasePool, type PoolLease } from '../simulator/pool.ts'
import { abortedError, batchError } from '../simulator/status.ts'
import type { TenantName } from '../simulator/tenants.ts'
import { Cells } from './cells.ts'
import { ATTEMPTS, type ChunkFailure, type Executed, type Executor } from './drive.ts'
import { type RowLayout, rowLayout, tenantsOf } from './rows.ts'
import type { Range, Study } from './study.ts'
import type { ThreadAnswer, ThreadTask } from './thread.ts'

// In the sources both files end in .ts, in the package in .js.
const THREAD = new URL(`./thread${extname(import.meta.url)}`, import.meta.url).href

/** Starts a thread, or finds it warm. */
export async function warm(lease: PoolLease): Promise<void> {
  const control = new Int32Array(new SharedArrayBuffer(8))
  const task: ThreadTask = { parts: [], scales: new Float64Array(0), layout: rowLayout(0, 0), control }
  await Promise.race([lease.runModule(THREAD, task), lease.failed])
}

/** The chunks of one study on the threads of this process. */
export class Threads {
  readonly layout: RowLayout
  readonly #native: NativeAddon
  readonly #cells: Cells
  readonly #scales: Float64Array
  readonly #controls = new Set<Int32Array>()

  constructor(native: NativeAddon, study: Study) {
    this.#native = native
    this.#cells = new Cells(native, study)
    this.#scales = Float64Array.from(study.scales)
    this.layout = rowLayout(study.scales.length, tenantsOf(study))
  }

  /** Computes a chunk once. @throws LaxityError what its first failing run says; Error where a thread dies. */
  async compute(lease: PoolLease, chunk: Range): Promise<Executed> {
    const control = new Int32Array(new SharedArrayBuffer(8))
    this.#controls.add(control)
    try {
      const task: ThreadTask = {
        parts: this.#cells.parts(chunk),
        scales: this.#scales,
        layout: this.layout,
        control,
      }
      const answer = (await Promise.race([lease.runModule(THREAD, task), lease.failed])) as ThreadAnswer
      if (answer.failed === undefined) return answer
      if (answer.failed.answer.status === CANCELLED) throw abortedError(undefined)
      throw batchError(this.#native, this.#cells.trace(chunk.from + answer.failed.run), answer.failed.answer)
    } finally {
      this.#controls.delete(control)
    }
  }

  /** Of the trace that a run simulates. */
  calls(run: number): number {
    return this.#cells.trace(run).calls
  }

  /** Stops what runs, at its next event. */
  stop(): void {
    for (const control of this.#controls) Atomics.store(control, 0, 1)
  }

  tenants(run: number): readonly TenantName[] {
    return this.#cells.tenants(run)
  }
}

/** Runs a study on this machine. */
export class LocalExecutor implements Executor {
  readonly #threads: Threads
  readonly #workers: number
  #lease: Promise<PoolLease> | undefined
  readonly #under = new Set<Promise<unknown>>()

  constructor(threads: Threads, workers: number) {
    this.#threads = threads
    this.#workers = workers
  }

  /** One more than there are threads, so that none waits for the next. */
  window(): number {
    return this.#workers + 1
  }

  async run(chunk: Range): Promise<Executed | ChunkFailure> {
    for (let attempt = 1; ; attempt++) {
      this.#lease ??= leasePool(this.#workers)
      const taken = this.#lease
      const work = this.#threads.compute(await taken, chunk)
      this.#under.add(work)
      try {
        return await work
      } catch (error) {
        if (error instanceof LaxityError && error.code === 'ERR_LAXITY_ABORTED') throw error
        // A lease hears of one lost thread only.
        if (!(error instanceof LaxityError) && this.#lease === taken) {
          this.#lease = undefined
          await (await taken).release(false)
        }
        const message = error instanceof Error ? error.message : String(error)
        if (attempt >= ATTEMPTS) return { failed: message, attempts: attempt }
      } finally {
        this.#under.delete(work)
      }
    }
  }

  /** No thread is ended inside the core. */
  async close(finished: boolean): Promise<void> {
    if (this.#lease === undefined) return
    this.#threads.stop()
    await Promise.allSettled(this.#under)
    await (await this.#lease).release(!finished)
  }
}
