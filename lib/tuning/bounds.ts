import { lowerBound } from '../bounds/bound.ts'
import {
  largestRatio,
  type RowBound,
  rowBound,
  type SeedBound,
  seedBound,
  workflowColumns,
} from '../bounds/row.ts'
import type { NativeBound } from '../native.ts'
import { runBatch } from '../simulator/batch.ts'
import { defaultWorkers } from '../simulator/pool.ts'
import type { Prepared } from '../simulator/prepare.ts'

interface Replication {
  req95: number
  req99: number
  evictions: number
  bound: SeedBound
}

/**
 * What no scheduler can be below on the arrivals of each replication of a sweep, and what every alpha needs there. The
 * largest ratio needs every workflow's latency, so each run is made once more, by itself.
 */
export class SweepBounds {
  readonly #prepared: Prepared
  readonly #workers: number
  readonly #signal: AbortSignal | undefined
  readonly #bounds: NativeBound[] = []
  readonly #runs = new Map<number, Replication[]>()

  constructor(prepared: Prepared, workers: number | undefined, signal: AbortSignal | undefined) {
    this.#prepared = prepared
    // A function cannot go to another thread.
    this.#workers = typeof prepared.run.placement === 'function' ? 0 : (workers ?? defaultWorkers())
    this.#signal = signal
  }

  /** The replications `from` to `to − 1`; those before must be there. */
  async add(alphas: readonly number[], from: number, to: number): Promise<void> {
    for (let replication = from; replication < to; replication++) {
      const own = { ...this.#prepared, run: { ...this.#prepared.run, replication } }
      const bound = this.#bounds[replication] ?? (await lowerBound(own, this.#workers, this.#signal))
      this.#bounds[replication] = bound
      await Promise.all(alphas.map((alpha) => this.#run(alpha, replication, bound)))
    }
  }

  of(alpha: number): RowBound {
    return rowBound(this.#runs.get(alpha)!)
  }

  async #run(alpha: number, replication: number, bound: NativeBound): Promise<void> {
    const columns = workflowColumns(this.#prepared.trace.workflows)
    const batch = await runBatch(this.#prepared, {
      variants: [{ alpha, replication }],
      scales: new Float64Array(0),
      workers: Math.min(1, this.#workers),
      threads: this.#workers,
      signal: this.#signal,
      onProgress: undefined,
      outputs: columns,
    })
    const runs = this.#runs.get(alpha) ?? []
    this.#runs.set(alpha, runs)
    runs[replication] = {
      req95: batch.value(0, 'sloScale95'),
      req99: batch.value(0, 'sloScale99'),
      evictions: batch.value(0, 'evictions') + batch.value(0, 'hiddenEvictions'),
      bound: seedBound(largestRatio(columns), bound),
    }
  }
}
