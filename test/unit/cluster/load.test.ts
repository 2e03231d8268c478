import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClusterConfig } from '../../../lib/cluster/config.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import { clusterPresets } from '../../../lib/cluster/presets.ts'
import { clusterJsonSchema } from '../../../lib/cluster/schema.ts'
import { LaxityError } from '../../../lib/errors.ts'

async function failure(cluster: unknown): Promise<LaxityError> {
  try {
    await loadCluster(cluster as ClusterConfig)
  } catch (error) {
    assert(error instanceof LaxityError)
    return error
  }
  throw new assert.AssertionError({ message: 'the cluster was accepted' })
}

describe('loadCluster', () => {
  let folder: string
  const write = (content: string | Uint8Array): string => {
    const path = join(folder, 'my-cluster.json')
    writeFileSync(path, content)
    return path
  }
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-cluster-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  it('knows the clusters of HexGen-Flow', async () => {
    const labels = async (name: string) => (await loadCluster(name)).instances.map(({ label }) => label)
    assert.deepEqual(clusterPresets.slice(0, 3), ['hexgen-hetero-1', 'hexgen-hetero-2', 'hexgen-homo'])
    assert.deepEqual(await labels('hexgen-hetero-1'), ['A100', 'A6000', 'A100', 'A6000'])
    assert.deepEqual(await labels('hexgen-hetero-2'), ['A100', 'A100', 'A6000', 'L40S'])
    assert.deepEqual(await labels('hexgen-homo'), ['A100', 'A100', 'A100', 'A100'])
    const { latencies, instances } = await loadCluster('hexgen-hetero-2')
    assert.equal(latencies.length, 3)
    assert.deepEqual(latencies[2], {
      kind: 'constants',
      prefillBaseMs: 0,
      prefillPerTokenMs: 0.0328,
      decodeBaseMs: 56.3,
      decodePerSequenceMs: 0.36,
      decodePerContextMs: 0.00011,
    })
    assert.deepEqual([instances[0]!.kvTokens, instances[3]!.kvTokens], [1_522_496, 1_913_120])
    assert(instances.every(({ maxSequences }) => maxSequences === 256))
  })

  it('reads a file, writes counts out and fills in defaults', async () => {
    const path = write(
      JSON.stringify({
        latencies: { slow: { kind: 'table', prefill: [[100, 5], [1000, 40]], decodeBaseMs: 30 } }, // biome-ignore format: one knot after the other
        instances: [
          { gpu: 'L40s', count: 2, kvTokens: 5000 },
          { latency: 'slow', kvTokens: 800, maxSequences: 4 },
        ],
      }),
    )
    const { name, instances, latencies } = await loadCluster(path)
    assert.equal(name, 'my-cluster')
    assert.deepEqual(
      instances.map((instance) => [
        instance.label,
        instance.latency,
        instance.kvTokens,
        instance.maxSequences,
      ]),
      [
        ['L40S', 0, 5000, 256],
        ['L40S', 0, 5000, 256],
        ['slow', 1, 800, 4],
      ],
    )
    assert.deepEqual(latencies[1], {
      kind: 'table',
      tokens: Float64Array.of(100, 1000),
      prefillMs: Float64Array.of(5, 40),
      decodeBaseMs: 30,
      decodePerSequenceMs: 0,
      decodePerContextMs: 0,
    })
  })

  it('fills in engine modes: a budget of 512 tokens, a share of a half', async () => {
    const { instances } = await loadCluster({
      instances: [
        { gpu: 'a100' },
        { gpu: 'a100', mode: 'chunked' },
        { gpu: 'a100', mode: 'chunked', chunkTokens: 2048 },
        { gpu: 'a100', mode: 'decode-share' },
        { gpu: 'a100', mode: 'decode-share', decodeShare: 0.125 },
      ],
    })
    assert.deepEqual(
      instances.map(({ mode, chunkTokens, decodeShare }) => [mode, chunkTokens, decodeShare]),
      [
        ['prefill-first', 0, 0],
        ['chunked', 512, 0],
        ['chunked', 2048, 0],
        ['decode-share', 0, 500],
        ['decode-share', 0, 125],
      ],
    )
    const error = await failure({
      instances: [
        { gpu: 'a100', mode: 'chunk' },
        { gpu: 'a100', chunkTokens: 512 },
        { gpu: 'a100', mode: 'chunked', chunkTokens: 0, decodeShare: 0.5 },
        { gpu: 'a100', mode: 'decode-share', decodeShare: 1 },
      ],
    })
    const parts = (error.cause as AggregateError).errors as LaxityError[]
    assert.deepEqual(parts.map((part) => part.place).sort(), [
      'cluster.instances[0].mode',
      'cluster.instances[1].chunkTokens',
      'cluster.instances[2].chunkTokens',
      'cluster.instances[2].decodeShare',
      'cluster.instances[3].decodeShare',
    ])
    assert.match(
      error.message,
      /Expected "prefill-first", "chunked" or "decode-share" for `mode`, got "chunk"/,
    )
    assert.match(error.message, /`chunkTokens` needs `mode` "chunked"/)
  })

  it('reports every problem at once, each with its path', async () => {
    const error = await failure({
      nam: 'x',
      latencies: {
        a: { kind: 'constants', prefillPerTokenMs: 'x', decodeBaseMs: Number.NaN },
        b: { kind: 'tabel' },
        c: { kind: 'table', prefill: [[10, 1], [5, 2]], decodeBaseMs: 1 }, // biome-ignore format: one knot after the other
      },
      instances: [
        { gpu: 'a10' },
        { gpu: 'a100', latency: 'a' },
        { latency: 'z', count: 1.5 },
        { gpu: 'a100', role: 'decoder', kvTokens: -1, modle: 'm' },
        7,
      ],
    })
    assert.equal(error.code, 'ERR_LAXITY_FIELD')
    const parts = (error.cause as AggregateError).errors as LaxityError[]
    assert.deepEqual(parts.map((part) => part.place).sort(), [
      'cluster.instances[0].gpu',
      'cluster.instances[1]',
      'cluster.instances[1].kvTokens',
      'cluster.instances[2].count',
      'cluster.instances[2].kvTokens',
      'cluster.instances[2].latency',
      'cluster.instances[3].kvTokens',
      'cluster.instances[3].modle',
      'cluster.instances[3].role',
      'cluster.instances[4]',
      'cluster.latencies.a.decodeBaseMs',
      'cluster.latencies.a.prefillPerTokenMs',
      'cluster.latencies.b.kind',
      'cluster.latencies.c.prefill[1]',
      'cluster.nam',
    ])
    for (const part of parts) assert(error.message.includes(part.message))
    assert.match(error.message, /Unknown GPU "a10"; did you mean "A100"\?/)
    assert.match(error.message, /Expected "unified", "prefill" or "decode" for `role`, got "decoder"/)
    assert.match(error.message, /Expected .* for `kvTokens`, got -1 \(number\)/)
  })

  it('gives each kind of problem its code', async () => {
    const cases: [cluster: unknown, code: string, message: RegExp][] = [
      [{ instances: [] }, 'ERR_LAXITY_EMPTY', /cluster\.instances: No instances/],
      [{ instances: [{ gpu: 'x100' }] }, 'ERR_LAXITY_FIELD', /instances\[0\]\.gpu: Unknown GPU "x100"/],
      [
        {
          instances: [
            { gpu: 'a100', count: 60_000 },
            { gpu: 'l40s', count: 60_000 },
          ],
        },
        'ERR_LAXITY_LIMIT',
        /120000/,
      ],
      ['hexgen-hetero2', 'ERR_LAXITY_OPTION', /did you mean "hexgen-hetero-2"\?/],
      [5, 'ERR_LAXITY_OPTION', /got 5 \(number\)/],
      [join(folder, 'absent.json'), 'ERR_LAXITY_FILE', /absent\.json: Cannot be read/],
      [folder, 'ERR_LAXITY_FILE', /Cannot be read/],
      [write('{\n "instances": [,]\n}'), 'ERR_LAXITY_SYNTAX', /my-cluster\.json:2: Not valid JSON/],
    ]
    for (const [cluster, code, message] of cases) {
      const error = await failure(cluster)
      assert.equal(error.code, code, error.message)
      assert.match(error.message, message)
    }
    assert.equal((await failure(write('{"instances": ['))).code, 'ERR_LAXITY_SYNTAX')
    assert.equal((await failure(write(Uint8Array.of(0x7b, 0xff, 0x7d)))).code, 'ERR_LAXITY_UTF8')
    const error = await failure(write('{"instances": [{"gpu": "a100", "count": 0}]}'))
    assert.equal(error.place, `${join(folder, 'my-cluster.json')}: instances[0].count`)
  })

  it('publishes the schema it checks by', () => {
    const file = new URL('../../../schemas/cluster.schema.json', import.meta.url)
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), clusterJsonSchema())
  })
})
