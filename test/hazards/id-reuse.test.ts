import assert from 'node:assert/strict'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { LONG } from '../support/addon.ts'
import { assertEmpty, code, instances, virtual } from '../support/live.ts'
import { random } from '../support/runs.ts'

const CYCLES = LONG ? 300_000 : 5_000

describe('hazard: reuse of ids', function () {
  this.timeout(LONG ? 0 : 60_000)

  it('of workflows and calls: each life is its own, and what an old one says is not heard', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(2, { maxSequences: 4 }) })
    const old: Lease[] = []
    for (let life = 0; life < 200; life += 1) {
      const workflow = scheduler.workflow({ id: 'same' })
      const lease = await workflow.call({ id: 'call', promptTokens: 10 })
      assert.equal(
        scheduler.snapshot().instances.reduce((n, { leased }) => n + leased, 0),
        1,
      )
      for (const stale of old.slice(-5)) {
        stale.firstToken()
        stale.progress(3)
        stale.done({ outputTokens: 1 })
        void stale.failed({ status: 500 }).catch(() => {})
      }
      await clock.advance(1)
      assert.equal(
        scheduler.snapshot().instances.reduce((n, { leased }) => n + leased, 0),
        1,
        'still leased',
      )
      lease.done({ outputTokens: 5 })
      assert.equal(await code(workflow.call({ id: 'call', promptTokens: 10 })), 'ERR_LAXITY_DUPLICATE')
      workflow.end()
      await clock.advance(1)
      assert.equal(await code(workflow.call({ id: 'late', promptTokens: 1 })), 'ERR_LAXITY_CLOSED')
      old.push(lease)
    }
    assertEmpty(scheduler)
  })

  it('of slots: many lives share few of them', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(3, { maxSequences: 2 }) })
    const next = random(4)
    let started = 0
    let ended = 0
    const agent = async (name: string) => {
      while (started < CYCLES) {
        started += 1
        const controller = new AbortController()
        const { signal } = controller
        const workflow = scheduler.workflow({ id: name })
        const pending = workflow.call({ id: 'a', promptTokens: 1 + Math.floor(next() * 30), signal })
        if (next() < 0.1) {
          controller.abort()
          assert.match((await code(pending)) ?? 'none', /ERR_LAXITY_ABORTED|none/)
        } else {
          const lease = await pending
          if (next() < 0.8) lease.firstToken()
          if (next() < 0.1) {
            const again = await lease.failed({ status: 503 }).catch(() => null)
            again?.done({ outputTokens: 2 })
          } else {
            lease.done({ outputTokens: 1 + Math.floor(next() * 9) })
          }
        }
        workflow.end()
        ended += 1
      }
    }
    const agents = Promise.all(Array.from({ length: 16 }, (_, i) => agent(`w${i}`)))
    let over = false
    void agents.then(() => {
      over = true
    })
    while (!over) await clock.advance(5)
    await agents
    assert.equal(ended, started)
    assertEmpty(scheduler)
  })
})
