import { readFileSync } from 'node:fs'
import type { NativeCluster } from '../../lib/native.ts'
import { shared } from './shared.ts'

/** HexGen-Flow's public simulator: its hardware tables, arrivals and results (reference data, not in the repository). */
export const GOLDEN = 'golden/hexgen-rr-fcfs'

export type Hardware = 'H1' | 'H2'

/** Rows of one of its CSV files, without the header. */
export function rows(name: string): string[][] {
  const [, ...lines] = readFileSync(shared(`${GOLDEN}/${name}`), 'utf8')
    .trim()
    .split('\n')
  return lines.map((line) => line.split(','))
}

export function cluster(name: Hardware): NativeCluster {
  const gpus = rows('gpus.csv')
  const prefill = rows('prefill_seconds.csv')
  const names = JSON.parse(readFileSync(shared(`${GOLDEN}/clusters.json`), 'utf8')).clusters[name] as string[]
  return {
    latencies: gpus.map(([, decode], gpu) => ({
      kind: 'table',
      tokens: Float64Array.from(prefill, (row) => Number(row[0])),
      prefillMs: Float64Array.from(prefill, (row) => Number(row[gpu + 1]) * 1000),
      decodeBaseMs: Number(decode) * 1000,
      decodePerSequenceMs: 0,
      decodePerContextMs: 0,
    })),
    instances: names.map((gpu) => {
      const index = gpus.findIndex((row) => row[0] === gpu)
      return {
        latency: index,
        model: 0,
        kvTokens: Number(gpus[index]![4]),
        maxSequences: 65_535,
        mode: 'prefill-first',
        chunkTokens: 0,
        decodeShare: 0,
      }
    }),
    templates: [],
  }
}

/** Recorded arrivals of the first `workflows` workflows, ms. */
export function arrivals(workflows: number): Float64Array {
  const recorded = rows('arrivals.csv')
  return Float64Array.from({ length: workflows }, (_, w) => Number(recorded[w]![1]) * 1000)
}
