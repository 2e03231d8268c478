import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { createEstimator } from '../../../lib/model/api.ts'
import type { Estimator, EstimatorOptions } from '../../../lib/model/estimate.ts'
import { gpuIds, modelIds } from '../../../lib/model/hardware.ts'
import { hardwareJsonSchema } from '../../../lib/model/schema.ts'
import { problemsOf, temporaryFolder } from './shared.ts'

const H100 = { model: 'llama-3.1-70b', gpu: 'h100', tp: 4 } as const

/** Llama-3.1-70B as Hugging Face describes it, as far as it matters. */
const CONFIG = {
  architectures: ['LlamaForCausalLM'],
  hidden_act: 'silu',
  hidden_size: 8192,
  intermediate_size: 28672,
  model_type: 'llama',
  num_attention_heads: 64,
  num_hidden_layers: 80,
  num_key_value_heads: 8,
  vocab_size: 128256,
  tie_word_embeddings: false,
}

/** The built-in one as a user would describe it. */
const H100_BY_HAND = {
  bf16Tflops: 989,
  fp8Tflops: 1979,
  memoryGBps: 3350,
  memoryGB: 85.5,
  networkGBps: 50,
  pcieGBps: 64,
  interconnect: 'switched',
  kernels: 'h100',
} as const

describe('createEstimator', () => {
  const files = temporaryFolder()

  it('carries the calibration, the error band and what was transferred', async () => {
    const h100 = await createEstimator(H100)
    assert.equal(h100.calibration, 'laxity-cal-1')
    assert.equal(h100.errorBand, 0.101)
    assert.deepEqual(h100.transferred, [])
    const a6000 = await createEstimator({ ...H100, gpu: 'a6000', tp: 8 })
    assert(a6000.errorBand > h100.errorBand)
    assert.match(a6000.transferred.join(), /efficiencies of a6000 are those of l40s.*12 GB\/s is assumed/)
    const mixture = await createEstimator({ model: 'qwen3-235b-a22b', gpu: 'a100-80', tp: 8 })
    assert.match(mixture.transferred.join(), /24 % slower/)
    assert.equal((await createEstimator({ ...H100, calibration: 'vllm' })).calibration, 'laxity-cal-1+vllm')
  })

  it('prefills in chunks, decodes with prompts aboard, and moves KV', async () => {
    const estimator = await createEstimator(H100)
    const whole = estimator.prefillMs({ newTokens: 4096 })
    const chunked = estimator.prefillMs({ newTokens: 4096, chunkTokens: 512 })
    assert(chunked > whole, 'every chunk pays its launches')
    const parts = [0, 2048].map((cachedTokens) =>
      estimator.iterationMs({
        batch: 0,
        context: 0,
        prompts: [{ newTokens: 2048, cachedTokens }],
        samples: cachedTokens === 0 ? 0 : 1,
      }),
    )
    const halves = estimator.prefillMs({ newTokens: 4096, chunkTokens: 2048 })
    assert(Math.abs(parts[0]! + parts[1]! - halves) < 1e-9)
    assert.equal(
      estimator.iterationMs({ batch: 8, context: 16_000, prompts: [] }),
      estimator.decodeMs(8, 16_000),
    )

    const h200 = await createEstimator({ ...H100, gpu: 'h200', tp: 8 })
    const after = estimator.transferMs(4096, { to: h200 })
    assert.equal(after, h200.transferMs(4096, { to: estimator }))
    assert(estimator.transferMs(4096, { to: h200, lanes: 1 }) > after)
    assert(estimator.transferMs(4096, { to: h200, compression: 0.5 }) < after)
    assert(estimator.transferMs(4096, { to: h200, overlappedWithMs: whole }) < after / 10)
    assert(estimator.loadMs(4096, 'disk') > estimator.loadMs(4096, 'network'))
  })

  it('takes a Hugging Face config.json, sizes, and hardware of your own', async () => {
    const builtIn = await createEstimator(H100)
    const path = files.write('config.json', JSON.stringify(CONFIG))
    const fromFile = await createEstimator({ ...H100, model: path })
    assert.equal(fromFile.model, 'config')
    assert.equal(fromFile.decodeMs(16, 32_000), builtIn.decodeMs(16, 32_000))
    assert.equal(fromFile.kvCapacityTokens, builtIn.kvCapacityTokens)

    const mixture = {
      ...CONFIG,
      architectures: ['Qwen3MoeForCausalLM'],
      hidden_size: 4096,
      head_dim: 128,
      num_hidden_layers: 94,
      num_key_value_heads: 4,
      vocab_size: 151936,
      num_experts: 128,
      num_experts_per_tok: 8,
      moe_intermediate_size: 1536,
      decoder_sparse_step: 1,
      mlp_only_layers: [],
    }
    const own = await createEstimator({
      model: files.write('moe.json', JSON.stringify(mixture)),
      gpu: 'h100',
      tp: 8,
    })
    const known = await createEstimator({ model: 'qwen3-235b-a22b', gpu: 'h100', tp: 8 })
    assert.equal(own.decodeMs(16, 32_000), known.decodeMs(16, 32_000))

    const hardware = files.write(
      'hardware.json',
      JSON.stringify({
        gpus: {
          h100b: H100_BY_HAND,
        },
        models: { mine: 'config.json' },
      }),
    )
    const custom = await createEstimator({ model: 'mine', gpu: 'h100b', tp: 4, hardware })
    assert.equal(custom.decodeMs(16, 32_000), builtIn.decodeMs(16, 32_000))
    assert.match(custom.transferred.join(), /h100b are those of h100/)
  })

  it('takes a GPU as an object, and says which of its fields are wrong', async () => {
    const gpu = H100_BY_HAND
    const own = await createEstimator({ ...H100, gpu })
    assert.equal(own.gpu, 'custom GPU')
    assert.equal(own.decodeMs(16, 32_000), (await createEstimator(H100)).decodeMs(16, 32_000))
    const { memoryGB: _, ...short } = gpu
    const wrong = { ...short, bf16Tflops: -1, colour: 'red' } as never
    const problems = await problemsOf(() => createEstimator({ ...H100, gpu: wrong }))
    assert.deepEqual(problems.map(({ code, place }) => [code, place]).sort(), [
      ['ERR_LAXITY_FIELD', 'gpu.bf16Tflops'],
      ['ERR_LAXITY_FIELD', 'gpu.colour'],
      ['ERR_LAXITY_FIELD', 'gpu.memoryGB'],
    ])
  })

  it('needs a model and a GPU, and says of sizes what is missing', async () => {
    const places = async (options: object) =>
      (await problemsOf(() => createEstimator(options as EstimatorOptions))).map(({ place }) => place)
    assert.deepEqual(await places({ model: '', gpu: 5 }), ['model', 'gpu'])
    const sizes = { layers: 8, hidden: 1024, queryHeads: 8, vocabulary: 1000 }
    assert.deepEqual(await places({ ...H100, model: sizes }), ['model.ffn'])
    assert.deepEqual(await places({ ...H100, model: { ...sizes, experts: 4 } }), [
      'model.expertsPerToken',
      'model.expertWidth',
    ])
    const hardware = { models: { mine: 'absent.json' } }
    assert.deepEqual(await places({ ...H100, hardware }), ['absent.json'])
  })

  it('says what does not fit, and by how much', async () => {
    const estimator = await createEstimator({ model: 'qwen3-235b-a22b', gpu: 'h100', tp: 4 })
    assert.equal(estimator.fits, false)
    const [error] = await problemsOf(() => estimator.kvCapacityTokens)
    assert.equal(error!.code, 'ERR_LAXITY_MEMORY')
    assert.match(
      error!.message,
      /qwen3-235b-a22b does not fit on 4 × h100: 117\.5 GB of weights per GPU, 74\.0 GB usable/,
    )
    assert(estimator.decodeMs(1, 2000) > 0, 'times are still known')
  })

  it('refuses bad input, all at once, with near names', async () => {
    const given = { model: 'llama-3.1-70', gpu: 'h10', tp: 3, precision: 'int4', modle: 1 } as unknown
    const problems = await problemsOf(() =>
      createEstimator({ ...(given as EstimatorOptions), modle: undefined } as never),
    )
    assert.deepEqual(
      problems.map(({ place }) => place),
      ['modle'],
    )
    const { modle: _, ...rest } = given as Record<string, unknown>
    const all = await problemsOf(() => createEstimator(rest as unknown as EstimatorOptions))
    assert.deepEqual(all.map(({ place }) => place).sort(), ['gpu', 'model', 'precision', 'tp'])
    const text = all.map(({ message }) => message).join('\n')
    assert.match(text, /did you mean "llama-3\.1-70b"\?/)
    assert.match(text, /did you mean "h100"\?/)
    const cases: [options: object, code: string, message: RegExp][] = [
      [{ ...H100, gpu: 'a100' }, 'ERR_LAXITY_OPTION', /did you mean "a100-80" or "a100-40"\?/],
      [{ ...H100, gpu: 'a100-80', precision: 'fp8' }, 'ERR_LAXITY_OPTION', /a100-80 has no FP8 units/],
      [{ ...H100, tp: 16 }, 'ERR_LAXITY_OPTION', /Expected 1, 2, 4 or 8 for `tp`, got 16/],
      [{ ...H100, calibration: 'vlm' }, 'ERR_LAXITY_OPTION', /did you mean "vllm"\?/],
      [{ ...H100, utilisation: 2 }, 'ERR_LAXITY_OPTION', /utilisation/],
      [{ ...H100, hardware: { gpus: { x: { kernels: 'b200' } } } }, 'ERR_LAXITY_FIELD', /hardware\.gpus\.x/],
      [{ ...H100, model: files.path('absent.json') }, 'ERR_LAXITY_FILE', /absent\.json/],
      [{ ...H100, model: files.write('broken.json', '{\n"a": }') }, 'ERR_LAXITY_SYNTAX', /broken\.json:2/],
    ]
    for (const [options, code, message] of cases) {
      const found = await problemsOf(() => createEstimator(options as EstimatorOptions))
      assert.equal(found[0]!.code, code, found[0]!.message)
      assert(
        found.some((problem) => message.test(problem.message)),
        found[0]!.message,
      )
    }
    const odd = {
      layers: 8,
      hidden: 3584,
      queryHeads: 28,
      kvHeads: 4,
      headDim: 128,
      ffn: 9728,
      vocabulary: 1000,
    }
    const [impossible] = await problemsOf(() => createEstimator({ model: odd, gpu: 'h100', tp: 8 }))
    assert.match(impossible!.message, /8 GPUs cannot share the 28 query heads/)
    await createEstimator({ model: odd, gpu: 'h100', tp: 4 })
    const uneven = await problemsOf(() => createEstimator({ model: { ...odd, kvHeads: 5 }, gpu: 'h100' }))
    assert.match(uneven[0]!.message, /cannot share 5 KV heads/)
  })

  it('refuses configs that the kernels do not describe, with the reason', async () => {
    const cases: [change: object, reason: RegExp][] = [
      [{ kv_lora_rank: 512 }, /multi-head latent attention/],
      [{ hidden_act: 'gelu' }, /hidden_act/],
      [{ num_hidden_layers: undefined }, /num_hidden_layers/],
      [{ num_hidden_layers: -3 }, /num_hidden_layers/],
      [{ num_experts: 8, num_experts_per_tok: 2, n_shared_experts: 1 }, /Shared experts/],
      [{ num_experts: 8, num_experts_per_tok: 2, decoder_sparse_step: 2 }, /some layers only/],
      [{ num_experts: 8, num_experts_per_tok: 2, mlp_only_layers: [0] }, /mlp_only_layers/],
      [{ num_experts: 8, num_experts_per_tok: 2, shared_expert_intermediate_size: 64 }, /Shared experts/],
      [{ num_hidden_layers: undefined, text_config: CONFIG }, /multimodal config/],
    ]
    for (const [change, reason] of cases) {
      const model = files.write('odd.json', JSON.stringify({ ...CONFIG, ...change }))
      const found = await problemsOf(() => createEstimator({ ...H100, model }))
      assert(found.every(({ code }) => code === 'ERR_LAXITY_FIELD'))
      assert(
        found.some(({ message }) => reason.test(message)),
        found.map(({ message }) => message).join('; '),
      )
    }
  })

  it('is finite, positive and monotone over the whole range of inputs', async () => {
    const estimators: Estimator[] = []
    for (const model of modelIds) {
      for (const gpu of gpuIds)
        estimators.push(await createEstimator({ model, gpu, tp: 4 }).catch(() => undefined as never))
    }
    const usable = estimators.filter((one) => one !== undefined)
    assert(usable.length > 40)
    const tokens = fc.integer({ min: 1, max: 100_000_000 })
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: usable.length - 1 }),
        tokens,
        fc.integer({ min: 0, max: 99_999_999 }),
        fc.integer({ min: 1, max: 65_534 }),
        tokens,
        (which, newTokens, cachedTokens, batch, context) => {
          const one = usable[which]!
          const prefill = one.prefillMs({ newTokens, cachedTokens })
          const decode = one.decodeMs(batch, context)
          assert(Number.isFinite(prefill) && prefill > 0 && Number.isFinite(decode) && decode > 0)
          assert(one.prefillMs({ newTokens, cachedTokens: cachedTokens + 1 }) >= prefill)
          if (newTokens < 100_000_000)
            assert(one.prefillMs({ newTokens: newTokens + 1, cachedTokens }) > prefill)
          assert(one.decodeMs(batch + 1, context) > decode)
          assert(one.decodeMs(batch, context + 1) >= decode)
        },
      ),
      { numRuns: 1000, seed: 7 },
    )
  })

  it('publishes the schema it checks by', () => {
    const file = new URL('../../../schemas/hardware.schema.json', import.meta.url)
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), hardwareJsonSchema())
  })
})
