import type { NativeGpu, NativeLlm } from '../native.ts'

/** How far off a decode time may be, and why. */
export interface ErrorBand {
  /** Mean absolute relative error to expect of a time per output token. */
  relative: number
  /** What was taken from elsewhere or assumed, one sentence each. */
  transferred: string[]
}

/**
 * Errors of models left out of the fit (H100 and H200, docs/accuracy.md). A model that is not here counts as the worst
 * of them.
 */
const LEFT_OUT: Readonly<Record<string, number>> = {
  'llama-3.1-70b': 0.101,
  'llama-3.1-8b': 0.147,
  'qwen3-235b-a22b': 0.116,
  'qwen3-32b': 0.134,
}
const UNSEEN_MODEL = 0.15
/** No serving rows of a modern engine: kernels fitted, stack taken from H100 and H200. */
const UNSEEN_STACK = 0.2
/** Kernels fitted on another GPU; or A100 mixtures, whose held-out kernels are 24 % too fast. */
const TRANSFERRED = 0.25

export function errorBand(
  model: string,
  llm: NativeLlm,
  gpuId: string,
  gpu: NativeGpu,
  tp: number,
): ErrorBand {
  const transferred: string[] = []
  const mixture = llm.experts > 0
  let relative = UNSEEN_STACK
  if (gpu.transferred) {
    transferred.push(`kernel efficiencies of ${gpuId} are those of ${gpu.kernels}`)
    relative = TRANSFERRED
  } else if (gpu.kernels === 'h100' || gpu.kernels === 'h200') {
    relative = LEFT_OUT[model] ?? UNSEEN_MODEL
  }
  if (gpu.kernels === 'a100' || gpu.kernels === 'l40s') {
    transferred.push('the serving stack was fitted on H100 and H200')
  }
  if (mixture && gpu.kernels === 'a100') {
    transferred.push(
      'mixture-of-experts kernels of A100 measured 24 % slower than the fit on held-out shapes',
    )
    relative = TRANSFERRED
  }
  if (tp > 1 && gpu.interconnect === 'pcie') {
    transferred.push('all-reduce without a switch: a bus of 12 GB/s is assumed')
    relative = Math.max(relative, TRANSFERRED)
  }
  return { relative, transferred }
}
