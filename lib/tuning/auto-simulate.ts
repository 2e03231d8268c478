import { type BatchOptions, type BatchResult, runBatch } from '../simulator/batch.ts'
import type { Prepared } from '../simulator/prepare.ts'
import { type TuningEvent, tuningEvents } from './auto-events.ts'
import type { CheckedAutoTune } from './auto-options.ts'

/** What an auto-tuner did in a simulation, and what it was worth. */
export interface Tuning {
  parameter: string
  events: TuningEvent[]
  /** Simulations that its sweeps made. */
  runs: number
  /** P95 of the same run under each fixed value. */
  fixed: { value: number; p95Ms: number }[]
  /** The best of them, in hindsight; of equals the smallest value. */
  best: { value: number; p95Ms: number }
  /** P95 of the tuned run above that of the best fixed value, as a share; negative where tuning beat them all. */
  regret: number
}

/** Runs every fixed value over the same arrivals and the same script: what could have been known only afterwards. */
export async function hindsight(
  prepared: Prepared,
  { parameter, native: options }: CheckedAutoTune,
  tuned: BatchResult,
  batch: Pick<BatchOptions, 'workers' | 'signal'> & { alpha: number; replication: number },
): Promise<Tuning> {
  const { alpha, replication, workers, signal } = batch
  const { autoTune: _, ...run } = prepared.run
  const fixed: Tuning['fixed'] = []
  for (const value of options.values) {
    const parameters = { ...run.parameters, [parameter]: value }
    const result = await runBatch(
      { ...prepared, run: { ...run, parameters } },
      {
        variants: [{ alpha: parameter === 'alpha' ? value : alpha, replication }],
        scales: new Float64Array(0),
        workers,
        signal,
        onProgress: undefined,
      },
    )
    fixed.push({ value, p95Ms: result.value(0, 'p95Ms') })
  }
  let best = fixed[0]!
  for (const one of fixed) if (one.p95Ms < best.p95Ms) best = one
  return {
    parameter,
    events: tuningEvents(tuned.tuner?.events ?? new Float64Array(0)),
    runs: tuned.tuner?.runs ?? 0,
    fixed,
    best,
    regret: tuned.value(0, 'p95Ms') / best.p95Ms - 1,
  }
}
