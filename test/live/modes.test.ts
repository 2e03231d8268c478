import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { shadowLog } from '../../lib/scheduler/shadow.ts'
import { assertEmpty, instances, LATENCY, virtual, watch } from '../support/live.ts'

const place = (field: string) => ({ code: 'ERR_LAXITY_FIELD', place: `cluster.instances[0].${field}` })

describe('engine modes of the live scheduler', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-modes-'))
  })
  after(() => rm(folder, { recursive: true }))

  /** Of a prompt of 700 tokens, 70 ms alone, beside a sequence that decodes. */
  async function prefillsEndMs(mode: object): Promise<number> {
    const { scheduler } = virtual({ cluster: instances(1, mode), lookahead: 0 })
    const workflow = scheduler.workflow()
    const first = await workflow.call({ promptTokens: 10, outputTokens: 50, parents: [] })
    first.firstToken()
    const second = await workflow.call({ promptTokens: 700, outputTokens: 50, parents: [] })
    const [instance] = scheduler.snapshot().instances
    for (const lease of [first, second]) lease.done()
    workflow.end()
    assertEmpty(scheduler)
    return instance!.prefillsEndMs
  }

  it('decode-share: a prefill beside decodes gets what they leave', async () => {
    assert.equal(await prefillsEndMs({}), 70)
    assert.equal(await prefillsEndMs({ mode: 'decode-share', decodeShare: 0.3 }), 100)
    assert.equal(await prefillsEndMs({ mode: 'decode-share' }), 140) // half by default
  })

  it('decode-share: logs replay, and shadow runs have such engines', async () => {
    const log = join(folder, 'share.jsonl')
    const { clock, scheduler } = virtual({
      cluster: instances(2, { mode: 'decode-share', decodeShare: 0.25 }),
      lookahead: 5,
      log,
    })
    const leases = await Promise.all(
      Array.from({ length: 6 }, (_, i) =>
        scheduler.workflow({ sloMs: 10_000 }).call({ promptTokens: 100 + i, outputTokens: 20 }),
      ),
    )
    for (const lease of leases) {
      lease.firstToken()
      await clock.advance(5)
      lease.done({ outputTokens: 20 })
    }
    await scheduler.close()
    const { decisions, matched } = await replayLog(log)
    assert.deepEqual([decisions, matched], [6, 6])
    const { own, other } = await shadowLog(log, 'hexgen-flow')
    assert.deepEqual([own.workflows, other.workflows], [6, 6])
  })

  it('prefill-first: prompts of one batch are leased together', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { prefillBatchTokens: 1_000 }),
      lookahead: 0,
    })
    const calls = Array.from({ length: 5 }, () =>
      watch(scheduler.workflow().call({ promptTokens: 300, outputTokens: 5 })),
    )
    await clock.advance(0)
    assert.equal(calls.filter(({ settled }) => settled).length, 3)
    for (const { value } of calls) value?.firstToken()
    await clock.advance(0)
    assert.ok(calls.every(({ settled }) => settled))
    for (const { value } of calls) value!.done()
    await scheduler.close()
  })

  for (const [instance, field] of [
    [{ mode: 'fast' }, 'mode'],
    [{ decodeShare: 0.5 }, 'decodeShare'],
    [{ mode: 'chunked', decodeShare: 0.5 }, 'decodeShare'],
    [{ mode: 'decode-share', decodeShare: 1 }, 'decodeShare'],
    [{ mode: 'decode-share', decodeShare: '0.5' }, 'decodeShare'],
    [{ mode: 'decode-share', chunkTokens: 512 }, 'chunkTokens'],
    [{ latency: undefined, kvTokens: undefined, prefillBatchTokens: 512 }, 'prefillBatchTokens'],
    [{ mode: 'decode-share', role: 'prefill', kvBytesPerToken: 1_000 }, 'mode'],
  ] as const) {
    it(`refuses ${JSON.stringify(instance)}`, async () => {
      const one = { latency: LATENCY, kvTokens: 1_000, ...instance }
      await assert.rejects(
        async () => virtual({ cluster: [one] as never }),
        (error: Error) => {
          const parts = error.cause instanceof AggregateError ? error.cause.errors : [error]
          const { code, place: at } = place(field)
          assert.ok(
            parts.some((part) => part.code === code && part.place === at),
            error.message,
          )
          return true
        },
      )
    })
  }
})
