import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { assertEmpty, instances, LATENCY, virtual, watch } from '../support/live.ts'

describe('options of the live scheduler', () => {
  it('turns urgency into the priority of each engine: polarity, range, off by default', async () => {
    const engine = (id: string, priority?: object) => ({
      id,
      latency: LATENCY,
      kvTokens: 1000,
      model: id,
      ...(priority && { priority }),
    })
    const { scheduler } = virtual({
      policy: { order: 'urgency', placement: 'round-robin' },
      cluster: [
        engine('off'),
        engine('vllm', { sign: -1 }),
        engine('sglang', { sign: 1 }),
        engine('narrow', { sign: 1, min: -5, max: 0, divideBy: 1000 }),
      ],
    } as never)
    const priority = async (model: string, sloMs: number) =>
      (await scheduler.workflow({ sloMs }).call({ model, promptTokens: 10, outputTokens: 5 })).priority
    assert.equal(await priority('off', 1000), undefined)
    const tight = (await priority('vllm', 1_000))!
    const loose = (await priority('vllm', 60_000))!
    assert.ok(tight < loose, 'vLLM: smaller is earlier')
    assert.ok(
      (await priority('sglang', 1_000))! > (await priority('sglang', 60_000))!,
      'SGLang: larger is earlier',
    )
    assert.deepEqual([await priority('narrow', 3_000), await priority('narrow', 60_000)], [-3, -5])
  })

  it('passes through: everything is sent at once', async () => {
    const { clock, scheduler } = virtual({
      passThrough: true,
      cluster: instances(1, { maxSequences: 1, kvTokens: 100 }),
    })
    const workflow = scheduler.workflow()
    const calls = Array.from({ length: 200 }, () =>
      watch(workflow.call({ promptTokens: 40, outputTokens: 10, parents: [] })),
    )
    await clock.advance(0)
    assert.ok(calls.every(({ settled }) => settled))
  })

  it('bounds retries by their budget', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(4),
      parameters: { retryBudget: 0.5, breakerFaults: 0, faultPenaltyMs: 0 },
    })
    const attempt = async () =>
      (await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })).failed({ status: 500 })
    let retried = 0
    for (let i = 0; i < 30; i += 1) {
      const next = await attempt()
      if (next === null) continue
      retried += 1
      next.cancel()
    }
    assert.equal(retried, 10, 'the reserve')
    assert.equal(scheduler.snapshot().retriesRefused, 20)
    for (let i = 0; i < 4; i += 1)
      (await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })).done()
    await clock.advance(0)
    const again = await Promise.all([attempt(), attempt(), attempt()])
    assert.equal(again.filter((next) => next !== null).length, 2, 'half a retry per finished call')
  })

  it('backs off before a retry: a random part of a span that doubles, from the seed', async () => {
    const delays = async (tieSeed: number, calls: number) => {
      const { clock, scheduler } = virtual({
        cluster: instances(3, { maxSequences: 64 }),
        tieSeed,
        leaseTtlMs: 0,
        queueTimeoutMs: 0,
        parameters: { retryBackoffMs: 100, faultPenaltyMs: 0, breakerFaults: 0, retryBudget: 0 },
      })
      const first: number[] = []
      const second: number[] = []
      for (let i = 0; i < calls; i += 1) {
        let lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
        for (const list of [first, second]) {
          const failedOn = lease.instance
          const next = watch(lease.failed({ status: 500 }))
          await clock.advance(0)
          assert.equal(next.settled, false)
          const { nextWakeMs, nowMs, queued } = scheduler.snapshot()
          assert.equal(queued, 1)
          list.push(nextWakeMs! - nowMs)
          await clock.advance(list.at(-1)! - 0.001)
          assert.equal(next.settled, false)
          await clock.advance(0.002)
          lease = next.value!
          assert.notEqual(lease.instance, failedOn)
        }
        assert.equal(lease.epoch, 2)
        assert.equal(await lease.failed({ status: 500 }), null)
      }
      assert.ok(scheduler.audit())
      await scheduler.close()
      return { first, second }
    }
    const { first, second } = await delays(1, 400)
    const mean = (list: number[]) => list.reduce((sum, one) => sum + one, 0) / list.length
    for (const [list, span] of [
      [first, 100],
      [second, 200],
    ] as const) {
      assert.ok(list.every((delay) => delay > 0 && delay < span))
      // Uniform: the mean of 400 lies within 5 standard errors of the middle.
      assert.ok(Math.abs(mean(list) - span / 2) < (5 * span) / Math.sqrt(12 * list.length), `${mean(list)}`)
    }
    assert.deepEqual(await delays(1, 20), { first: first.slice(0, 20), second: second.slice(0, 20) })
    assert.notDeepEqual((await delays(2, 20)).first, first.slice(0, 20))
  })

  it('backs off from what it has to leave alone for longer, and gives up what waits when its workflow ends', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1), parameters: { retryBackoffMs: 50 } })
    const workflow = scheduler.workflow()
    const lease = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    const next = watch(lease.failed({ status: 429, retryAfterMs: 5_000 }))
    await clock.advance(4_999)
    assert.equal(next.settled, false)
    await clock.advance(1)
    assert.equal(next.value!.epoch, 1)
    const over = watch(next.value!.failed({ status: 500 }))
    await clock.advance(0)
    workflow.end()
    await clock.advance(1_000)
    assert.equal(over.value, null)
    await scheduler.close()
    assertEmpty(scheduler)
  })

  it('panics rather than serving nothing: open breakers are passed over below the share', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(4),
      parameters: { breakerFaults: 1, retryBudget: 0, panicShare: 0.4 },
    })
    const fail = async (id: string) => {
      for (;;) {
        const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
        if (lease.instance === id) {
          await lease.failed({ status: 500, clientBytes: 1 })
          await clock.advance(0)
          return
        }
        lease.done()
        // Make it the least loaded.
        scheduler.setPolicy({ order: 'fcfs', placement: 'round-robin' })
      }
    }
    const panics: unknown[] = []
    scheduler.on('panic', (panic) => panics.push(panic))
    const accepting = () => scheduler.snapshot().instances.filter(({ masked }) => !masked).length
    await fail('m0')
    await fail('m1')
    assert.deepEqual(
      scheduler.snapshot().instances.map(({ breaker }) => breaker),
      ['open', 'open', 'closed', 'closed'],
    )
    assert.equal(accepting(), 2)
    assert.deepEqual(panics, [])
    await fail('m2')
    assert.equal(accepting(), 4, 'one of four is below the share')
    assert.deepEqual(panics, [{ active: true, instances: ['m0', 'm1', 'm2'] }])
    const gauge = scheduler.metrics().find(({ name }) => name === 'laxity_panic')!
    assert.ok('values' in gauge && gauge.values[0]!.value === 3)
    await clock.advance(30_000)
    assert.deepEqual(panics.at(-1), { active: false, instances: [] })
    assert.ok(scheduler.audit())
    await scheduler.close()
  })

  it('finds leases that were garbage collected unclosed', async () => {
    setFlagsFromString('--expose-gc')
    const gc = runInNewContext('gc') as () => void
    const { clock, scheduler } = virtual({ detectLeaks: true })
    const leaks: { call: string; site: string | undefined }[] = []
    scheduler.on('leak', (leak) => leaks.push(leak))
    const workflow = scheduler.workflow()
    await (async () => {
      const forgotten: Lease = await workflow.call({ id: 'forgotten', promptTokens: 10, outputTokens: 5 })
      forgotten.firstToken()
    })()
    const kept = await workflow.call({ id: 'kept', promptTokens: 10, outputTokens: 5 })
    for (let i = 0; i < 50 && leaks.length === 0; i += 1) {
      gc()
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    assert.deepEqual(
      leaks.map(({ call }) => call),
      ['forgotten'],
    )
    assert.match(leaks[0]!.site!, /lease granted here/)
    kept.done()
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('ends named workflows that nobody uses, not those with calls', async () => {
    const { clock, scheduler } = virtual({ workflowIdleMs: 1_000, leaseTtlMs: 0 })
    const idle = scheduler.workflow({ id: 'idle' })
    const busy = scheduler.workflow({ id: 'busy' })
    const lease = await busy.call({ promptTokens: 10, outputTokens: 5 })
    await clock.advance(5_000)
    assert.deepEqual([idle.closed, busy.closed], [true, false])
    lease.done()
    await clock.advance(5_000)
    assert.equal(busy.closed, true)
    assertEmpty(scheduler)
    assert.equal(clock.timers, 0)
  })
})
