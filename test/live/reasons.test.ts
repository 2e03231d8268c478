import assert from 'node:assert/strict'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { assertEmpty, instances, virtual, watch } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

const CALL = { promptTokens: 100, outputTokens: 10, parents: [] }

describe('why a call was leased where it was', () => {
  it('best-score, lookahead, only-feasible, affinity', async () => {
    const { clock, scheduler } = virtual({
      cluster: [...instances(2), { ...instances(1)[0]!, id: 'alone', model: 'rare' }],
      policy: { order: 'fcfs', placement: 'eft' },
      receipts: true,
      lookahead: 10,
    })
    const workflow = scheduler.workflow()
    const leases: Lease[] = []
    const call = async (more: object = {}) => {
      const lease = await workflow.call({ ...CALL, ...more })
      leases.push(lease)
      assert.equal(lease.receipt!.reason, lease.reason)
      return lease
    }
    const other = { model: 'common' }
    assert.equal((await call(other)).reason, 'best-score')
    assert.equal((await call({ model: 'rare' })).reason, 'only-feasible')
    assert.equal((await call({ model: 'rare' })).reason, 'lookahead')
    for (const lease of leases.splice(0)) lease.done()
    await clock.advance(0)
    const held = await call({ ...other, cachedTokens: { m1: 90 } })
    assert.deepEqual([held.instance, held.reason], ['m1', 'affinity'])
    held.firstToken()
    // Its prefix is there, but it is better off elsewhere.
    const busy = await Promise.all(Array.from({ length: 7 }, () => call({ ...other, outputTokens: 500 })))
    assert.ok(busy.every(({ reason }) => reason === 'best-score' || reason === 'lookahead'))
    // With the other one gone nothing else could serve it.
    for (const lease of leases.splice(0)) lease.done()
    scheduler.drainInstance('m0')
    assert.equal((await call({ ...other, cachedTokens: { m1: 90 } })).reason, 'only-feasible')
    for (const lease of leases) lease.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('probe and panic', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 4 }),
      parameters: { breakerFaults: 1, faultPenaltyMs: 0 },
    })
    const workflow = scheduler.workflow()
    const call = () => workflow.call(CALL)
    await (await call()).failed({ status: 500, clientBytes: 1 })
    const passed = await call()
    assert.equal(passed.reason, 'panic')
    passed.done()
    scheduler.setParameters({ panicShare: 0 })
    const probe = watch(call())
    await clock.advance(30_000)
    assert.equal(probe.value!.reason, 'probe')
    probe.value!.done()
    const second = await call()
    assert.equal(second.reason, 'probe')
    second.done()
    const after = await call()
    assert.equal(after.reason, 'only-feasible')
    after.done()
    const counted = scheduler.metrics().find(({ name }) => name === 'laxity_policy_decisions_total')!
    assert.ok('values' in counted)
    assert.deepEqual(
      counted.values.map(({ labels, value }) => [labels.reason, value]),
      [
        ['only-feasible', 2],
        ['panic', 1],
        ['probe', 2],
      ],
    )
    workflow.end()
    assertEmpty(scheduler)
  })

  it('probe and panic of the leg that decodes', async () => {
    const { clock, scheduler } = virtual({
      cluster: pairCluster(1, 1),
      parameters: { breakerFaults: 1, faultPenaltyMs: 0 },
    })
    const workflow = scheduler.workflow()
    const call = () => workflow.call(CALL)
    const first = await call()
    first.firstToken()
    assert.equal(first.reason, 'best-score')
    await first.failed({ status: 500, leg: 'decode', clientBytes: 1 })
    const passed = await call()
    assert.equal(passed.reason, 'panic')
    passed.done()
    scheduler.setParameters({ panicShare: 0 })
    const probe = watch(call())
    await clock.advance(30_000)
    assert.equal(probe.value!.reason, 'probe')
    probe.value!.done()
    await scheduler.close()
  })
})
