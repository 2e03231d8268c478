/** What turns a cluster's built-in constants into estimates (docs/latency-model.md). */
export interface LatencyOverrides {
  /** `calibrated`: instances with a built-in GPU take the calibrated roofline. Default `constants`. */
  latency?: 'constants' | 'calibrated' | undefined
  /** These replace those of every instance that has a `gpu`, and imply `calibrated`. */
  model?: string | undefined
  gpu?: string | undefined
  tp?: number | undefined
}
