import assert from 'node:assert/strict'
import { RingScheduler } from '../../lib/scheduler/ring.ts'
import { LONG } from '../support/addon.ts'
import { assertEmpty, instances, virtual } from '../support/live.ts'
import { runOptions } from '../support/runs.ts'

describe('hazard: a million open workflows', function () {
  this.timeout(LONG ? 0 : 240_000)

  it('in the core: opened, each with a call, and closed again; nothing is left', () => {
    const million = 1_000_000
    const run = runOptions({ feedback: 'lease', order: 'fcfs', parameters: { queueLimit: 0 } })
    const latency = { kind: 'constants', prefillBaseMs: 0, prefillPerTokenMs: 1, decodeBaseMs: 1, decodePerSequenceMs: 0, decodePerContextMs: 0 } as const // biome-ignore format: one line
    const scheduler = new RingScheduler({ ...run, latencies: [latency], templates: [] }, 4096)
    scheduler.push({ t: 0, kind: 'instance', instance: 0, change: 0, role: 0, mode: 0, model: 0, latency: 0, maxSequences: 1, kvTokens: 1000, chunkTokens: 0, decodeShare: 0, linkPerToken: 0, linkLatency: 0 }) // biome-ignore format: one line
    let leases = 0
    const settle = () => {
      scheduler.decide()
      assert.equal(scheduler.refusals.length, 0)
    }
    const none = 0xffff_ffff
    for (let w = 0; w < million; w += 1) {
      const id = { workflow: w, workflowGeneration: 1 }
      scheduler.push({ t: w, kind: 'openWorkflow', ...id, tenant: w % 7, stageTemplate: -1, deadline: BigInt(w) + 10n ** 12n, remaining: -1 }) // biome-ignore format: one line
      // One call in a hundred, so that most workflows idle.
      if (w % 100 === 0)
        scheduler.push({ t: w, kind: 'reveal', ...id, call: w / 100, callGeneration: 1, stage: 0, model: 0, sequences: 1, frontier: 0, toolPending: 0, silent: 0, promptTokens: 10, predictedTokens: 5, predictedHigh: 5, cachedOn0: none, cachedTokens0: 0, cachedOn1: none, cachedTokens1: 0, remaining: -1, parents: [] }) // biome-ignore format: one line
      if (scheduler.pending > 4000) settle()
    }
    settle()
    assert.ok(scheduler.audit())
    for (let w = 0; w < million; w += 1) {
      const t = million + w
      if (w % 100 === 0) scheduler.push({ t, kind: 'cancel', call: w / 100, callGeneration: 1, epoch: 0 })
      scheduler.push({ t, kind: 'closeWorkflow', workflow: w, workflowGeneration: 1 })
      if (scheduler.pending > 4000) settle()
      leases += 1
    }
    settle()
    assert.equal(leases, million)
    assert.ok(scheduler.audit())
    // Every slot can be used again, under its next generation.
    for (const w of [0, 1, 499_999, million - 1])
      scheduler.push({ t: 3 * million, kind: 'openWorkflow', workflow: w, workflowGeneration: 2, tenant: 0, stageTemplate: -1, deadline: 10n ** 12n, remaining: -1 }) // biome-ignore format: one line
    settle()
  })

  it('through the API: memory per open workflow is bounded, and goes back', async () => {
    const count = LONG ? 1_000_000 : 100_000
    const { clock, scheduler } = virtual({ cluster: instances(2), workflowIdleMs: 0 })
    const before = process.memoryUsage().rss
    const open = []
    for (let w = 0; w < count; w += 1) {
      open.push(scheduler.workflow({ id: `w${w}`, sloMs: 1e6 }))
      if (w % 4000 === 0) await clock.advance(1)
    }
    await clock.advance(1)
    const perWorkflow = (process.memoryUsage().rss - before) / count
    assert.ok(perWorkflow < 3_000, `${perWorkflow} bytes per open workflow`)
    const lease = await open[count - 1]!.call({ promptTokens: 5 })
    lease.done({ outputTokens: 1 })
    for (const [w, workflow] of open.entries()) {
      workflow.end()
      if (w % 4000 === 0) await clock.advance(1)
    }
    await clock.advance(1)
    assertEmpty(scheduler)
  })
})
