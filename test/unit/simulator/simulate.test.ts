import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chessTrace, type SimulateOptions, simulate, writeTrace } from '../../../lib/index.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { chains } from './shared.ts'

const cluster = 'hexgen-hetero-2'

describe('simulate', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 30, preset: 3, seed: 7 })
  })

  it('gives metrics that agree with its columns', async () => {
    const result = await simulate({ trace, cluster })
    assert.deepEqual(
      [result.knowledge, result.feedback, result.arrivals, result.rate],
      ['template', 'boundary', 'poisson', 0.5],
    )
    assert.deepEqual(result.policy, {
      order: 'urgency',
      placement: 'workload-balanced',
      binding: 'at-reveal',
      migrate: false,
    })
    const { metrics, counts, latencyMs } = result
    assert.deepEqual([counts.workflows, counts.completed, counts.calls], [30, 30, trace.calls])
    const sorted = latencyMs.toSorted()
    assert.equal(metrics.p50Ms, sorted[14])
    assert.equal(metrics.p95Ms, sorted[28])
    assert.equal(metrics.p99Ms, sorted[29])
    const rows = [...result.workflows()]
    assert.deepEqual(rows[3], result.workflow(3))
    const scales = rows.map(({ scale }) => scale).sort((a, b) => a - b)
    assert.equal(metrics.sloScale95, scales[28])
    assert.equal(result.attainment(metrics.sloScale95), 29 / 30)
    assert.equal(result.attainment(1e9), 1)
    for (const scale of [0, -1, Number.NaN, '5'])
      assert.throws(() => result.attainment(scale as number), { code: 'ERR_LAXITY_OPTION', place: 'scale' })
    assert.throws(() => result.workflow(30), { code: 'ERR_LAXITY_OPTION' })
    assert.throws(() => result.stageMix(), { code: 'ERR_LAXITY_OPTION', message: /perCall/ })
  })

  it('reads the trace of a path, and needs calls and a cluster', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'laxity-simulate-'))
    try {
      const path = join(folder, 'trace.jsonl')
      await writeTrace(trace, path)
      const options = { cluster, arrivals: 'poisson' } as const
      const [read, given] = [
        await simulate({ ...options, trace: path }),
        await simulate({ ...options, trace }),
      ]
      assert.deepEqual(read.latencyMs, given.latencyMs)
    } finally {
      await rm(folder, { recursive: true })
    }
    const refuses = (options: Record<string, unknown>, code: string, place: string) =>
      assert.rejects(simulate({ trace, cluster, ...options } as unknown as SimulateOptions), { code, place })
    const none = chains([[{ prompt: 1, output: 1 }]])
    const columns = {
      ...none.columns,
      firstCall: new Uint32Array(1),
      promptTokens: new Uint32Array(0),
      outputTokens: new Uint32Array(0),
    }
    await refuses({ trace: { ...none, workflows: 0, calls: 0, columns } }, 'ERR_LAXITY_EMPTY', 'chains')
    await refuses({ cluster: undefined }, 'ERR_LAXITY_OPTION', 'cluster')
    await refuses({ gpu: '' }, 'ERR_LAXITY_OPTION', 'gpu')
    await refuses({ trace: '' }, 'ERR_LAXITY_OPTION', 'trace')
  })

  it('runs every engine mode, set for all instances or by each', async () => {
    const p95 = async (options: Partial<SimulateOptions>) =>
      (await simulate({ trace, cluster, laws: true, ...options })).metrics.p95Ms
    const [first, chunked, shared] = [
      await p95({}),
      await p95({ mode: 'chunked' }),
      await p95({ mode: 'decode-share' }),
    ]
    assert.equal(await p95({ mode: 'prefill-first' }), first)
    assert.equal(await p95({ mode: 'chunked', chunkTokens: 512 }), chunked)
    assert.notEqual(await p95({ mode: 'chunked', chunkTokens: 64 }), chunked)
    assert.equal(await p95({ mode: 'decode-share', decodeShare: 0.5 }), shared)
    assert.notEqual(await p95({ mode: 'decode-share', decodeShare: 0.1 }), shared)
    assert.equal(new Set([first, chunked, shared]).size, 3)
    const own = ['a100', 'a100', 'a6000', 'l40s'].map((gpu) => ({ gpu, mode: 'chunked' as const }))
    assert.equal(await p95({ cluster: { instances: own } }), chunked)
    assert.equal(await p95({ cluster: { instances: own }, mode: 'decode-share' }), shared)
    assert.equal(
      await p95({ cluster: { instances: own }, chunkTokens: 64 }),
      await p95({ mode: 'chunked', chunkTokens: 64 }),
    )
  })

  it('refuses what goes with another engine mode', async () => {
    const wrong: [options: Partial<SimulateOptions>, message: RegExp][] = [
      [{ chunkTokens: 64 }, /`chunkTokens` needs engine mode "chunked", and no instance has it/],
      [{ mode: 'chunked', decodeShare: 0.5 }, /`decodeShare` needs engine mode "decode-share"/],
      [{ mode: 'chunked', compat: 'hexgen' }, /`compat` "hexgen" needs engine mode "prefill-first"/],
    ]
    for (const [options, message] of wrong) {
      await assert.rejects(simulate({ trace, cluster, ...options }), { code: 'ERR_LAXITY_OPTION', message })
    }
  })

  it('keeps calls when asked', async () => {
    const result = await simulate({ trace, cluster, perCall: true })
    const calls = result.calls(4)
    assert.equal(calls.length, trace.columns.firstCall[5]! - trace.columns.firstCall[4]!)
    for (const call of calls) {
      assert(
        call.readyMs <= call.leasedMs &&
          call.leasedMs < call.firstTokenMs &&
          call.firstTokenMs <= call.finishedMs,
      )
      assert(call.instance < 4)
    }
    const { arrivalMs, latencyMs } = result.workflow(4)
    const last = Math.max(...calls.map(({ finishedMs }) => finishedMs))
    assert(Math.abs(last - arrivalMs - latencyMs) < 1e-5)
    const { instances, stages } = result.stageMix()
    assert.equal(stages.length, 4)
    assert.equal(
      instances.reduce((sum, instance) => sum + instance.calls, 0),
      trace.calls,
    )
    for (const { shares } of instances) assert(Math.abs(shares.reduce((a, b) => a + b, 0) - 100) < 1e-9)
  })

  it('gives the same bytes inline and on a pool', async () => {
    const options: SimulateOptions = { trace, cluster, perCall: true, log: true, policy: 'vllm' }
    const inline = await simulate({ ...options, workers: 0 })
    const pooled = await simulate({ ...options, workers: 1 })
    assert.deepEqual([inline.timing.workers, pooled.timing.workers], [0, 1])
    assert.deepEqual(pooled.latencyMs, inline.latencyMs)
    assert.deepEqual(pooled.perCall, inline.perCall)
    assert.deepEqual(pooled.metrics, inline.metrics)
    assert(Buffer.from(pooled.log!).equals(inline.log!))
  })

  it('draws other arrivals for another replication or seed, the same for every policy', async () => {
    const arrivals = async (options: Partial<SimulateOptions>) =>
      Array.from((await simulate({ trace, cluster, ...options })).arrivalMs)
    const base = await arrivals({})
    assert.deepEqual(await arrivals({ policy: 'vllm' }), base)
    assert.notDeepEqual(await arrivals({ replication: 1 }), base)
    assert.notDeepEqual(await arrivals({ seed: 2 }), base)
  })

  it('reports option and cluster problems together, before it reads the trace', async () => {
    const bad = { trace: '/absent/trace.json', cluster: { instances: [] }, alpha: 2, rate: -1 }
    await assert.rejects(simulate(bad), (error: Error & { cause: AggregateError }) => {
      const places = error.cause.errors.map(({ place }: { place: string }) => place)
      assert.deepEqual(places.sort(), ['alpha', 'cluster.instances', 'rate'])
      return true
    })
  })

  it('refuses what the trace does not have', async () => {
    const plain = chains([[{ prompt: 10, output: 2 }]])
    const options = {
      trace: plain,
      cluster,
      knowledge: 'template',
      sloBase: 'template',
      arrivals: 'trace',
    } as const
    await assert.rejects(simulate(options), { code: 'ERR_LAXITY_OPTION', message: /^3 problems/ })
    const result = await simulate({ trace: plain, cluster })
    assert.equal(result.knowledge, 'online')
    const none = chains([[{ prompt: 10, output: 2 }]], { workflows: 0, calls: 0 })
    await assert.rejects(simulate({ trace: none, cluster }), { code: 'ERR_LAXITY_OPTION' })
    await assert.rejects(simulate({ trace: {} as TraceTable, cluster }), {
      code: 'ERR_LAXITY_OPTION',
      message: /`trace`/,
    })
  })

  it('expects more of a pessimistic template and derives the same SLOs from the mean one', async () => {
    const chess = await chessTrace({ workflows: 40, preset: 3, seed: 1 })
    const options: SimulateOptions = { trace: chess, cluster: 'hexgen-hetero-2', perCall: true, rate: 1 }
    const mean = await simulate(options)
    const pessimistic = await simulate({ ...options, template: 'pessimistic' })
    assert.deepEqual(pessimistic.baseMs, mean.baseMs)
    assert.notDeepEqual(pessimistic.perCall, mean.perCall)
    // Where nothing is told of the future, and where no order asks for it, the template does not matter.
    for (const without of [{ knowledge: 'online' }, { order: 'fcfs', placement: 'round-robin' }] as const) {
      const a = await simulate({ ...options, ...without })
      const b = await simulate({ ...options, ...without, template: 'pessimistic' })
      assert.deepEqual(b.perCall, a.perCall)
    }
    const plain = chains([[{ prompt: 10, output: 2 }]])
    await assert.rejects(simulate({ trace: plain, cluster, template: 'pessimistic' }), {
      code: 'ERR_LAXITY_OPTION',
      message: /`template` "pessimistic" needs a trace that ships one/,
    })
  })

  it('names a bad row of a table', async () => {
    const bad = chains([[{ prompt: 10, output: 2 }], [{ prompt: 10, output: 2 }, { prompt: 0, output: 2 }]]) // biome-ignore format: one line
    for (const workers of [0, 1]) {
      await assert.rejects(simulate({ trace: bad, cluster, workers }), {
        code: 'ERR_LAXITY_FIELD',
        message: /chains: workflow w1, call c1: /,
      })
    }
  })

  it('refuses a call that never fits', async () => {
    const large = chains([[{ prompt: 3_000_000, output: 2 }]])
    await assert.rejects(simulate({ trace: large, cluster }), {
      code: 'ERR_LAXITY_NEVER_FITS',
      message: /c0 of workflow w0/,
    })
  })

  it('does not start when its signal is aborted', async () => {
    const signal = AbortSignal.abort(new Error('enough'))
    await assert.rejects(simulate({ trace, cluster, signal }), { code: 'ERR_LAXITY_ABORTED' })
  })
})
