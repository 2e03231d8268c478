import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LaxityError } from '../../lib/errors.ts'
import { readLog } from '../../lib/scheduler/log.ts'
import { type Remaining, readRemaining } from '../../lib/scheduler/remaining.ts'
import { objects } from '../support/future.ts'
import { virtual } from '../support/live.ts'

function refusal(given: unknown): LaxityError {
  try {
    readRemaining(given)
  } catch (error) {
    assert(error instanceof LaxityError)
    assert.equal(error.code, 'ERR_LAXITY_FIELD')
    return error
  }
  assert.fail(`accepted ${JSON.stringify(given)}`)
}

describe('what is told of the time to come', () => {
  it('counts whole where it is exact or a lower quantile, and by exp(−2 sigma) where it is an estimate', () => {
    assert.deepEqual(readRemaining({ exactMs: 1500 }), { ns: 1.5e9, exact: true })
    assert.deepEqual(readRemaining({ exactMs: 0 }), { ns: 0, exact: true })
    assert.deepEqual(readRemaining({ quantileMs: 1500, q: 0.02 }), { ns: 1.5e9, exact: false })
    assert.deepEqual(readRemaining({ estimateMs: 1000, sigma: 0.5 }), { ns: 367_879_441, exact: false })
    assert.deepEqual(readRemaining(undefined), { ns: -1, exact: false })
  })

  it('refuses a mean, and says why', () => {
    for (const [given, got] of [
      [1200, 'got 1200'],
      [{ meanMs: 1200 }, 'got { meanMs }'],
      [{ estimateMs: 1200 }, 'got { estimateMs }'],
      [{ quantileMs: 1200 }, 'got { quantileMs }'],
    ] as const) {
      const { message, place } = refusal(given)
      assert(message.includes(got), message)
      assert.match(message, /a mean says nothing of how sure it is.*docs\/horizon\.md/)
      assert.equal(place, 'remaining')
    }
    assert.equal(refusal({ quantileMs: 1, q: 0.5 }).place, 'remaining.q')
    assert.match(refusal({ estimateMs: 1, sigma: 0 }).message, /of an exact time: \{ exactMs \}/)
  })

  it('reaches the log, with whether it is exact', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'laxity-remaining-'))
    try {
      const path = join(folder, 'log.jsonl')
      const { scheduler } = virtual({ log: path })
      const forms: Remaining[] = [{ exactMs: 20 }, { quantileMs: 20, q: 0.05 }, { estimateMs: 20, sigma: 1 }]
      for (const remaining of forms) {
        const workflow = scheduler.workflow({ remaining, predictedMs: 70 })
        await workflow.call({ promptTokens: 10, outputTokens: 5, remaining })
        workflow.update({ remaining })
        workflow.update({ predictedMs: 80 })
        workflow.end()
      }
      const plain = scheduler.workflow()
      await plain.call({ promptTokens: 10, outputTokens: 5 })
      plain.end()
      await scheduler.close({ drainMs: 0 })
      const events = objects((await readLog(path)).records)
      const of = (name: string) =>
        events
          .filter(({ kind }) => kind === name)
          .map(({ remaining, exactRemaining, predictedHorizon }) => [
            remaining,
            exactRemaining,
            predictedHorizon ?? 'none',
          ])
      const told = [
        [20e6, 1],
        [20e6, 0],
        [2_706_706, 0],
      ]
      assert.deepEqual(of('openWorkflow'), [...told.map((form) => [...form, 70e6]), [-1, 0, 0]])
      assert.deepEqual(of('reveal'), [...told.map((form) => [...form, 'none']), [-1, 0, 'none']])
      assert.deepEqual(
        of('updateWorkflow'),
        told.flatMap((form) => [
          [...form, 0],
          [-1, 0, 80e6],
        ]),
      )
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
