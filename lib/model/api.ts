import type { CalibrateOptions, CalibrationResult } from './calibrate.ts'
import type { Estimator, EstimatorOptions } from './estimate.ts'

// What the package exports: the addon and the fit's library are loaded when they are first used.

/**
 * Estimates for one model on one kind of instance; times in ms (docs/latency-model.md).
 *
 * @throws LaxityError ERR_LAXITY_OPTION for unknown names (naming near ones), an impossible `tp`, and FP8 where there is none;
 * ERR_LAXITY_FIELD for a description that is wrong; ERR_LAXITY_FILE, ERR_LAXITY_SYNTAX, ERR_LAXITY_UTF8 for files.
 */
export async function createEstimator(options: EstimatorOptions): Promise<Estimator> {
  const { createEstimator: create } = await import('./estimate.ts')
  return create(options)
}

/**
 * Fits the three serving-stack numbers to measured rows: a CSV of `batch,context,newTokens,ms` or
 * `concurrency,inputTokens,outputTokens,tpotMs`, times in ms (docs/latency-model.md). The fit's library is loaded here.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_SYNTAX, ERR_LAXITY_FIELD (each with its line), ERR_LAXITY_EMPTY with fewer than
 * 3 rows, ERR_LAXITY_MEMORY for a serving row that cannot have run, ERR_LAXITY_OPTION for what neither rows nor options say.
 */
export async function calibrate(path: string, options: CalibrateOptions = {}): Promise<CalibrationResult> {
  const { calibrate: fit } = await import('./calibrate.ts')
  return fit(path, options)
}
