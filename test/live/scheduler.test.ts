import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, code, instances, LATENCY, serve, virtual, watch } from '../support/live.ts'

describe('the live scheduler', () => {
  it('leases a call, takes its events and ends with nothing left', async () => {
    const { clock, scheduler } = virtual()
    const workflow = scheduler.workflow({ id: 'w', tenant: 'acme', sloMs: 60_000 })
    const lease = await workflow.call({ id: 'a', stage: 'revise', promptTokens: 1000, outputTokens: 80 })
    assert.ok(['m0', 'm1'].includes(lease.instance))
    assert.equal(lease.epoch, 0)
    assert.equal(lease.prefill, lease.instance)
    assert.equal(await lease.admitted(), lease.instance)
    lease.transferDone()
    assert.equal(
      scheduler.snapshot().instances.reduce((n, i) => n + i.leased, 0),
      1,
    )
    await serve(clock, lease, 80)
    workflow.end()
    assertEmpty(scheduler)
    assert.equal(clock.timers, 0, 'an empty scheduler needs no timer')
    assert.equal(scheduler.snapshot().workflows, 0)
  })

  it('treats all calls of one turn as one instant, and spreads them', async () => {
    const { scheduler } = virtual({ cluster: instances(4) })
    const workflow = scheduler.workflow()
    const leases = await Promise.all(
      Array.from({ length: 8 }, () => workflow.call({ promptTokens: 100, outputTokens: 10, parents: [] })),
    )
    const counts = new Map<string, number>()
    for (const { instance } of leases) counts.set(instance, (counts.get(instance) ?? 0) + 1)
    assert.deepEqual([...counts.values()], [2, 2, 2, 2])
    assert.equal(new Set(leases.map((lease) => lease.grantedAtMs)).size, 1)
  })

  it('holds a call until its parents are done; without parents, until nothing', async () => {
    const { clock, scheduler } = virtual()
    const workflow = scheduler.workflow()
    const a = await workflow.call({ id: 'a', promptTokens: 10, outputTokens: 5 })
    const b = watch(workflow.call({ id: 'b', promptTokens: 10, outputTokens: 5, parents: ['a'] }))
    const c = watch(workflow.call({ id: 'c', promptTokens: 10, outputTokens: 5, parents: [a, 'b'] }))
    await clock.advance(100)
    assert.deepEqual([b.settled, c.settled], [false, false])
    a.done({ outputTokens: 5 })
    await clock.advance(0)
    assert.deepEqual([b.settled, c.settled], [true, false])
    b.value!.done()
    await clock.advance(0)
    c.value!.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('gives the same call for the same id', async () => {
    const { clock, scheduler } = virtual()
    const workflow = scheduler.workflow({ id: 'w' })
    assert.equal(scheduler.workflow({ id: 'w' }), workflow)
    const options = { id: 'a', promptTokens: 10, outputTokens: 5 }
    const [x, y] = await Promise.all([workflow.call(options), workflow.call(options)])
    assert.equal(x, y)
    assert.equal(await workflow.call(options), x)
    x!.done()
    await clock.advance(0)
    assert.equal(await code(workflow.call(options)), 'ERR_LAXITY_DUPLICATE')
    workflow.end()
    assert.notEqual(scheduler.workflow({ id: 'w' }), workflow)
  })

  it('closes a lease exactly once, whatever is called how often', async () => {
    const { scheduler } = virtual()
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    assert.equal(lease.done({ outputTokens: 5 }), true)
    assert.equal(lease.done(), false)
    assert.equal(lease.cancel(), false)
    assert.equal(await lease.failed({ status: 500 }), null)
    lease.firstToken()
    lease.progress(3)
    workflow.end()
    workflow.end()
    assertEmpty(scheduler)
    const doubled = scheduler.metrics().find(({ name }) => name === 'laxity_lease_double_close_total')
    assert.equal(doubled?.kind === 'counter' && doubled.values[0]!.value, 3)
  })

  it('retries elsewhere, with the next epoch, at most twice', async () => {
    const { scheduler } = virtual({ cluster: instances(3) })
    const workflow = scheduler.workflow()
    const first = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    const second = await first.failed({ status: 502 })
    assert.equal(second!.epoch, 1)
    assert.equal(second!.id, first.id)
    assert.notEqual(second!.instance, first.instance)
    const third = await second!.failed({ error: new Error('ECONNRESET') })
    assert.equal(third!.epoch, 2)
    assert.equal(await third!.failed({ status: 500 }), null)
    workflow.end()
    await scheduler.close()
    assert.equal(scheduler.snapshot().activeCalls, 0)
  })

  it('does not retry after the first byte, nor what the client did wrong', async () => {
    const { scheduler } = virtual()
    const workflow = scheduler.workflow()
    const a = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    assert.equal(await a.failed({ status: 500, clientBytes: 1 }), null)
    const b = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    assert.equal(await b.failed({ status: 422 }), null)
    workflow.end()
  })

  it('cancels by a call’s signal and by the workflow’s, with one listener for all its calls', async () => {
    const { scheduler } = virtual({ cluster: instances(1, { maxSequences: 1 }), lookahead: 0 })
    const controller = new AbortController()
    let listeners = 0
    const { signal } = controller
    const add = signal.addEventListener.bind(signal)
    signal.addEventListener = ((...args: Parameters<typeof add>) => {
      listeners += 1
      add(...args)
    }) as typeof signal.addEventListener
    const workflow = scheduler.workflow({ signal })
    const leased = await workflow.call({ promptTokens: 10, outputTokens: 5, signal })
    const own = new AbortController()
    const waiting = workflow.call({ promptTokens: 10, outputTokens: 5, signal: own.signal })
    const other = workflow.call({ promptTokens: 10, outputTokens: 5, signal })
    own.abort()
    assert.equal(await code(waiting), 'ERR_LAXITY_ABORTED')
    assert.equal(leased.signal.aborted, false)
    controller.abort(new Error('user left'))
    assert.equal(await code(other), 'ERR_LAXITY_ABORTED')
    assert.equal(leased.signal.aborted, true)
    assert.equal(leased.closed, true)
    assert.equal(workflow.closed, true)
    assert.equal(listeners, 1)
    assertEmpty(scheduler)
    assert.equal(await code(() => scheduler.workflow({ signal })), 'ERR_LAXITY_ABORTED')
  })

  it('places again what an instance loses, and lets old leases find the new ones', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(2) })
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    scheduler.failInstance(lease.instance)
    assert.equal(lease.signal.aborted, true)
    const next = await lease.failed({ error: new Error('reset') })
    assert.equal(next!.epoch, 1)
    assert.notEqual(next!.instance, lease.instance)
    next!.done()
    await clock.advance(0)

    scheduler.restoreInstance(lease.instance)
    const again = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    scheduler.failInstance(again.instance)
    // The answer came after all: it counts, and the attempt that replaced it is finished with it.
    assert.equal(again.done({ outputTokens: 5 }), true)
    await clock.advance(1)
    workflow.end()
    assertEmpty(scheduler)
  })

  it('re-adopts the leases of an instance that leaves and returns', async () => {
    const { scheduler } = virtual({ cluster: instances(2) })
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    scheduler.removeInstance(lease.instance)
    assert.equal(await code(() => scheduler.removeInstance(lease.instance)), 'ERR_LAXITY_STATE')
    const index = Number(lease.instance.slice(1))
    scheduler.addInstance({ ...instances(2)[index]! })
    const back = scheduler.snapshot().instances[index]!
    assert.deepEqual([back.condition, back.leased], ['up', 1])
    assert.equal(await code(() => scheduler.addInstance(instances(2)[index]!)), 'ERR_LAXITY_STATE')
    lease.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('drains instances, and adds new kinds while it runs', async () => {
    const { scheduler } = virtual({ cluster: instances(1) })
    const workflow = scheduler.workflow()
    scheduler.drainInstance('m0')
    const waiting = watch(workflow.call({ promptTokens: 10, outputTokens: 5 }))
    await Promise.resolve()
    scheduler.snapshot()
    assert.equal(waiting.settled, false)
    scheduler.addInstance({ id: 'fast', latency: { ...LATENCY, decodeBaseMs: 1 }, kvTokens: 1000 })
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(waiting.value!.instance, 'fast')
    scheduler.addInstance({ url: 'http://plain:8000' })
    assert.equal(scheduler.snapshot().instances.length, 3)
    assert.equal(
      await code(() =>
        scheduler.addInstance({
          latency: { kind: 'table', prefill: [[1, 1]], decodeBaseMs: 1 },
          kvTokens: 5,
        }),
      ),
      'ERR_LAXITY_OPTION',
    )
  })

  it('serves several models, and adapters by mask', async () => {
    const { scheduler } = virtual({
      cluster: [
        { id: 'a', latency: LATENCY, kvTokens: 1000, model: 'small', adapters: ['sql'] },
        { id: 'b', latency: LATENCY, kvTokens: 1000, model: 'small' },
        { id: 'c', latency: LATENCY, kvTokens: 1000, model: 'large' },
      ],
    })
    const workflow = scheduler.workflow()
    const call = (model: string) => workflow.call({ model, promptTokens: 10, outputTokens: 5, parents: [] })
    const sql = await Promise.all(Array.from({ length: 2 }, () => call('sql')))
    assert.deepEqual(
      sql.map(({ instance }) => instance),
      ['a', 'a'],
    )
    assert.equal((await call('small')).instance, 'b')
    assert.equal((await call('large')).instance, 'c')
    assert.equal(await code(call('huge')), 'ERR_LAXITY_NO_INSTANCE')
    assert.equal(await code(workflow.call({ promptTokens: 1, outputTokens: 1 })), 'ERR_LAXITY_FIELD')
    assert.equal(
      await code(workflow.call({ model: 'large', promptTokens: 999, outputTokens: 5 })),
      'ERR_LAXITY_NEVER_FITS',
    )
  })

  it('reserves n sequences and n outputs', async () => {
    const { scheduler } = virtual({ cluster: instances(1) })
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 100, outputTokens: 50, n: 4 })
    const m = scheduler.snapshot().instances[0]!
    assert.deepEqual([m.leased, m.reservedKv], [4, 300])
    lease.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('switches policy and parameters while calls wait', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(2, { maxSequences: 1 }), lookahead: 0 })
    const workflow = scheduler.workflow({ sloMs: 60_000 })
    const pending = Array.from({ length: 10 }, () =>
      workflow.call({ promptTokens: 10, outputTokens: 5, parents: [] }),
    )
    const seen = pending.map(watch)
    await clock.advance(0)
    for (const policy of ['vllm', 'hexgen-flow', 'laxity', { order: 'fcfs', placement: 'global-queue' }]) {
      scheduler.setPolicy(policy)
      scheduler.setParameters({ alpha: 0.5, gamma: 1 })
      assert.ok(scheduler.audit())
      await clock.advance(1)
      for (const { value } of seen) if (value !== undefined && !value.closed) value.done({ outputTokens: 5 })
      await clock.advance(1)
    }
    assert.equal(await code(() => scheduler.setPolicy('best')), 'ERR_LAXITY_OPTION')
    assert.equal(await code(() => scheduler.setParameters({ alpha: 7 })), 'ERR_LAXITY_OPTION')
    assert.equal(await code(() => scheduler.setParameters({ beauty: 7 })), 'ERR_LAXITY_OPTION')
    while (seen.some(({ value }) => value === undefined || !value.closed)) {
      for (const { value } of seen) if (value !== undefined && !value.closed) value.done({ outputTokens: 5 })
      await clock.advance(1)
    }
    workflow.end()
    assertEmpty(scheduler)
  })

  it('switches between all orders and placements: what only some of them keep is derived anew', async () => {
    for (const mode of ['prefill-first', 'chunked'] as const) {
      const { clock, scheduler } = virtual({
        cluster: instances(3, { maxSequences: 2, mode }),
        lookahead: 1,
        parameters: { keepHorizons: 1, hopeless: 1, ageingMs: 400 },
      })
      const waiting: ReturnType<typeof watch<Lease>>[] = []
      const finish = (count: number) => {
        const open = waiting.filter(({ value }) => value !== undefined && !value.closed)
        for (const { value } of open.slice(0, count)) value!.done({ outputTokens: 7 })
      }
      const workflows = Array.from({ length: 4 }, (_, w) =>
        scheduler.workflow({ tenant: `t${w % 2}`, sloMs: w === 3 ? 30 : 60_000 }),
      )
      let n = 0
      for (const order of native.orders) {
        for (const placement of native.placements) {
          scheduler.setPolicy({ order, placement })
          assert.ok(scheduler.audit(), `${order} x ${placement}`)
          for (const workflow of workflows) {
            n += 1
            waiting.push(
              watch(workflow.call({ promptTokens: 10 + ((n * 37) % 400), outputTokens: 5, parents: [] })),
            )
          }
          await clock.advance(7)
          finish(3)
          assert.ok(scheduler.audit(), `${order} x ${placement}`)
          for (const { id } of scheduler.snapshot().instances) scheduler.queue(id)
          await clock.advance(5)
          finish(1)
        }
      }
      while (waiting.some(({ value }) => value === undefined || !value.closed)) {
        finish(10)
        await clock.advance(1)
        assert.ok(scheduler.audit())
      }
      for (const workflow of workflows) workflow.end()
      assertEmpty(scheduler)
    }
  }).timeout(120_000)

  it('drains on close, then cancels; asyncDispose closes', async () => {
    const { clock, scheduler } = virtual()
    const workflow = scheduler.workflow()
    const a = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    const b = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    const closed = scheduler.close({ drainMs: 1000 })
    assert.equal(await code(workflow.call({ promptTokens: 10 })), 'ERR_LAXITY_CLOSED')
    assert.equal(await code(() => scheduler.workflow()), 'ERR_LAXITY_CLOSED')
    await clock.advance(500)
    a.done()
    await clock.advance(600)
    assert.deepEqual(await closed, { drained: false, cancelled: 1 })
    assert.equal(b.signal.aborted, true)
    assert.equal(clock.timers, 0)
    assertEmpty(scheduler)

    let outer: Scheduler
    {
      await using inner = new Scheduler({ cluster: instances(1) })
      outer = inner
    }
    assert.equal(await code(() => outer.workflow()), 'ERR_LAXITY_CLOSED')
  })

  it('ends early when drained', async () => {
    const { clock, scheduler } = virtual()
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    const closed = watch(scheduler.close({ drainMs: 1e6 }))
    await clock.advance(10)
    assert.equal(closed.settled, false)
    lease.done()
    await clock.advance(0)
    assert.deepEqual(closed.value, { drained: true, cancelled: 0 })
  })

  it('estimates without submitting', async () => {
    const { scheduler } = virtual({
      cluster: [
        { id: 'slow', latency: LATENCY, kvTokens: 1000 },
        { id: 'fast', latency: { ...LATENCY, decodeBaseMs: 1 }, kvTokens: 1000 },
      ],
    })
    const before = scheduler.snapshot()
    const estimate = scheduler.estimate({ promptTokens: 100, outputTokens: 11 })
    assert.equal(estimate.instance, 'fast')
    assert.deepEqual(
      estimate.candidates.map(({ instance, execMs }) => [instance, execMs]),
      [
        ['slow', 110],
        ['fast', 20],
      ],
    )
    assert.deepEqual({ ...scheduler.snapshot(), nowMs: 0 }, { ...before, nowMs: 0 })
    assert.deepEqual(scheduler.estimate({ promptTokens: 5000, outputTokens: 1 }), {
      instance: undefined,
      candidates: [],
    })
  })

  it('keeps receipts on request', async () => {
    const receipts: unknown[] = []
    const { clock, scheduler } = virtual({ onReceipt: (receipt) => receipts.push(receipt) })
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 100, outputTokens: 11 })
    assert.equal(lease.receipt!.candidates.length, 2)
    assert.deepEqual(lease.receipt!.predicted, { ttftMs: 10, finishMs: 120 })
    await clock.advance(20)
    lease.firstToken()
    await clock.advance(100)
    lease.done({ outputTokens: 11 })
    assert.deepEqual(lease.receipt!.actual, { ttftMs: 20, finishMs: 120, errorMs: 0, outcome: 'ok' })
    assert.equal(receipts.length, 1)
  })
})
