import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { replayLog } from '../../lib/scheduler/replay.ts'
import type { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { code, instances, virtual, watch } from '../support/live.ts'
import { random } from '../support/runs.ts'

/** One stage after the other; each is served at once. */
async function run(
  scheduler: Scheduler,
  template: string,
  path: readonly (readonly [stage: string, promptTokens: number, outputTokens: number])[],
): Promise<void> {
  const workflow = scheduler.workflow({ template })
  for (const [stage, promptTokens, outputTokens] of path) {
    const lease = await workflow.call({ stage, promptTokens, maxOutputTokens: 5_000 })
    lease.done({ outputTokens })
  }
  workflow.end()
}

describe('a template that was declared without stages', () => {
  it('learns them: as many as half of the workflows reach, of each the one most had there', async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const next = random(seed)
      const upTo = (n: number) => Math.floor(next() * n)
      const { clock, scheduler } = virtual({ cluster: instances(2), templates: { chain: [], other: [] } })
      const paths: (readonly [string, number, number])[][] = []
      for (let n = 1; n <= 140; n += 1) {
        const path = Array.from(
          { length: 1 + upTo(6) },
          (_, i) => [`s${i}${'ab'[upTo(1.4)]}`, 50 + upTo(500), 1 + upTo(90)] as const,
        )
        paths.push(path)
        await run(scheduler, 'chain', path)
        await clock.advance(0)
        if (n < 64 ? (n & (n - 1)) !== 0 : n % 64 !== 0) continue
        const naive: [string, number][] = []
        for (let i = 0; ; i += 1) {
          const there = paths.filter((one) => one.length > i).map((one) => one[i]!)
          if (2 * there.length < n) break
          const by = new Map<string, number[]>()
          for (const [stage, prompt] of there) by.set(stage, [...(by.get(stage) ?? []), prompt])
          const [stage, prompts] = [...by].reduce((most, one) =>
            one[1].length > most[1].length ? one : most,
          )
          naive.push([stage, Math.floor(prompts.reduce((sum, one) => sum + one, 0) / prompts.length)])
        }
        const learned = scheduler.template('chain')
        assert.deepEqual(
          learned.map(({ stage, promptTokens }) => [stage, promptTokens]),
          naive,
          `seed ${seed}, ${n}`,
        )
        // Lengths are those of the predictor, for this template.
        for (const { stage, outputTokens } of learned)
          assert.equal(outputTokens, scheduler.lengths(stage, 'chain').mean, stage)
      }
      assert.deepEqual(scheduler.template('other'), [])
      assert.ok(scheduler.audit())
      await scheduler.close()
    }
  }).timeout(120_000)

  it('gives budgets from then on, also to workflows that are under way, and replays', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'laxity-template-'))
    const log = join(folder, 'log.jsonl')
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1 }),
      lookahead: 0,
      policy: 'hexgen-flow',
      receipts: true,
      templates: { chain: [], fixed: [{ stage: 'a', promptTokens: 10, outputTokens: 10 }] },
      log,
    })
    const budgetOf = async () => {
      const workflow = scheduler.workflow({ template: 'chain', sloMs: 10_000 })
      const lease = await workflow.call({ stage: 'plan', promptTokens: 100, outputTokens: 10 })
      lease.done({ outputTokens: 10 })
      workflow.end()
      await clock.advance(0)
      return lease.receipt!.budgetMs
    }
    assert.equal(await budgetOf(), 10_000)
    // A workflow of one stage was the first to teach it; two of two, and half of them have the second.
    for (let i = 0; i < 3; i += 1)
      await run(scheduler, 'chain', [
        ['plan', 100, 10],
        ['write', 100, 30],
      ])
    await clock.advance(0)
    assert.deepEqual(
      scheduler.template('chain').map(({ stage }) => stage),
      ['plan', 'write'],
    )
    // 10 + 90 ms of plan, 10 + 290 of write, and what the median says of their lengths.
    const budget = await budgetOf()
    assert.ok(budget > 2_000 && budget < 5_000, `${budget}`)
    // Declared ones stay as they are.
    await run(scheduler, 'fixed', [['b', 500, 5]])
    await clock.advance(0)
    assert.deepEqual(scheduler.template('fixed'), [{ stage: 'a', promptTokens: 10, outputTokens: 10 }])
    // Under way while the template changes: the key in the queue is the one that it would get anew.
    const holder = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    const waiting = scheduler.workflow({ template: 'chain', sloMs: 9_000 })
    const call = watch(waiting.call({ stage: 'plan', promptTokens: 100, outputTokens: 10 }))
    for (let i = 0; i < 3; i += 1) {
      const workflow = scheduler.workflow({ template: 'chain' })
      const one = watch(workflow.call({ stage: 'plan', promptTokens: 100, outputTokens: 10 }))
      await clock.advance(0)
      assert.ok(scheduler.audit())
      if (i === 0) holder.done()
      await clock.advance(0)
      call.value?.done({ outputTokens: 10 })
      await clock.advance(0)
      one.value?.done({ outputTokens: 10 })
      workflow.end()
      await clock.advance(0)
      assert.ok(scheduler.audit())
    }
    waiting.end()
    await scheduler.close()
    const result = await replayLog(log)
    assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
    assert.equal(await code(() => scheduler.template('nobody')), 'ERR_LAXITY_UNKNOWN')
    await rm(folder, { recursive: true })
  })
})
