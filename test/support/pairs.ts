import { type NativeCluster, type NativeRun, native } from '../../lib/native.ts'
import { ORDERS, random, runOptions, type Scenario, scenario } from './runs.ts'

/** The workload of `scenario`, on one to three prefill and decode instances with links, tight KV and prompts in batches. */
export function pairScenario(
  seed: number,
  options: { maxSequences?: number; caching?: boolean } = {},
): Scenario {
  const { columns, cluster } = scenario(seed, options)
  const next = random(seed + 900_001)
  const upTo = (n: number) => Math.floor(next() * n)
  const add = (role: 'prefill' | 'decode'): NativeCluster['instances'][number] => ({
    latency: upTo(cluster.latencies.length),
    model: 0,
    kvTokens: next() < 0.5 ? 100_000 : 500 + upTo(500),
    maxSequences: role === 'decode' ? (options.maxSequences ?? 1 + upTo(8)) : 64,
    mode: 'prefill-first',
    chunkTokens:
      role === 'prefill' && options.maxSequences === undefined && next() < 0.3 ? 50 + upTo(800) : 0,
    decodeShare: 0,
    role,
    linkMsPerToken: next() < 0.3 ? 0 : next() * 0.5,
    linkLatencyMs: next() < 0.5 ? 0 : next() * 3,
    ...(options.caching &&
      role === 'prefill' &&
      next() < 0.7 && { prefixCache: [{ tokens: [15, 100, 400, 5000][upTo(4)]!, msPerToken: 0 }] }),
  })
  const instances = [
    ...Array.from({ length: 1 + upTo(3) }, () => add('prefill')),
    ...Array.from({ length: 1 + upTo(3) }, () => add('decode')),
  ]
  return { columns, cluster: { ...cluster, instances } }
}

/** Every order × pair placement × binding × knowledge × way that pools work together, spread over seeds. */
const LEARNT = { structuralMinimum: 1, predictHorizons: 1, horizonQuantile: 0.1 }

export function pairRun(seed: number, overrides: Partial<NativeRun> = {}): NativeRun {
  const next = random(seed * 6151 + 5)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(next() * values.length)]!
  const placement = pick([...native.pairPlacements, 'earliest-finish', 'earliest-finish'])
  const binding = pick(['at-reveal', 'at-credit', 'at-credit'] as const)
  const plans = (placement === 'earliest-finish' || placement === 'kv-price') && binding === 'at-credit'
  const planning = plans ? pick(['sync', 'async', 'async-paper'] as const) : 'sync'
  const remaining = next() < 0.3
  const feedback = overrides.feedback ?? pick(['boundary', 'lease'] as const)
  return runOptions({
    order: pick([...ORDERS, 'ratio']),
    placement,
    binding,
    feedback,
    lookahead: feedback === 'lease' ? Math.floor(next() * 3) : 0,
    knowledge: pick(['online', 'template', 'declared', 'oracle'] as const),
    parameters: { ...(next() < 0.2 && { ageingMs: 500 }), ...(seed % 2 === 0 && LEARNT) },
    pairs: {
      reserve: pick(['early', 'late'] as const),
      staging: pick(['none', 'none', 'unlimited'] as const),
      decodeAdmission: pick(['scheduler', 'engine'] as const),
      links: pick(['contended', 'free'] as const),
      backfill: next() < 0.3,
      lateDecode: next() < 0.3,
      overlap: pick([0, 0, 0.5, 1]),
      planning,
    },
    ...(planning !== 'sync' && { planLatencyMs: pick([0, 1, 7.5, 100]) }),
    ...(remaining && { remaining: { sigma: pick([0, 0.3]), seed } }),
    ...overrides,
  })
}
