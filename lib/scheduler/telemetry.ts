import { expected, LaxityError } from '../errors.ts'

/** One look at an engine. Left out = unknown. */
export interface TelemetrySample {
  /** Requests in the engine's own queue. */
  waiting?: number | undefined
  /** Requests it runs. */
  running?: number | undefined
  /** Share of its KV cache in use, 0 to 1. */
  kvUsage?: number | undefined
}

/** Metric names, newest first (wire-protocols 5). */
export const TELEMETRY_NAMES: Readonly<Record<keyof TelemetrySample, readonly string[]>> = {
  waiting: ['vllm:num_requests_waiting', 'sglang:num_queue_reqs', 'trtllm_num_requests_waiting'],
  running: ['vllm:num_requests_running', 'sglang:num_running_reqs', 'trtllm_num_requests_running'],
  kvUsage: [
    'vllm:kv_cache_usage_perc',
    'vllm:gpu_cache_usage_perc',
    'sglang:token_usage',
    'trtllm_kv_cache_utilization',
  ],
}

/**
 * Reads a Prometheus page of vLLM, SGLang or TensorRT-LLM. Over several series of one name (data-parallel ranks) waiting
 * and running are summed, usage is the largest. A name that is not there leaves its quantity unknown.
 *
 * @throws LaxityError ERR_LAXITY_FIELD where it is no text
 */
export function parseTelemetry(text: string): TelemetrySample {
  if (typeof text !== 'string')
    throw new LaxityError('ERR_LAXITY_FIELD', expected('a page of metrics', 'text', text), 'text')
  const found = new Map<string, number[]>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const match = /^([A-Za-z_:][\w:]*)(?:\{.*\})?\s+(\S+)/.exec(line)
    if (match === null) continue
    const value = Number(match[2])
    if (!Number.isFinite(value) || value < 0) continue
    const values = found.get(match[1]!)
    if (values === undefined) found.set(match[1]!, [value])
    else values.push(value)
  }
  const first = (names: readonly string[]) =>
    names.map((name) => found.get(name)).find((values) => values !== undefined)
  const sum = (values: number[] | undefined) => values?.reduce((total, value) => total + value, 0)
  const usage = first(TELEMETRY_NAMES.kvUsage)
  const waiting = sum(first(TELEMETRY_NAMES.waiting))
  const running = sum(first(TELEMETRY_NAMES.running))
  return {
    ...(waiting !== undefined && { waiting }),
    ...(running !== undefined && { running }),
    ...(usage !== undefined && { kvUsage: Math.min(1, Math.max(...usage)) }),
  }
}

/** @throws LaxityError ERR_LAXITY_FIELD */
export function checkSample(sample: unknown): TelemetrySample {
  if (typeof sample !== 'object' || sample === null)
    throw new LaxityError(
      'ERR_LAXITY_FIELD',
      expected('{ waiting, running, kvUsage }', 'sample', sample),
      'sample',
    )
  const { waiting, running, kvUsage } = sample as TelemetrySample
  for (const [name, value] of Object.entries({ waiting, running })) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 0 && value <= 10_000_000))
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('a whole number from 0 to 10000000', name, value),
        name,
      )
  }
  if (kvUsage !== undefined && !(typeof kvUsage === 'number' && kvUsage >= 0 && kvUsage <= 1))
    throw new LaxityError('ERR_LAXITY_FIELD', expected('a number from 0 to 1', 'kvUsage', kvUsage), 'kvUsage')
  return { waiting, running, kvUsage }
}

const SUSPICIOUS_MS = 30_000

/** A usage of 0 for 30 s while leases hold tokens: once per stretch (live-scheduling 6). */
export function suspicious(
  state: { zeroSince: number; warned: boolean },
  kvUsage: number | undefined,
  leased: number,
  nowMs: number,
): boolean {
  if (kvUsage !== 0 || leased === 0) {
    state.zeroSince = Number.NaN
    state.warned = false
    return false
  }
  if (Number.isNaN(state.zeroSince)) state.zeroSince = nowMs
  if (state.warned || nowMs - state.zeroSince < SUSPICIOUS_MS) return false
  state.warned = true
  return true
}
