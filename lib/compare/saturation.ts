/** Workflows of a calibration, all present at t = 0, and the share of them until which throughput counts. */
export const SATURATION_WORKFLOWS = 2000
const COUNTED = 0.9

/** The order, placement and binding that load 1.0 is defined by; unified clusters have no placement of that name. */
export const SATURATION_POLICY = {
  paired: { order: 'workflow-fcfs', placement: 'earliest-finish', binding: 'at-credit' },
  unified: { order: 'workflow-fcfs', placement: 'eft', binding: 'at-credit' },
} as const

/**
 * What a cluster sustains, workflows per second: of workflows that all arrived at 0 (finishes in ms, infinite = never),
 * throughput until 90 % of them are done. The tail, where ever fewer instances have work, is cut. 0 where so many never end.
 */
export function saturationRate(finishedMs: Float64Array): number {
  const counted = Math.ceil(COUNTED * finishedMs.length)
  const at = Float64Array.from(finishedMs).sort()[counted - 1]!
  return Number.isFinite(at) && at > 0 ? (1000 * counted) / at : 0
}
