import type { ConstantLatency } from './config.ts'

export interface Gpu {
  /** As people write it. */
  label: string
  latency: ConstantLatency
  /** KV cache of one instance, tokens. */
  kvTokens: number
  maxSequences: number
}

/**
 * Built-in GPUs by lower-case name. Step latencies at batch 1 as measured by HexGen-Flow's authors (arXiv 2505.05286,
 * Llama-3.1-70B); the batch and context terms come from the calibrated latency model.
 */
export const GPUS: Readonly<Record<string, Gpu>> = {
  a100: gpu('A100', 0.0259, 39.1, 0.07, 0.00005, 1_522_496),
  a6000: gpu('A6000', 0.0368, 60.5, 0.37, 0.00012, 1_913_120),
  l40s: gpu('L40S', 0.0328, 56.3, 0.36, 0.00011, 1_913_120),
}

export function findGpu(name: string): Gpu | undefined {
  const key = name.toLowerCase()
  return Object.hasOwn(GPUS, key) ? GPUS[key] : undefined
}

function gpu(
  label: string,
  prefillPerTokenMs: number,
  decodeBaseMs: number,
  decodePerSequenceMs: number,
  decodePerContextMs: number,
  kvTokens: number,
): Gpu {
  const latency: ConstantLatency = {
    kind: 'constants',
    prefillPerTokenMs,
    decodeBaseMs,
    decodePerSequenceMs,
    decodePerContextMs,
  }
  return { label, latency, kvTokens, maxSequences: 256 }
}
