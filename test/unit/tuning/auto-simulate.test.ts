import assert from 'node:assert/strict'
import type { AutoTuneOptions } from '../../../lib/index.ts'
import { chessTrace, generateWorkload, simulate } from '../../../lib/index.ts'
import { replay } from '../../../lib/scheduler/replay.ts'
import { code } from '../../support/live.ts'

const QUICK: AutoTuneOptions = { replications: 4, calibrationRuns: 2 }

describe('auto-tuning in a simulation', () => {
  const run = async (more: Partial<Parameters<typeof simulate>[0]> = {}) =>
    simulate({
      trace: await chessTrace({ workflows: 260, preset: 1, seed: 3 }),
      cluster: 'hexgen-hetero-2',
      policy: 'hexgen-flow',
      rate: 0.5,
      seed: 3,
      alpha: 1,
      autoTune: QUICK,
      ...more,
    })

  it('leaves a bad value, says why, and reports the regret against the best fixed one', async () => {
    const { tuning, metrics } = await run()
    assert.ok(tuning !== undefined)
    const applied = tuning.events.find(({ kind }) => kind === 'applied')
    assert.ok(applied !== undefined)
    assert.equal(applied.from, 1)
    assert.ok(applied.to < 1 && applied.gain > 0.3 && applied.p <= 0.005 && applied.regret > 0.3)
    assert.equal(tuning.fixed.length, 11)
    assert.equal(tuning.best.p95Ms, Math.min(...tuning.fixed.map(({ p95Ms }) => p95Ms)))
    assert.ok(Math.abs(tuning.regret - (metrics.p95Ms / tuning.best.p95Ms - 1)) < 1e-12)
    const alone = tuning.fixed.find(({ value }) => value === 1)!
    assert.ok(metrics.p95Ms < alone.p95Ms, 'better than staying')
    assert.equal((await run({ autoTune: undefined })).metrics.p95Ms, alone.p95Ms)
  })

  it('is the same in a worker, and its log replays without a tuner', async () => {
    const here = await run({ workers: 0 })
    const there = await run({ workers: 1, log: true })
    assert.deepEqual(there.tuning, here.tuning)
    assert.deepEqual(there.latencyMs, here.latencyMs)
    const result = replay({ header: there.logHeader!, records: there.log! })
    assert.ok(result.decisions > 1000)
    assert.equal(result.matched, result.decisions)
    assert.equal(result.firstMismatch, undefined)
  })

  it('notices a lost instance, and a slow one, that only the script knows of', async () => {
    const { tuning } = await run({
      alpha: 0.2,
      script: [
        { atMs: 200_000, instance: 0, kind: 'down' },
        { atMs: 300_000, instance: 0, kind: 'up' },
        { atMs: 400_000, instance: 1, kind: 'speed', factor: 2 },
      ],
    })
    const triggers = tuning!.events.filter(({ kind }) => kind === 'trigger')
    const at = (ms: number) =>
      triggers.some((e) => e.reason === 'instance' && e.instance === 0 && e.atMs === ms)
    assert.ok(at(200_000) && at(300_000))
    const slow = triggers.find(({ reason }) => reason === 'service-up')
    assert.ok(slow !== undefined && slow.instance === 1)
    assert.ok(slow.atMs >= 400_000 && slow.atMs < 600_000)
    assert.ok(slow.statistic > slow.threshold)
  })

  it('tunes any numeric parameter', async () => {
    const { tuning } = await run({
      policy: 'laxity',
      alpha: undefined,
      autoTune: { ...QUICK, parameter: 'gamma', values: '0:1:0.5' },
    })
    assert.equal(tuning!.parameter, 'gamma')
    assert.deepEqual(
      tuning!.fixed.map(({ value }) => value),
      [0, 0.5, 1],
    )
    assert.ok(tuning!.events.length > 0)
  })

  it('tunes on prefill-decode clusters and with prefix caches', async () => {
    const paired = await run({
      trace: await generateWorkload('mixed', { workflows: 150, seed: 3 }),
      cluster: 'hexagent-hetero-1',
      policy: { order: 'plas', placement: 'earliest-finish' },
      alpha: undefined,
      rate: 1,
      autoTune: { ...QUICK, windowMs: 20_000, parameter: 'serviceLevelMs', values: [100, 10_000] },
    })
    assert.ok(paired.tuning!.events.some(({ kind }) => kind !== 'trigger'))
    assert.deepEqual(
      paired.tuning!.fixed.map(({ value }) => value),
      [100, 10_000],
    )
    const trace = await chessTrace({ workflows: 200, preset: 1, seed: 3 })
    const cachedTokens = trace.columns.promptTokens.map((tokens) => Math.floor(tokens / 2))
    const cached = {
      trace: { ...trace, columns: { ...trace.columns, cachedTokens } },
      cluster: { instances: [{ gpu: 'a100', count: 2, prefixCacheTokens: 200_000 }, { gpu: 'l40s' }] },
    }
    const { tuning, cache } = await run(cached)
    assert.ok(cache!.hits > 100)
    assert.ok(tuning!.events.some(({ kind }) => kind !== 'trigger'))
    assert.equal(await code(run({ ...cached, knowledge: 'oracle' })), 'ERR_LAXITY_OPTION')
  })

  it('declines what makes no sense, with its place', async () => {
    const fails = async (more: object, place: string) => {
      const error = (await run(more).then(
        () => assert.fail('accepted'),
        (e) => e,
      )) as { code: string; message: string; place?: string }
      assert.equal(error.code, 'ERR_LAXITY_OPTION')
      assert.ok(error.message.includes(place), error.message)
    }
    await fails({ autoTune: { parameter: 'gama' } }, 'gama')
    await fails({ autoTune: { parameter: 'gamma' } }, 'autoTune.values')
    await fails({ autoTune: { values: [0.5] } }, 'autoTune.values')
    await fails({ autoTune: { values: [0.5, 2] } }, 'autoTune')
    await fails({ autoTune: { windowMs: 0 } }, 'autoTune.windowMs')
    await fails({ autoTune: { significance: 0 } }, 'autoTune.significance')
    await fails({ autoTune: { detectors: ['luck'] } }, 'autoTune.detectors')
    await fails({ autoTune: { windw: 5 } }, 'autoTune.windw')
    await fails({ autoTune: 7 }, 'autoTune')
    await fails({ script: [{ atMs: 5, instance: 0, kind: 'gone' }] }, 'script[0].kind')
    await fails({ script: [{ atMs: 5, instance: 0, kind: 'speed' }] }, 'script[0].factor')
    await fails({ script: 3 }, 'script')
    await fails({ script: [null] }, 'script[0]')
    await fails({ script: [{ atMs: 5, instance: 0.5, kind: 'down' }] }, 'script[0].instance')
    await fails(
      {
        script: [
          { atMs: 5, instance: 0, kind: 'down' },
          { atMs: 4, instance: 0, kind: 'up' },
        ],
      },
      'script[1].atMs',
    )
    assert.equal(
      await code(run({ script: [{ atMs: 5, instance: 9, kind: 'down' }], autoTune: undefined })),
      'ERR_LAXITY_NATIVE',
    )
  })
})
