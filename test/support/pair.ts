import type { LiveInstance } from '../../lib/scheduler/instances.ts'
import { LATENCY } from './live.ts'

/** Prefill instances p0, p1, … and decode instances d0, d1, …: 1 µs and 1 ms for the KV of a token, no fixed part. */
export function pairCluster(
  prefills: number,
  decodes: number,
  more: { p?: Partial<LiveInstance>; d?: Partial<LiveInstance> } = {},
): LiveInstance[] {
  const one = (id: string, role: 'prefill' | 'decode'): LiveInstance => ({
    id,
    role,
    latency: LATENCY,
    kvTokens: 10_000,
    maxSequences: 8,
    kvBytesPerToken: 1_000,
    linkGBps: 1,
    linkLatencyMs: 0,
    ...(role === 'prefill' ? more.p : more.d),
  })
  return [
    ...Array.from({ length: prefills }, (_, i) => one(`p${i}`, 'prefill')),
    ...Array.from({ length: decodes }, (_, i) => one(`d${i}`, 'decode')),
  ]
}
