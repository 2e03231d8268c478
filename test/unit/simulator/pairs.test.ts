import assert from 'node:assert/strict'
import { bindCluster } from '../../../lib/cluster/bind.ts'
import type { ClusterConfig, InstanceConfig } from '../../../lib/cluster/config.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import { replay } from '../../../lib/scheduler/replay.ts'
import type { SimulateOptions } from '../../../lib/simulator/options.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { generateWorkload } from '../../../lib/traces/workload.ts'
import { problemsOf } from '../model/shared.ts'
import { chains } from './shared.ts'

/** 10 ms a prompt token, 100 ms an output token, and 1 ms for the KV of a token. */
const timed = (instances: InstanceConfig[]): ClusterConfig => ({
  latencies: { l: { kind: 'constants', prefillPerTokenMs: 10, decodeBaseMs: 100 } },
  instances: instances.map((instance) => ({
    latency: 'l',
    kvTokens: 1000,
    kvBytesPerToken: 1_000_000,
    linkGBps: 1,
    linkLatencyMs: 0,
    ...instance,
  })),
})
const pair = timed([{ role: 'prefill' }, { role: 'decode' }])
const one = (prompt: number, output: number, count = 1) =>
  chains(Array.from({ length: count }, () => [{ prompt, output }]))

/** All workflows arrive together, so times can be told by hand. */
const together = (trace: ReturnType<typeof chains>) => ({
  ...trace,
  columns: { ...trace.columns, arrivalMs: new Float64Array(trace.workflows) },
})

const finishes = async (options: Partial<SimulateOptions> & Pick<SimulateOptions, 'trace'>) => {
  const result = await simulate({ cluster: pair, workers: 0, laws: true, perCall: true, ...options })
  return Array.from({ length: result.trace.workflows }, (_, w) => result.calls(w)[0]!)
}

describe('simulate on prefill-decode clusters', () => {
  it('prefills, moves the KV and decodes, to the millisecond', async () => {
    const [call] = await finishes({ trace: together(one(10, 4)) })
    const { stage, id, index, ...times } = call!
    // The first of 4 output tokens comes from the prefill.
    assert.deepEqual(times, {
      instance: 0,
      decodeInstance: 1,
      readyMs: 0,
      leasedMs: 0,
      firstTokenMs: 100,
      transferStartMs: 100,
      transferredMs: 110,
      decodeMs: 110,
      finishedMs: 410,
    })
  })

  it('knows links that are shared, free, compressed, or begin before the prefill ends', async () => {
    const two = timed([
      { role: 'prefill', count: 2 },
      { role: 'decode', count: 1 },
    ])
    const policy = { order: 'fcfs', placement: 'round-robin' }
    const transfer = async (options: Partial<SimulateOptions>) =>
      (await finishes({ trace: together(one(10, 2, 2)), cluster: two, policy, ...options })).map(
        ({ transferredMs }) => transferredMs! - 100,
      )
    assert.deepEqual(await transfer({}), [20, 20])
    assert.deepEqual(await transfer({ links: 'free' }), [10, 10])
    assert.deepEqual(await transfer({ links: 'free', overlap: 0.5 }), [5, 5])
    const compressed = { ...two, instances: two.instances.map((i) => ({ ...i, linkCompression: 0.2 })) }
    assert.deepEqual(await transfer({ cluster: compressed, links: 'free' }), [2, 2])
  })

  it('takes room on the decode instance when `reserve` and `staging` say so', async () => {
    // Room for one call of 10 + 4 tokens at a time; the second one's prefill ends at 200, the first one's decode at 410.
    const tight = timed([{ role: 'prefill' }, { role: 'decode', kvTokens: 20 }])
    const second = async (options: Partial<SimulateOptions>) => {
      const [, call] = await finishes({ trace: together(one(10, 4, 2)), cluster: tight, ...options })
      return [call!.transferStartMs, call!.transferredMs, call!.decodeMs]
    }
    assert.deepEqual(await second({}), [410, 420, 420])
    assert.deepEqual(await second({ reserve: 'late' }), [410, 420, 420])
    assert.deepEqual(await second({ staging: 'unlimited' }), [200, 210, 410])
    assert.deepEqual(await second({ decodeAdmission: 'engine' }), [410, 420, 420])
  })

  it('runs prompts in batches where the instance does', async () => {
    const batched = timed([{ role: 'prefill', prefillBatchTokens: 20 }, { role: 'decode' }])
    const calls = await finishes({ trace: together(one(10, 2, 2)), cluster: batched })
    assert.deepEqual(
      calls.map(({ firstTokenMs }) => firstTokenMs),
      [200, 200],
    )
  })

  it('measures scales against the final horizon', async () => {
    const result = await simulate({ trace: together(one(10, 4)), cluster: pair, workers: 0 })
    assert.deepEqual([...result.baseMs], [410])
    assert.deepEqual([result.metrics.sloScale95, result.metrics.sloScale99], [1, 1])
  })

  it('uses both pools, keeps causality, and replays, in every way that pairs can work', async () => {
    const trace = await generateWorkload('bfcl', { workflows: 40, seed: 3 })
    for (const options of [
      {},
      { policy: 'laxity', links: 'free' },
      { policy: { order: 'workflow-fcfs', placement: 'least-loaded' }, feedback: 'lease' },
      { order: 'srpt', reserve: 'late', decodeAdmission: 'engine', prefixCache: 50_000 },
      { staging: 'unlimited', lateDecode: true, backfill: true, error: 'length=lognormal:0.4' },
      { placement: 'round-robin', overlap: 0.7, feedback: 'lease', lookahead: 0 },
    ] as Partial<SimulateOptions>[]) {
      const result = await simulate({
        trace,
        cluster: 'hexagent-hetero-1',
        rate: 10,
        laws: true,
        perCall: true,
        log: true,
        workers: 0,
        ...options,
      })
      assert.equal(result.counts.completed, 40)
      const { prefillUtilisation, decodeUtilisation, decodeKvPeak } = result.pairs!
      for (const share of [prefillUtilisation, decodeUtilisation, decodeKvPeak])
        assert(share > 0 && share <= 1)
      for (let w = 0; w < 40; w++) {
        for (const call of result.calls(w)) {
          assert(call.instance < 8)
          const times = [call.readyMs, call.leasedMs, call.firstTokenMs, call.finishedMs]
          assert.deepEqual(times, times.toSorted((a, b) => a - b)) // biome-ignore format: one line
          // A call of one token ends with its prefill.
          if (Number.isNaN(call.decodeMs)) continue
          assert(call.decodeInstance! >= 8 && call.decodeInstance! < 16)
          const moves = [call.transferStartMs!, call.transferredMs!, call.decodeMs!, call.finishedMs]
          assert.deepEqual(moves, moves.toSorted((a, b) => a - b)) // biome-ignore format: one line
        }
      }
      const again = replay({ header: result.logHeader!, records: result.log! })
      assert.equal(again.firstMismatch, undefined)
      assert.equal(again.matched, again.decisions)
    }
  })

  it('gives the same bytes here and on a pool', async () => {
    const trace = await generateWorkload('sharegpt', { workflows: 30, seed: 2 })
    const run = (workers: number) => simulate({ trace, cluster: 'hexagent-a100', rate: 5, workers })
    const [here, there] = [await run(0), await run(1)]
    assert.deepEqual(there.latencyMs, here.latencyMs)
    assert.deepEqual(there.pairs, here.pairs)
  })

  it('keeps prefix caches where prompts are computed', async () => {
    const cluster = await loadCluster('hexagent-h200')
    assert(bindCluster(cluster, one(1, 1)).instances.every(({ prefixCache }) => prefixCache === undefined))
    const trace = await generateWorkload('agents', { workflows: 5, seed: 1, context: 'full' })
    const run = (prefixCache: number) =>
      simulate({ trace, cluster: 'hexagent-h200', rate: 1, workers: 0, prefixCache })
    const [without, cached] = [await run(0), await run(1_000_000)]
    assert(cached.cache!.hitRate > 0.3)
    assert.equal(without.cache, undefined)
    assert(cached.pairs!.prefillUtilisation < without.pairs!.prefillUtilisation)
  })

  it('refuses what it has no use for together with other problems', async () => {
    const problems = await problemsOf(() =>
      simulate({ trace: one(1, 1), cluster: pair, placement: 'eftxp', mode: 'chunked', rate: -1 }),
    )
    assert.deepEqual(problems.map(({ place }) => place).sort(), ['mode', 'placement', 'rate'])
  })
})
