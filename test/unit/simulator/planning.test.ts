import assert from 'node:assert/strict'
import type { ClusterConfig } from '../../../lib/cluster/config.ts'
import { compare } from '../../../lib/compare/compare.ts'
import { compareReport } from '../../../lib/report/compare-report.ts'
import { REASONS } from '../../../lib/scheduler/lease.ts'
import type { SimulateOptions } from '../../../lib/simulator/options.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { generateWorkload } from '../../../lib/traces/workload.ts'
import { objects } from '../../support/future.ts'
import { problemsOf } from '../model/shared.ts'
import { chains } from './shared.ts'

/** 10 ms a prompt token, 100 ms an output token, and 1 ms for the KV of a token. */
const instance = { latency: 'l', kvTokens: 1000, kvBytesPerToken: 1_000_000, linkGBps: 1, linkLatencyMs: 0 }
const pair: ClusterConfig = {
  latencies: { l: { kind: 'constants', prefillPerTokenMs: 10, decodeBaseMs: 100 } },
  instances: [
    { ...instance, role: 'prefill' },
    { ...instance, role: 'decode' },
  ],
}
const chain = chains([
  [
    { prompt: 10, output: 4 },
    { prompt: 20, output: 3 },
  ],
])
const trace = { ...chain, columns: { ...chain.columns, arrivalMs: new Float64Array(1) } }
const run = (options: Partial<SimulateOptions> = {}) =>
  simulate({ trace, cluster: pair, workers: 0, laws: true, perCall: true, log: true, ...options })

describe('planning and declared times of a simulation', () => {
  it('leases when the plan arrives, or by the fallback at once', async () => {
    const leased = async (options: Partial<SimulateOptions>) => {
      const [first, second] = (await run(options)).calls(0)
      return [first!.leasedMs - first!.readyMs, second!.leasedMs - second!.readyMs]
    }
    assert.deepEqual(await leased({}), [0, 0])
    assert.deepEqual(await leased({ planning: 'async', planLatencyMs: 50 }), [50, 50])
    assert.deepEqual(await leased({ planning: 'async' }), [0, 0])
    assert.deepEqual(await leased({ planning: 'async-paper', planLatencyMs: 50 }), [0, 0])
  })

  it('says of the fallback that it was one', async () => {
    const reasons = async (options: Partial<SimulateOptions>) =>
      objects((await run(options)).log!)
        .filter(({ kind }) => kind === 'decision')
        .filter(({ decision }) => decision === 1)
        .map(({ leaseReason }) => REASONS[Number(leaseReason)])
    assert.deepEqual(await reasons({ planning: 'async', planLatencyMs: 50 }), ['best-score', 'best-score'])
    assert.deepEqual(await reasons({ planning: 'async-paper', planLatencyMs: 50 }), ['fallback', 'fallback'])
  })

  it('counts plans, and times them where that is asked for', async () => {
    const { pairs, metrics } = await run()
    assert.deepEqual(pairs!.planning, { planning: 'sync', latencyMs: 0, plans: 2, plannedCalls: 2 })
    const timed = await run({ timePlans: true })
    const { mean, p50, p99 } = timed.pairs!.planning!.planUs!
    assert(mean > 0 && p50 > 0 && p99 >= p50)
    assert.deepEqual(timed.metrics, metrics)
    const without = await run({ policy: { order: 'fcfs', placement: 'least-loaded' } })
    assert.equal(without.pairs!.planning, undefined)
  })

  it('declares what comes after each call: exactly, or as an estimate that the seed draws', async () => {
    const declared = async (options: Partial<SimulateOptions>) => {
      const result = await run(options)
      const reveals = objects(result.log!).filter(({ kind }) => kind === 'reveal')
      const exact = reveals.map(({ exactRemaining }) => exactRemaining)
      return { times: reveals.map(({ remaining }) => remaining), exact, result }
    }
    assert.deepEqual((await declared({})).times, [-1, -1])
    // The second call: prefill 200, transfer 20, two more tokens 200 ms.
    const exact = await declared({ remaining: 'exact' })
    assert.deepEqual(exact.times, [420e6, 0])
    assert.equal(exact.result.remaining, 'exact')
    assert.deepEqual(exact.exact, [1, 1])
    const zero = await declared({ remaining: 0 })
    assert.deepEqual([zero.times, zero.result.remaining], [exact.times, 'exact'])
    const [wrong, again, other] = [
      await declared({ remaining: 0.5, seed: 1 }),
      await declared({ remaining: 0.5, seed: 1 }),
      await declared({ remaining: 0.5, seed: 2 }),
    ]
    assert.equal(wrong!.result.remaining, '0.5')
    assert.deepEqual(wrong!.exact, [0, 0])
    assert.deepEqual(wrong!.times, again!.times)
    assert.notEqual(wrong!.times[0], 420e6)
    assert.notEqual(wrong!.times[0], other!.times[0])
  })

  it('counts exp(−2 sigma) of an estimate: its logarithm is 2 sigma below that of the truth on average', async () => {
    const logs: number[] = []
    for (let seed = 1; seed <= 200; seed += 1) {
      const result = await run({ remaining: 0.4, seed })
      const [first] = objects(result.log!).filter(({ kind }) => kind === 'reveal')
      logs.push(Math.log(Number(first!.remaining) / 420e6))
    }
    const mean = logs.reduce((sum, x) => sum + x, 0) / logs.length
    const sd = Math.sqrt(logs.reduce((sum, x) => sum + (x - mean) ** 2, 0) / logs.length)
    assert(Math.abs(mean + 0.8) < (4 * 0.4) / Math.sqrt(200), String(mean))
    assert(Math.abs(sd - 0.4) < 0.08, String(sd))
  })

  it('predicts the final horizon of every workflow, off by a factor that the seed draws', async () => {
    const predicted = async (options: Partial<SimulateOptions>) => {
      const result = await run(options)
      const opens = objects(result.log!).filter(({ kind }) => kind === 'openWorkflow')
      return { times: opens.map(({ predictedHorizon }) => predictedHorizon), result }
    }
    assert.deepEqual((await predicted({})).times, (await predicted({ remaining: 'exact' })).times)
    const exact = await predicted({ remaining: 'predictor:0' })
    assert.deepEqual(
      exact.times,
      Array.from(exact.result.baseMs, (ms) => ms * 1e6),
    )
    assert.equal(exact.result.remaining, 'predictor:0')
    const wrong = await predicted({ remaining: { predictor: 0.3 } })
    assert.equal(wrong.result.remaining, 'predictor:0.3')
    assert.notDeepEqual(wrong.times, exact.times)
    assert.deepEqual(wrong.times, (await predicted({ remaining: 'predictor:0.3' })).times)
    const reveals = objects(wrong.result.log!).filter(({ kind }) => kind === 'reveal')
    assert.deepEqual(
      reveals.map(({ remaining }) => remaining),
      [-1, -1],
    )
  })

  it('tells deadlines only where they can be known, if nothing else is said', async () => {
    const deadline = async (options: Partial<SimulateOptions>) => {
      const [opened] = objects((await run(options)).log!).filter(({ kind }) => kind === 'openWorkflow')
      return opened!.deadline
    }
    const never = 2n ** 63n - 1n
    // The final horizon: 10 × 10 + 10 + 3 × 100, then 420.
    assert.equal(await deadline({}), never)
    assert.equal(await deadline({ deadlines: 'slo' }), 5 * 830e6)
    assert.equal(await deadline({ sloScale: 2 }), 2 * 830e6)
    assert.equal(await deadline({ sloScale: 2, deadlines: 'none' }), never)
    assert.notEqual(await deadline({ sloBase: 'exclusive' }), never)
  })

  it('refuses what has no meaning', async () => {
    const places = async (options: Partial<SimulateOptions>) =>
      (await problemsOf(() => run(options))).map(({ place }) => place).sort()
    const plain = { order: 'fcfs', placement: 'least-loaded' }
    assert.deepEqual(await places({ planLatencyMs: 5 }), ['planLatencyMs'])
    assert.deepEqual(await places({ planLatencyMs: -1, planning: 'async' }), ['planLatencyMs'])
    assert.deepEqual(await places({ planning: 'late' as never }), ['planning'])
    assert.deepEqual(await places({ planning: 'async', policy: plain, remaining: 'exact' }), [
      'planning',
      'remaining',
    ])
    assert.deepEqual(await places({ planning: 'async', binding: 'at-reveal' }), ['planning'])
    for (const remaining of [
      -1,
      11,
      'exactly',
      Number.NaN,
      null,
      'predictor',
      'predictor:11',
      { predictor: -1 },
      {},
    ])
      assert.deepEqual(await places({ remaining: remaining as never }), ['remaining'])
    const unified = await problemsOf(() =>
      simulate({ trace, cluster: 'hexgen-homo', planning: 'async', rate: 1 }),
    )
    assert.deepEqual(
      unified.map(({ place }) => place),
      ['planning'],
    )
  })
})

describe('planning and declared times of a comparison', () => {
  const small = {
    workload: 'bfcl',
    cluster: 'hexagent-h200',
    workflows: 20,
    seeds: 1,
    workers: 0,
    policy: ['workflow-fcfs/least-loaded', 'hexagent'],
  } as const

  it('spans a grid of them, which only policies that have a use for them take notice of', async () => {
    const { rows } = await compare({
      ...small,
      planning: ['sync', 'async'],
      planLatencyMs: '1,50',
      remaining: 'none,exact',
    })
    const labels = rows.map(({ policy, planning, planLatencyMs, remaining }) => [
      policy.slice(0, 8),
      planning,
      planLatencyMs,
      remaining,
    ])
    const settings = [
      ['sync', null, null],
      ['sync', null, 'exact'],
      ['async', 1, null],
      ['async', 1, 'exact'],
      ['async', 50, null],
      ['async', 50, 'exact'],
    ]
    assert.deepEqual(
      labels,
      settings.flatMap((setting) => [
        ['workflow', null, null, null],
        ['hexagent', ...setting],
      ]),
    )
    const others = rows.filter(({ policy }) => policy !== 'hexagent')
    assert.equal(new Set(others.map(({ req95 }) => req95)).size, 1)
    for (const { policy, planUs, plans, deadlines } of rows) {
      assert.equal(deadlines, 'none')
      if (policy === 'hexagent') assert(planUs.mean! > 0 && planUs.p99! >= planUs.p50! && plans! > 100)
      else assert.deepEqual([planUs, plans], [{ mean: null, p50: null, p99: null }, null])
    }
    const own = rows.filter(({ policy }) => policy === 'hexagent')
    assert(own[4]!.meanMs > own[2]!.meanMs, 'late plans cost something')
    const text = compareReport({
      rows,
      saturation: [],
      timing: { wallMs: 0, cpuMs: 0, simulatedCalls: 0, runs: 0, workers: 0 },
    })
    assert.equal(text.match(/^ policy/gm)!.length, settings.length)
    assert.match(text, /no deadlines.*planning async after 50 ms, remaining exact\n/)
  })

  it('gives what the same run gives alone', async () => {
    const { rows } = await compare({
      ...small,
      policy: 'hexagent',
      planning: 'async-paper',
      planLatencyMs: 20,
      remaining: 0.3,
    })
    const alone = await simulate({
      trace: await generateWorkload('bfcl', { workflows: 20, seed: 1 }),
      cluster: 'hexagent-h200',
      policy: 'hexagent',
      planning: 'async-paper',
      planLatencyMs: 20,
      remaining: 0.3,
      knowledge: 'online',
      arrivals: 'poisson',
      rate: rows[0]!.ratePerS,
      seed: 1,
      workers: 0,
    })
    assert.equal(rows[0]!.req95, alone.metrics.sloScale95)
    assert.equal(rows[0]!.meanMs, alone.metrics.meanMs)
  })

  it('refuses what has no meaning for any policy', async () => {
    const places = async (options: object) =>
      (await problemsOf(() => compare({ ...small, ...options }))).map(({ place }) => place).sort()
    const plain = { policy: 'fcfs/least-loaded' }
    assert.deepEqual(await places({ ...plain, planning: 'async', remaining: 'exact' }), [
      'planning',
      'remaining',
    ])
    assert.deepEqual(await places({ planLatencyMs: 5 }), ['planLatencyMs'])
    assert.deepEqual(await places({ planning: ['sync', 'asink'], remaining: ['exact', -3] }), [
      'planning',
      'remaining',
    ])
    assert.deepEqual(await places({ cluster: 'hexgen-homo', policy: 'laxity', planning: 'async' }), [
      'planning',
    ])
  })
})
