import assert from 'node:assert/strict'
import { bindCluster, checkFits } from '../../../lib/cluster/bind.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import { chains } from '../simulator/shared.ts'

const call = { prompt: 100, output: 10 }

describe('bindCluster', () => {
  const withModels = (...models: (string | undefined)[]) =>
    loadCluster({ instances: models.map((model) => ({ gpu: 'a100', model, kvTokens: 1000 })) })

  it('lets instances without a model serve the only model of the trace', async () => {
    const cluster = await withModels(undefined, undefined)
    assert.deepEqual(
      bindCluster(cluster, chains([[call]])).instances.map(({ model }) => model),
      [0, 0],
    )
    const second = chains([[{ ...call, model: 1 }]])
    assert.deepEqual(
      bindCluster(cluster, second).instances.map(({ model }) => model),
      [1, 1],
    )
  })

  it('lets a cluster of one model serve a trace that names none', async () => {
    const { instances } = bindCluster(await withModels('llama', 'llama'), chains([[call]]))
    assert.deepEqual(
      instances.map(({ model }) => model),
      [0, 0],
    )
  })

  it('refuses a model that no instance serves', async () => {
    const trace = chains([[{ ...call, model: 0 }, { ...call, model: 1 }]]) // biome-ignore format: one call after the other
    const cluster = await withModels('model-1', 'model-O')
    assert.throws(() => bindCluster(cluster, trace), {
      code: 'ERR_LAXITY_OPTION',
      message: /serves model "model-0", which the trace uses; did you mean "model-1"\?/,
    })
    assert.throws(
      () => bindCluster({ ...cluster, instances: [{ ...cluster.instances[0]!, model: undefined }] }, trace),
      {
        code: 'ERR_LAXITY_OPTION',
        message: /uses 2 models \(model-0, model-1\)/,
      },
    )
    const both = bindCluster(await withModels('model-1', 'other', 'model-0'), trace)
    assert.deepEqual(
      both.instances.map(({ model }) => model),
      [1, 2, 0],
    )
  })

  it('interns the stages of the template', async () => {
    const template = [
      { stage: 'plan', promptTokens: 5, outputTokens: 1 },
      { stage: 'step', promptTokens: 6, outputTokens: 2 },
    ]
    const { templates } = bindCluster(await withModels(undefined), chains([[call]], { template }))
    assert.deepEqual(templates, [
      [
        { stage: 1, promptTokens: 5, outputTokens: 1 },
        { stage: 0, promptTokens: 6, outputTokens: 2 },
      ],
    ])
  })
})

describe('checkFits', () => {
  it('names the first call that no KV cache can hold', async () => {
    const cluster = await loadCluster({
      instances: [
        { gpu: 'a100', kvTokens: 100 },
        { gpu: 'a100', kvTokens: 110 },
      ],
    })
    const fits = chains([[call], [call, call]])
    checkFits(fits, bindCluster(cluster, fits), false)

    const large = { prompt: 101, output: 10 }
    const trace = chains([[call], [call, large], [large]], { workflowIds: ['a', 'b', 'c'] })
    const native = bindCluster(cluster, trace)
    assert.throws(() => checkFits(trace, native, false), {
      code: 'ERR_LAXITY_NEVER_FITS',
      message:
        /^chains: Call c1 of workflow b never fits: 101 prompt \+ 10 output tokens.* 110 tokens \(and 1 more call\)$/,
    })
    assert.doesNotThrow(() => checkFits(trace, native, true))
  })
})
