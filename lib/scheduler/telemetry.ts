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

type Rank = Readonly<Record<string, unknown>>

/**
 * Reads SGLang's `GET /v1/loads` (`{ loads: [one object per data-parallel rank] }`), or the older `GET /get_load` (the list
 * alone, where `num_reqs` is running and waiting together): the text, or what it parses to. Over ranks waiting and running
 * are summed, usage is the largest. What one rank does not tell, or tells as no count, is unknown for all of them.
 *
 * @throws LaxityError ERR_LAXITY_SYNTAX where the text is no JSON, ERR_LAXITY_FIELD where it has no list of ranks
 */
export function parseLoads(answer: unknown): TelemetrySample {
  let parsed = answer
  if (typeof answer === 'string') {
    try {
      parsed = JSON.parse(answer)
    } catch (cause) {
      throw new LaxityError('ERR_LAXITY_SYNTAX', 'Not valid JSON', 'loads', { cause })
    }
  }
  const ranks = Array.isArray(parsed) ? parsed : (parsed as { loads?: unknown } | null)?.loads
  if (!Array.isArray(ranks))
    throw new LaxityError('ERR_LAXITY_FIELD', expected('{ loads: [...] }', 'loads', ranks), 'loads')
  for (const [i, rank] of ranks.entries())
    if (typeof rank !== 'object' || rank === null || Array.isArray(rank))
      throw new LaxityError('ERR_LAXITY_FIELD', expected('an object', `loads[${i}]`, rank), `loads[${i}]`)
  const waiting = overRanks(ranks, waitingOf)
  const running = overRanks(ranks, runningOf)
  const usage = overRanks(ranks, usageOf)
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
  return {
    ...(waiting !== undefined && { waiting: sum(waiting) }),
    ...(running !== undefined && { running: sum(running) }),
    ...(usage !== undefined && { kvUsage: Math.min(1, Math.max(...usage)) }),
  }
}

/** Undefined unless every rank tells. */
function overRanks(ranks: readonly Rank[], read: (rank: Rank) => number | undefined): number[] | undefined {
  const values = ranks.map(read)
  return values.length > 0 && values.every((value) => value !== undefined) ? (values as number[]) : undefined
}

function waitingOf({ num_waiting_reqs: waiting }: Rank): number | undefined {
  return isCount(waiting) ? waiting : undefined
}

function runningOf(rank: Rank): number | undefined {
  const { num_running_reqs: running, num_reqs: both } = rank
  if (isCount(running)) return running
  const waiting = waitingOf(rank)
  return isCount(both) && waiting !== undefined && both >= waiting ? both - waiting : undefined
}

function usageOf({ token_usage: usage, num_used_tokens: used, max_total_num_tokens: most }: Rank) {
  if (typeof usage === 'number' && usage >= 0) return usage
  return isCount(used) && isCount(most) && most > 0 ? used / most : undefined
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
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
