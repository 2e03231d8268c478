import assert from 'node:assert/strict'
import { ENGINE_MODES, type ModeFields, modeFields } from '../../lib/cluster/modes.ts'
import {
  type NativeCluster,
  type NativeOutputs,
  type NativeRun,
  native,
  type TraceColumns,
} from '../../lib/native.ts'
import type { EventLog } from '../../lib/scheduler/log.ts'

/** Small random workloads and runs for the contract tests, straight on the addon. */

/** Deterministic numbers for tests: mulberry32. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

export interface Scenario {
  columns: TraceColumns
  cluster: NativeCluster
}

/**
 * Random DAGs (chains, fans, joins, sources), tool gaps, wrong predictions, tight KV, coinciding times; with `caching`
 * also shared prefixes and caches of several tiers.
 */
export function scenario(seed: number, options: { maxSequences?: number; caching?: boolean } = {}): Scenario {
  const next = random(seed)
  const upTo = (n: number) => Math.floor(next() * n)
  const workflows = 5 + upTo(25)
  const firstCall = [0]
  const stage: number[] = []
  const prompt: number[] = []
  const output: number[] = []
  const predicted: number[] = []
  const gap: number[] = []
  const parentOffset = [0]
  const parents: number[] = []
  for (let w = 0; w < workflows; w += 1) {
    const calls = 1 + upTo(9)
    for (let c = 0; c < calls; c += 1) {
      stage.push(upTo(4))
      prompt.push(1 + upTo(400))
      output.push(1 + upTo(60))
      predicted.push(next() < 0.5 ? output.at(-1)! : 1 + upTo(90))
      gap.push(next() < 0.7 ? 0 : upTo(5) * 100)
      for (let p = 0; p < c; p += 1) if (next() < 1.6 / c) parents.push(p)
      parentOffset.push(parents.length)
    }
    firstCall.push(stage.length)
  }
  let t = 0
  const arrivalMs = Float64Array.from({ length: workflows }, () => {
    t += next() < 0.3 ? 0 : upTo(8) * 100
    return t
  })
  const latencies: NativeCluster['latencies'] = Array.from({ length: 1 + upTo(3) }, (_, i) => ({
    kind: 'constants',
    prefillBaseMs: 0,
    prefillPerTokenMs: 0.5 + i * 0.25,
    decodeBaseMs: 10 + i * 5,
    decodePerSequenceMs: next() < 0.5 ? 0 : 0.5,
    decodePerContextMs: next() < 0.5 ? 0 : 0.001,
  }))
  const mode = random(seed + 0x5eed)
  const instances: NativeCluster['instances'] = Array.from({ length: 1 + upTo(4) }, () => ({
    latency: upTo(latencies.length),
    model: 0,
    kvTokens: next() < 0.5 ? 100_000 : 500 + upTo(500),
    maxSequences: options.maxSequences ?? 1 + upTo(8),
    ...engineMode(seed, mode),
  }))
  // Drawn apart, so that the rest of the scenario does not depend on it.
  const other = random(seed + 500_009)
  const cached = prompt.map((tokens) => Math.floor(other() * tokens))
  if (options.caching) {
    for (const instance of instances) {
      const tiers = Math.floor(other() * 4)
      instance.prefixCache = Array.from({ length: tiers }, (_, tier) => ({
        tokens: [15, 100, 400, 5000][Math.floor(other() * 4)]!,
        msPerToken: tier === 0 ? 0 : other() * 0.6,
      }))
    }
  }
  return {
    columns: {
      ...(options.caching && { cachedTokens: Uint32Array.from(cached) }),
      firstCall: Uint32Array.from(firstCall),
      arrivalMs,
      stage: Uint16Array.from(stage),
      promptTokens: Uint32Array.from(prompt),
      outputTokens: Uint32Array.from(output),
      predictedTokens: Uint32Array.from(predicted),
      toolGapMs: Float64Array.from(gap),
      parentOffset: Uint32Array.from(parentOffset),
      parents: Uint32Array.from(parents),
      tenant: Uint16Array.from({ length: workflows }, tenants(seed)),
    },
    cluster: {
      latencies,
      instances,
      templates: [[0, 1, 2, 3].map((s) => ({ stage: s, promptTokens: 200, outputTokens: 30 }))],
    },
  }
}

function tenants(seed: number): () => number {
  const next = random(seed + 77_777)
  return () => Math.floor(next() * 3)
}

/** Length and latency errors of every kind, spread over seeds. */
export function wrong(seed: number): NonNullable<NativeRun['error']> {
  const next = random(seed * 104_729 + 1)
  const kinds = ['none', 'lognormal', 'mean-absolute', 'uniform', 'bias', 'heavy-tail'] as const
  const length = kinds[Math.floor(next() * kinds.length)]!
  return {
    length,
    size: length === 'heavy-tail' ? 4 : next() * 0.9,
    share: 0.3,
    correlation: next(),
    gpu: next() < 0.5 ? 0 : next(),
    batch: next() * 3,
    seed,
  }
}

/** By the seed: all prefill-first, all chunked, all decode-share, or each its own. */
function engineMode(seed: number, next: () => number): ModeFields {
  const all = Math.floor(seed / 2) % 4
  const kind = all === 3 ? Math.floor(next() * 3) : all
  const budget = [4, 16, 64, 512, 4096][Math.floor(next() * 5)]!
  return modeFields(ENGINE_MODES[kind], budget, (1 + Math.floor(next() * 999)) / 1000)
}

export const ORDERS = native.orders
export const PLACEMENTS = native.placements

/** Every order × placement × binding × knowledge, with and without migration, spread over seeds; some with ageing. */
export function policy(
  seed: number,
): Pick<
  NativeRun,
  'order' | 'placement' | 'binding' | 'knowledge' | 'parameters' | 'placementSeed' | 'migrate'
> {
  const next = random(seed * 7919 + 1)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  return {
    order: pick(ORDERS),
    placement: pick(PLACEMENTS),
    binding: pick(['at-reveal', 'at-credit'] as const),
    knowledge: pick(['online', 'template', 'declared', 'oracle'] as const),
    parameters: next() < 0.25 ? { ageingMs: 500, budgetMargin: 0.1 } : {},
    placementSeed: seed,
    migrate: next() < 0.5,
  }
}

export function runOptions(overrides: Partial<NativeRun> = {}): NativeRun {
  return {
    order: 'urgency',
    placement: 'workload-balanced',
    binding: 'at-reveal',
    feedback: 'boundary',
    lookahead: 0,
    knowledge: 'online',
    parameters: {},
    arrivals: 'trace',
    rate: 1,
    seed: 1,
    replication: 0,
    tieSeed: 0,
    sloScale: 5,
    sloBase: 'template',
    compat: 'none',
    laws: true,
    ...overrides,
  }
}

export function simulator({ columns, cluster }: Scenario): InstanceType<typeof native.Simulator> {
  const trace = new native.Trace(columns)
  assert.equal(trace.status, 0, native.statusReasons[trace.status])
  return new native.Simulator(trace, cluster)
}

/** Runs with the log on. Fails unless the run succeeded. */
export function recorded(input: Scenario, run: NativeRun, outputs: NativeOutputs = {}) {
  const { result, log } = simulator(input).record(run, outputs)
  assert.equal(result.status, 0, native.statusReasons[result.status])
  const event: EventLog = {
    header: { run, cluster: input.cluster, trace: { source: 'test', stages: [], models: [] } },
    records: log,
  }
  return { result, log: event }
}
