import type { CalibrateOptions, CalibrationResult } from './calibrate.ts'

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
