import { type CallTable, readCallTable } from '../../../lib/report/result/call-table.ts'
import { encodeColumn } from '../../../lib/report/result/columns.ts'
import type { PerCallDocument } from '../../../lib/report/result/per-call.ts'

/** Numbers from 0 up to `below`, the same for a seed (mulberry32). */
export function random(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

export interface RandomShape {
  instances: number
  workflows: number
  /** At most, in each. */
  calls: number
  /** Times are below it: small ones give ties. */
  times: number
  /** Share of calls that do not finish, of 100. */
  unfinished?: number
}

/** A run that keeps the order of times and of parents, and nothing else that a simulator keeps. */
export function randomDocument(seed: number, shape: RandomShape): PerCallDocument {
  const below = random(seed)
  const sizes = Array.from({ length: shape.workflows }, () => 1 + below(shape.calls))
  const rows: number[][] = []
  const parents: number[] = []
  const latencies: number[] = []
  const arrivals: number[] = []
  for (const size of sizes) {
    const arrival = below(shape.times)
    const finishes: number[] = []
    let last = arrival
    for (let position = 0; position < size; position++) {
      const own = Array.from({ length: position }, (_, p) => p).filter(() => below(3) === 0)
      parents.push(...own)
      const ready =
        Math.max(arrival, ...own.map((p) => finishes[p]!)) + (below(2) === 0 ? 0 : below(shape.times))
      const [wait, prefill, decode] = [below(shape.times), below(shape.times), 1 + below(shape.times)]
      finishes.push(ready + wait + prefill + decode)
      last = Math.max(last, finishes.at(-1)!)
      const isFinished = below(100) >= (shape.unfinished ?? 0)
      rows.push([
        below(3),
        isFinished ? below(shape.instances) : 65535,
        1 + below(5000),
        1 + below(500),
        ready,
        isFinished ? wait : Number.NaN,
        isFinished ? prefill : Number.NaN,
        isFinished ? decode : Number.NaN,
        own.length,
      ])
    }
    arrivals.push(arrival)
    latencies.push(last - arrival)
  }
  const u16 = (column: number) => encodeColumn(Uint16Array.from(rows, (row) => row[column]!))
  const u32 = (column: number) => encodeColumn(Uint32Array.from(rows, (row) => row[column]!))
  const f64 = (column: number) => encodeColumn(Float64Array.from(rows, (row) => row[column]!))
  return {
    version: 1,
    stages: ['plan', 'search', 'answer'],
    tenants: ['default'],
    instances: Array.from({ length: shape.instances }, (_, i) => ({
      label: `gpu-${i}`,
      kvTokens: 100_000,
      maxSequences: 256,
    })),
    workflows: {
      calls: encodeColumn(Uint32Array.from(sizes)),
      tenant: encodeColumn(new Uint16Array(sizes.length)),
      arrivalNs: encodeColumn(Float64Array.from(arrivals)),
      latencyNs: encodeColumn(Float64Array.from(latencies)),
      baseNs: encodeColumn(Float64Array.from(sizes, (size) => size * 1e6)),
    },
    calls: {
      stage: u16(0),
      instance: u16(1),
      promptTokens: u32(2),
      outputTokens: u32(3),
      readyNs: f64(4),
      waitNs: f64(5),
      prefillNs: f64(6),
      decodeNs: f64(7),
      parents: u32(8),
    },
    parents: encodeColumn(Uint32Array.from(parents)),
  }
}

export function randomTable(seed: number, shape: RandomShape): CallTable {
  return readCallTable(randomDocument(seed, shape), 'perCall')
}
