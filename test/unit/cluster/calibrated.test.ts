import assert from 'node:assert/strict'
import type { ClusterConfig } from '../../../lib/cluster/config.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import type { LatencyOverrides } from '../../../lib/cluster/overrides.ts'
import { native } from '../../../lib/native.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { problemsOf, temporaryFolder } from '../model/shared.ts'

const GPU = { bf16Tflops: 100, memoryGBps: 1000, memoryGB: 48, kernels: 'l40s' } as const

describe('clusters on the calibrated model', () => {
  const files = temporaryFolder()

  it('estimates instances with tp, and derives their KV capacity', async () => {
    const { instances, latencies } = await loadCluster({
      instances: [
        { gpu: 'h100', model: 'llama-3.1-70b', tp: 4, count: 2 },
        { gpu: 'h200', model: 'llama-3.1-70b', tp: 4, kvTokens: 1000, calibration: 'vllm' },
        { gpu: 'a100' },
      ],
    })
    assert.equal(latencies.length, 3)
    assert.deepEqual(
      instances.map(({ label, latency, kvTokens }) => [label, latency, kvTokens]),
      [
        ['h100×4', 0, 472_092],
        ['h100×4', 0, 472_092],
        ['h200×4', 1, 1000],
        ['A100', 2, 1_522_496],
      ],
    )
    assert.equal(latencies[0]!.kind, 'roofline')
    assert.equal(latencies[2]!.kind, 'constants')
    const out = new Float64Array(1)
    new native.Latency({ latencies: [latencies[0]!] }).decode(
      Uint32Array.of(16),
      Float64Array.of(32_000),
      out,
    )
    assert(Math.abs(out[0]! - 16.42717) < 1e-5)
  })

  it('presets keep their constants unless the calibrated model is asked for', async () => {
    for (const overrides of [{}, { latency: 'constants' }] as LatencyOverrides[]) {
      const { latencies } = await loadCluster('hexgen-hetero-2', overrides)
      assert(latencies.every(({ kind }) => kind === 'constants'))
    }
    const { instances, latencies } = await loadCluster('hexgen-hetero-2', { latency: 'calibrated' })
    assert.deepEqual(
      instances.map(({ label }) => label),
      ['a100-80×8', 'a100-80×8', 'a6000×8', 'l40s×8'],
    )
    assert(latencies.every(({ kind }) => kind === 'roofline'))
    assert.equal(instances[3]!.kvTokens, 557_419)
    assert(
      instances.every(({ model }) => model === undefined),
      'still serves whatever the trace uses',
    )
    const replaced = await loadCluster('hexgen-homo', { gpu: 'h200', model: 'qwen3-32b', tp: 2 })
    assert.deepEqual(
      replaced.instances.map(({ label }) => label),
      Array(4).fill('h200×2'),
    )
    assert.equal(replaced.latencies.length, 1)
  })

  it('takes GPUs and models of its own', async () => {
    files.write('config.json', JSON.stringify({
      model_type: 'qwen2', hidden_size: 3584, intermediate_size: 18944, num_attention_heads: 28,
      num_hidden_layers: 28, num_key_value_heads: 4, vocab_size: 152064,
    })) // biome-ignore format: sizes
    const path = files.write(
      'cluster.json',
      JSON.stringify({
        gpus: { mine: GPU },
        models: { 'qwen2.5-7b': 'config.json' },
        instances: [{ gpu: 'mine', model: 'qwen2.5-7b', tp: 2 }],
      }),
    )
    const { instances } = await loadCluster(path)
    assert(instances[0]!.kvTokens > 1_000_000)
    const trace = await chessTrace({ workflows: 4, preset: 1, seed: 1 })
    const result = await simulate({ trace, cluster: path, workers: 0, laws: true })
    assert.equal(result.counts.completed, 4)
  })

  it('reports every problem of such instances with its path', async () => {
    const config = {
      gpus: { mine: { ...GPU, memoryGB: 'x' } },
      models: { odd: { layers: 4, hidden: 100, queryHeads: 8, ffn: 10 } },
      instances: [
        { gpu: 'h100', count: 1 },
        { gpu: 'h10', model: 'llama-3.1-70b', tp: 4 },
        { gpu: 'h100', model: 'lama-3.1-70b', tp: 3 },
        { gpu: 'h100', tp: 2 },
        { latency: 'l', tp: 2, kvTokens: 5 },
        { gpu: 'h100', model: 'qwen3-32b', tp: 1, calibration: 'vlm' },
      ],
      latencies: { l: { kind: 'constants', prefillPerTokenMs: 1, decodeBaseMs: 1 } },
    }
    const problems = await problemsOf(() => loadCluster(config as unknown as ClusterConfig))
    assert.deepEqual(problems.map(({ place }) => place).sort(), [
      'cluster.gpus.mine.memoryGB',
      'cluster.instances[0].gpu',
      'cluster.instances[1].gpu',
      'cluster.instances[2].model',
      'cluster.instances[2].tp',
      'cluster.instances[3].model',
      'cluster.instances[4].model',
      'cluster.instances[4].tp',
      'cluster.instances[5].calibration',
      'cluster.models.odd.vocabulary',
    ])
    const [first, second] = await problemsOf(() =>
      loadCluster({
        instances: [
          { gpu: 'h100', model: 'qwen3-235b-a22b', tp: 4 },
          { gpu: 'a100-80', model: 'qwen3-32b', tp: 1, precision: 'fp8' },
        ],
      }),
    )
    assert.deepEqual([first!.code, first!.place], ['ERR_LAXITY_MEMORY', 'cluster.instances[0]'])
    assert.deepEqual([second!.code, second!.place], ['ERR_LAXITY_FIELD', 'cluster.instances[1].precision'])
  })

  it('reports a wrong override once', async () => {
    for (const [overrides, code, message] of [
      [{ gpu: 'h10' }, 'ERR_LAXITY_OPTION', /Unknown GPU "h10"/],
      [{ model: 'qwen3-235b-a22b', gpu: 'h100', tp: 4 }, 'ERR_LAXITY_MEMORY', /does not fit/],
    ] as const) {
      const problems = await problemsOf(() => loadCluster('hexgen-homo', overrides))
      assert.deepEqual(
        problems.map((problem) => problem.code),
        [code],
      )
      assert.match(problems[0]!.message, message)
    }
    const trace = await chessTrace({ workflows: 2, preset: 1, seed: 1 })
    const options = { trace, cluster: 'hexgen-homo', latency: 'constants', tp: 4 } as const
    const [problem] = await problemsOf(() => simulate(options))
    assert.match(problem!.message, /"constants" knows no `model`, `gpu` or `tp`/)
  })
})
