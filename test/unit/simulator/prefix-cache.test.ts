import assert from 'node:assert/strict'
import { type ClusterConfig, chessTrace, type SimulateOptions, simulate, sweep } from '../../../lib/index.ts'
import { replay } from '../../../lib/scheduler/replay.ts'
import { chains } from './shared.ts'

const latencies: ClusterConfig['latencies'] = {
  one: { kind: 'constants', prefillPerTokenMs: 1, decodeBaseMs: 1 },
}

/** Chains whose every call repeats the whole history. */
function history(workflows: number, turns: number) {
  const trace = chains(
    Array.from({ length: workflows }, () =>
      Array.from({ length: turns }, (_, turn) => ({ prompt: 100 * (turn + 1), output: 20 })),
    ),
  )
  const cachedTokens = Uint32Array.from({ length: trace.calls }, (_, row) => {
    const turn = row % turns
    return turn === 0 ? 0 : 100 * turn + 20
  })
  return { ...trace, columns: { ...trace.columns, cachedTokens } }
}

function cluster(instance: object): ClusterConfig {
  return { latencies, instances: [{ latency: 'one', kvTokens: 100_000, count: 2, ...instance }] }
}

describe('prefix caches', () => {
  const trace = history(20, 4)
  const base: SimulateOptions = { trace, cluster: cluster({}), policy: 'laxity', rate: 1, laws: true }

  it('are off by default', async () => {
    const result = await simulate(base)
    assert.equal(result.cache, undefined)
  })

  it('of the cluster or of the option spare prefill, and say what they did', async () => {
    const without = await simulate(base)
    const own = await simulate({ ...base, cluster: cluster({ prefixCacheTokens: 50_000 }) })
    const option = await simulate({ ...base, prefixCache: 50_000 })
    assert.deepEqual(option.latencyMs, own.latencyMs)
    assert.deepEqual(option.cache, own.cache)
    const { hits, misses, stale, promptTokens, sharedTokens, cachedTokens, loadedTokens, hitRate } =
      own.cache!
    assert.equal(hits + misses, 60)
    assert.equal(promptTokens, 20 * 1000)
    // 112, 208 and 320 tokens in whole blocks, of which 16 remain where the prompt ends.
    assert.equal(sharedTokens, 20 * (112 + 208 + 320))
    assert(cachedTokens > 0 && cachedTokens <= sharedTokens)
    assert.deepEqual([stale, loadedTokens, hitRate], [0, 0, cachedTokens / promptTokens])
    assert(own.metrics.meanMs < 0.8 * without.metrics.meanMs)
    const off = await simulate({ ...base, cluster: cluster({ prefixCacheTokens: 50_000 }), prefixCache: 0 })
    assert.deepEqual([off.cache, off.latencyMs], [undefined, without.latencyMs])
  })

  it('lie between nothing and everything when they are scarce, and slower tiers help', async () => {
    const run = (instance: object) => simulate({ ...base, rate: 5, cluster: cluster(instance) })
    const scarce = await run({ prefixCacheTokens: 600 })
    const tiers = await run({
      prefixCacheTokens: 600,
      prefixCacheTiers: [{ tokens: 50_000, msPerToken: 0.25 }],
    })
    const ample = await run({ prefixCacheTokens: 50_000 })
    assert(scarce.cache!.stale > 0)
    assert(scarce.cache!.cachedTokens < tiers.cache!.cachedTokens)
    assert(tiers.cache!.loadedTokens > 0)
    assert(ample.metrics.meanMs < tiers.metrics.meanMs)
    assert(tiers.metrics.meanMs < scarce.metrics.meanMs)
  })

  it('have no meaning with compat', async () => {
    await assert.rejects(simulate({ ...base, compat: 'hexgen', prefixCache: 1000, error: 'batch=2' }), {
      code: 'ERR_LAXITY_OPTION',
      message: /^2 problems: .*without prefix caches.*without prediction errors/,
    })
    const own = cluster({ prefixCacheTokens: 1000 })
    await assert.rejects(simulate({ ...base, cluster: own, compat: 'hexgen-ticks' }), {
      code: 'ERR_LAXITY_OPTION',
      message: /set `prefixCache` to 0/,
    })
    await simulate({ ...base, cluster: own, compat: 'hexgen', prefixCache: 0, laws: false })
  })
})

describe('prediction errors', () => {
  it('are named in results; the same for every policy; replayed from the log', async () => {
    const trace = await chessTrace({ workflows: 20, preset: 1, seed: 3 })
    const error = 'length=lognormal:0.6,correlation=0.5,time=gpu:0.3,batch=0.5'
    const predicted = async (policy: string) => {
      const result = await simulate({
        trace,
        cluster: 'hexgen-hetero-1',
        policy,
        error,
        log: true,
        laws: true,
      })
      assert.equal(result.error, error)
      const log = { header: result.logHeader!, records: result.log! }
      const { decisions, matched } = replay(log)
      assert(decisions > 0)
      assert.equal(matched, decisions)
      // Believed latencies come from the header's error: without it the decisions are others.
      if (policy === 'laxity') {
        const { error: _, ...run } = log.header.run
        const other = { ...log, header: { ...log.header, run } }
        assert.throws(() => assert.equal(replay(other).firstMismatch, undefined))
      }
      return result
    }
    const a = await predicted('laxity')
    await predicted('vllm')
    const exact = await simulate({ trace, cluster: 'hexgen-hetero-1', policy: 'laxity' })
    assert.notDeepEqual(a.latencyMs, exact.latencyMs)
    assert.deepEqual(a.baseMs, exact.baseMs)
    const zero = await simulate({
      trace,
      cluster: 'hexgen-hetero-1',
      policy: 'laxity',
      error: { length: 'uniform:0', time: 'gpu:0', batch: 1 },
    })
    assert.deepEqual(zero.latencyMs, exact.latencyMs)
  })

  it('reach a sweep', async () => {
    const trace = await chessTrace({ workflows: 10, preset: 1, seed: 3 })
    const options = { trace, cluster: 'hexgen-homo', alphas: [0.2, 0.6], replications: 2 }
    const exact = await sweep(options)
    const wrong = await sweep({ ...options, error: 'length=heavy-tail:0.5:10' })
    assert.deepEqual([exact.error, wrong.error], [undefined, 'length=heavy-tail:0.5:10'])
    assert.notDeepEqual(wrong.points, exact.points)
  })
})
