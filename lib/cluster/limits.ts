/** What the core accepts (`native/model/latency.cc`, `native/cluster/instance.h`). */
export const LIMITS = {
  baseMs: 100_000,
  slopeMs: 100,
  leastDecodeMs: 1e-6,
  tableMs: 100_000_000,
  tokens: 100_000_000,
  kvTokens: 1_000_000_000_000,
  sequences: 65_535,
  chunkTokens: 1_000_000,
  leastDecodeShare: 0.001,
  mostDecodeShare: 0.999,
  instances: 65_535,
  prefixTokens: 10_000_000_000,
  prefixTiers: 8,
} as const
