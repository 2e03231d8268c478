import assert from 'node:assert/strict'
import { bindCluster, checkFits } from '../../../lib/cluster/bind.ts'
import type { ClusterConfig } from '../../../lib/cluster/config.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import { clusterPresets } from '../../../lib/cluster/presets.ts'
import type { ResolvedCluster } from '../../../lib/cluster/resolve.ts'
import { problemsOf } from '../model/shared.ts'
import { chains } from '../simulator/shared.ts'

const latencies = { l: { kind: 'constants', prefillPerTokenMs: 0.1, decodeBaseMs: 10 } } as const
const prefill = { gpu: 'a100', role: 'prefill' } as const
const decode = { gpu: 'a100', role: 'decode' } as const

/** Labels with how many there are, by role. */
function pools({ instances }: ResolvedCluster): Record<string, string[]> {
  const pools: Record<string, string[]> = {}
  for (const { role, label } of instances) {
    pools[role] ??= []
    pools[role].push(label)
  }
  return pools
}

describe('prefill-decode clusters', () => {
  it('are offered as the paper has them', async () => {
    assert.deepEqual(clusterPresets.slice(3), [
      'hexagent-hetero-1',
      'hexagent-hetero-2',
      'hexagent-h200',
      'hexagent-a100',
    ])
    const of = (tp: number, a100: number, h100: number, h200: number) => [
      ...Array<string>(a100).fill(`a100-80×${tp}`),
      ...Array<string>(h100).fill(`h100×${tp}`),
      ...Array<string>(h200).fill(`h200×${tp}`),
    ]
    const both = (pool: string[]) => ({ prefill: pool, decode: pool })
    assert.deepEqual(pools(await loadCluster('hexagent-hetero-1')), both(of(4, 2, 3, 3)))
    assert.deepEqual(pools(await loadCluster('hexagent-hetero-2')), both(of(4, 3, 4, 3)))
    assert.deepEqual(pools(await loadCluster('hexagent-h200')), both(of(4, 0, 0, 8)))
    assert.deepEqual(pools(await loadCluster('hexagent-a100')), both(of(4, 8, 0, 0)))
    const qwen = await loadCluster('hexagent-hetero-1', { model: 'qwen3-235b-a22b' })
    assert.deepEqual(pools(qwen), both(of(8, 2, 3, 3)))
    assert(qwen.instances.every(({ estimated }) => estimated === 'qwen3-235b-a22b'))
  })

  it('say what does not fit into memory', async () => {
    const [problem] = await problemsOf(() =>
      loadCluster('hexagent-a100', { model: 'qwen3-235b-a22b', tp: 4 }),
    )
    assert.equal(problem!.code, 'ERR_LAXITY_MEMORY')
    assert.match(problem!.message, /qwen3-235b-a22b does not fit on 4 × a100-80/)
    const { instances } = await loadCluster({
      instances: [
        { gpu: 'h200', model: 'qwen3-235b-a22b', tp: 4, precision: 'fp8', role: 'prefill' },
        { gpu: 'h200', model: 'qwen3-235b-a22b', tp: 8, role: 'decode' },
      ],
    })
    assert.deepEqual(
      instances.map(({ label }) => label),
      ['h200×4 fp8', 'h200×8'],
    )
  })

  it('turn bandwidth into time per token: 25 GB/s with an A100, 50 otherwise, by the model', async () => {
    const link = async (instance: object) =>
      (await loadCluster({ latencies, instances: [{ ...prefill, ...instance }, decode] } as ClusterConfig))
        .instances[0]!.link
    // 327,680 B of KV for a token of Llama-3.1-70B, 192,512 B of Qwen3-235B.
    assert.deepEqual(await link({}), { linkMsPerToken: 327_680 / 25e6, linkLatencyMs: 1.02 })
    assert.deepEqual(await link({ gpu: 'l40s', linkLatencyMs: 0 }), {
      linkMsPerToken: 327_680 / 50e6,
      linkLatencyMs: 0,
    })
    const qwen = { gpu: 'h100', model: 'qwen3-235b-a22b', tp: 8 }
    assert.equal((await link(qwen))!.linkMsPerToken, 192_512 / 50e6)
    assert.equal((await link({ ...qwen, kvPrecision: 'fp8' }))!.linkMsPerToken, 96_256 / 50e6)
    const given = { gpu: undefined, latency: 'l', kvTokens: 9, kvBytesPerToken: 1000 }
    assert.equal((await link({ ...given, linkGBps: 10, linkCompression: 0.5 }))!.linkMsPerToken, 500 / 10e6)
  })

  it('reach the core with roles, links, batches of prompts, and caches where prompts are computed', async () => {
    const cluster = await loadCluster({
      instances: [
        { ...prefill, prefillBatchTokens: 4096, prefixCacheTokens: 500 },
        { ...decode, count: 2 },
      ],
    })
    const { instances } = bindCluster(cluster, chains([[{ prompt: 5, output: 5 }]]))
    assert.equal(instances.length, 3)
    const { role, chunkTokens, linkMsPerToken, prefixCache } = instances[0]!
    assert.deepEqual([role, chunkTokens, linkMsPerToken], ['prefill', 4096, 327_680 / 25e6])
    assert.deepEqual(prefixCache, [{ tokens: 500, msPerToken: 0 }])
    assert.deepEqual([instances[1]!.role, instances[1]!.chunkTokens], ['decode', 0])
    assert.equal(instances[1]!.prefixCache, undefined)
  })

  const wrong: [name: string, instances: object[], places: string[], message: RegExp][] = [
    [
      'mixed with unified instances',
      [prefill, decode, { gpu: 'a100' }],
      ['cluster.instances'],
      /instances\[2\] is unified, instances\[0\] has role "prefill"/,
    ],
    ['without decode', [prefill, prefill], ['cluster.instances'], /No instance has role "decode": /],
    [
      'without prefill for one of two models',
      [
        { ...prefill, model: 'a' },
        { ...decode, model: 'a' },
        { ...decode, model: 'b' },
      ],
      ['cluster.instances'],
      /No instance has role "prefill" for model "b"/,
    ],
    [
      'links of unified instances',
      [{ gpu: 'a100', linkGBps: 5, kvBytesPerToken: 7, mode: 'chunked', prefillBatchTokens: 3 }],
      ['kvBytesPerToken', 'linkGBps', 'prefillBatchTokens'].map((field) => `cluster.instances[0].${field}`),
      /`linkGBps` needs `role` "prefill" or "decode"/,
    ],
    [
      'what a role cannot have',
      [
        { ...prefill, mode: 'chunked', chunkTokens: 5 },
        { ...decode, prefixCacheTokens: 5, prefillBatchTokens: 3 },
        { latency: 'l', kvTokens: 5, role: 'decode' },
        { ...decode, linkGBps: 0, linkCompression: 11, linkLatencyMs: -1 },
      ],
      [
        'cluster.instances[0].mode',
        'cluster.instances[1].prefillBatchTokens',
        'cluster.instances[1].prefixCacheTokens',
        'cluster.instances[2].kvBytesPerToken',
        'cluster.instances[3].linkCompression',
        'cluster.instances[3].linkGBps',
        'cluster.instances[3].linkLatencyMs',
      ],
      /Expected the KV of a token in bytes for `kvBytesPerToken`/,
    ],
  ]
  for (const [name, instances, places, message] of wrong) {
    it(`are refused: ${name}`, async () => {
      const problems = await problemsOf(() => loadCluster({ latencies, instances } as ClusterConfig))
      assert.deepEqual(problems.map(({ place }) => place).sort(), places)
      assert(problems.every(({ code }) => code === 'ERR_LAXITY_FIELD'))
      assert.match(problems.map((problem) => problem.message).join('\n'), message)
    })
  }

  it('take models from each other where only one has a name', async () => {
    const { instances } = await loadCluster({ instances: [{ ...prefill, model: 'a' }, decode] })
    assert.equal(instances.length, 2)
  })

  it('must hold the prompt where it is computed, prompt and output where it is decoded', async () => {
    const cluster = await loadCluster({
      instances: [
        { ...prefill, kvTokens: 100 },
        { ...decode, kvTokens: 110 },
      ],
    })
    const check = (prompt: number, output: number) => {
      const trace = chains([[{ prompt, output }]])
      checkFits(trace, bindCluster(cluster, trace), false)
    }
    check(100, 10)
    assert.throws(() => check(101, 1), { message: /largest KV cache that may prefill it has 100 tokens/ })
    assert.throws(() => check(100, 11), { message: /largest KV cache that may serve it has 110 tokens/ })
  })
})
