import assert from 'node:assert/strict'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { parseTelemetry } from '../../lib/scheduler/telemetry.ts'
import { assertEmpty, code, instances, LATENCY, virtual, watch } from '../support/live.ts'
import { random } from '../support/runs.ts'

const POLICIES = ['laxity', 'hexgen-flow', 'vllm', { order: 'fcfs', placement: 'global-queue' }]

function shares(leases: readonly Lease[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { instance } of leases) counts.set(instance, (counts.get(instance) ?? 0) + 1)
  return counts
}

/** Failure stories of real routers (numbers as in the reference on live scheduling), in virtual time. */
describe('hazard: outages of routers', () => {
  it('story 1: health checks during load leave the accounting alone', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(3) })
    const workflow = scheduler.workflow()
    const leases: Lease[] = []
    for (let i = 0; i < 12; i += 1)
      void workflow
        .call({ promptTokens: 50, outputTokens: 100, parents: [] })
        .then((lease) => leases.push(lease))
    await clock.advance(0)
    for (const lease of leases) lease.firstToken()
    for (let check = 0; check < 50; check += 1) {
      const before = scheduler
        .snapshot()
        .instances.map(({ leased, reservedKv, workMs }) => [leased, reservedKv, workMs])
      // A check that finds the instance healthy says so; one that fails to parse says nothing.
      for (let i = 0; i < 3; i += 1) {
        scheduler.restoreInstance(`m${i}`)
        scheduler.telemetry(`m${i}`, parseTelemetry(''))
      }
      await clock.advance(100)
      const now = scheduler
        .snapshot()
        .instances.map(({ leased, reservedKv, workMs }) => [leased, reservedKv, workMs])
      assert.deepEqual(now, before)
    }
    assert.equal(
      scheduler.snapshot().instances.reduce((n, { leased }) => n + leased, 0),
      leases.length,
    )
    for (const lease of leases) lease.done()
    await clock.advance(0)
  })

  it('story 2: no counter expires: ten minutes of long leases, shares stay even', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(4, { maxSequences: 64 }),
      leaseTtlMs: 0,
      policy: 'laxity',
    })
    const workflow = scheduler.workflow()
    const all: Lease[] = []
    const open: Lease[] = []
    for (let second = 0; second < 600; second += 1) {
      for (let i = 0; i < 2; i += 1) {
        const lease = await workflow.call({ promptTokens: 20, outputTokens: 500, parents: [] })
        lease.firstToken()
        all.push(lease)
        open.push(lease)
      }
      if (open.length > 100) for (const lease of open.splice(0, 2)) lease.done({ outputTokens: 500 })
      await clock.advance(1000)
      for (const { leased } of scheduler.snapshot().instances) assert.ok(leased >= 0)
    }
    for (const [, count] of shares(all))
      assert.ok(Math.abs(count / all.length - 0.25) <= 0.25 * 0.05, `${count}`)
    for (const lease of open) lease.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  for (const policy of POLICIES) {
    const name = typeof policy === 'string' ? policy : policy.placement
    // One shared queue: what has no credit waits, so only the leases can be spread.
    const shared = name === 'global-queue'
    it(`story 4: load counts from the lease, not from the answer: 100 long prefills without a response (${name})`, async () => {
      const { clock, scheduler } = virtual({
        policy,
        cluster: instances(8, { maxSequences: 64, kvTokens: 10_000_000 }),
        lookahead: shared ? 1 : 100,
      })
      const leases: Lease[] = []
      for (let i = 0; i < 100; i += 1) {
        const call = scheduler.workflow().call({ promptTokens: 32_000, outputTokens: 1 })
        void call.then((lease) => leases.push(lease))
        await clock.advance(0)
      }
      assert.equal(leases.length, shared ? 16 : 100)
      const most = Math.max(...shares(leases).values())
      assert.ok(most <= 2 * (leases.length / 8), `${most} of ${leases.length} on one of 8`)
    })

    it(`story 5: a burst of 500 in one turn spreads within one over 8 equal instances; seeds move the first (${name})`, async () => {
      const firsts = new Set<string>()
      for (const tieSeed of [0, 1, 2, 3, 4, 5]) {
        const { clock, scheduler } = virtual({
          policy,
          tieSeed,
          cluster: instances(8, { maxSequences: 128, kvTokens: 10_000_000 }),
          lookahead: shared ? 1 : 500,
        })
        const leases: Lease[] = []
        for (let i = 0; i < 500; i += 1)
          void scheduler
            .workflow()
            .call({ promptTokens: 100, outputTokens: 10 })
            .then((lease) => leases.push(lease))
        await clock.advance(0)
        assert.equal(leases.length, shared ? 16 : 500)
        for (const [, count] of shares(leases))
          assert.ok(Math.abs(count - leases.length / 8) <= 1, `${count}`)
        firsts.add(leases[0]!.instance)
      }
      // Round robin counts from the first by its own rule.
      assert.ok(firsts.size > 1 || name === 'vllm')
    })
  }

  it('story 6: a thousand bad requests trip nothing; backpressure only pauses; half-open needs an ok', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1, { maxSequences: 4 }) })
    const breakers: string[] = []
    scheduler.on('breaker', ({ to }) => breakers.push(to))
    const workflow = scheduler.workflow()
    const call = () => workflow.call({ promptTokens: 10, outputTokens: 10, parents: [] })
    for (let i = 0; i < 1000; i += 1) assert.equal(await (await call()).failed({ status: 400 }), null)
    assert.deepEqual(breakers, [])

    const pressed = await call()
    const retry = watch(pressed.failed({ status: 429, retryAfterMs: 2_000 }))
    await clock.advance(1_999)
    assert.equal(retry.settled, false)
    assert.equal(scheduler.snapshot().instances[0]!.breaker, 'closed')
    await clock.advance(1)
    assert.equal(retry.settled, true)
    retry.value!.done({ outputTokens: 10 })

    // Five faults open it. (The retries are spent on the way: bytes had reached the client.)
    for (let i = 0; i < 5; i += 1) await (await call()).failed({ status: 500, clientBytes: 1 })
    assert.equal(scheduler.snapshot().instances[0]!.breaker, 'open')
    // It is the only instance: with panic it still serves. Without, calls wait for half-open.
    scheduler.setParameters({ panicShare: 0 })
    const probe = watch(call())
    const second = watch(call())
    await clock.advance(29_999)
    assert.equal(probe.settled, false)
    await clock.advance(1)
    assert.deepEqual([probe.settled, second.settled], [true, false], 'one probe at a time')
    assert.equal(probe.value!.reason, 'probe')
    await probe.value!.failed({ status: 400 }) // neutral: still half-open, the next probe may go
    await clock.advance(0)
    assert.equal(scheduler.snapshot().instances[0]!.breaker, 'half-open')
    assert.equal(second.settled, true)
    second.value!.done({ outputTokens: 10 })
    await clock.advance(0)
    assert.equal(scheduler.snapshot().instances[0]!.breaker, 'half-open', 'two successes close it')
    ;(await call()).done({ outputTokens: 10 })
    await clock.advance(0)
    assert.equal(scheduler.snapshot().instances[0]!.breaker, 'closed')
    assert.deepEqual(breakers, ['open', 'half-open', 'closed'])
  })

  for (const policy of POLICIES) {
    const name = typeof policy === 'string' ? policy : policy.placement
    it(`story 7: an instance that fails in 1 ms gets under 2 % of the traffic and recovers within a half-open period (${name})`, async () => {
      const { clock, scheduler } = virtual({
        policy,
        cluster: instances(4, { maxSequences: 16 }),
        parameters: { retryBudget: 0 },
      })
      let broken = true
      let toBroken = 0
      let total = 0
      const run = async (lease: Lease): Promise<void> => {
        total += 1
        if (lease.instance === 'm0') toBroken += 1
        if (lease.instance === 'm0' && broken) {
          await sleep(1)
          const next = await lease.failed({ status: 503 })
          if (next !== null) await run(next)
          return
        }
        await sleep(2)
        lease.firstToken()
        await sleep(100)
        lease.done({ outputTokens: 10 })
      }
      const sleep = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms))
      const next = random(7)
      const second = async (calls: number) => {
        for (let i = 0; i < calls; i += 1) {
          void scheduler.workflow().call({ promptTokens: 20, outputTokens: 10 }).then(run)
          await clock.advance((1000 / calls) * (0.5 + next()))
        }
      }
      for (let i = 0; i < 60; i += 1) await second(40)
      assert.ok(toBroken / total < 0.02, `${toBroken} of ${total}`)
      broken = false
      toBroken = total = 0
      for (let i = 0; i < 31; i += 1) await second(40)
      toBroken = total = 0
      for (let i = 0; i < 10; i += 1) await second(40)
      assert.equal(scheduler.snapshot().instances[0]!.breaker, 'closed')
      // Placements that pack an idle cluster by ties favour m0; none may starve it.
      assert.ok(toBroken / total > 0.1, `after its recovery ${toBroken} of ${total}`)
    }).timeout(60_000)
  }

  it('story 10: telemetry that stops closes no gate', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1) })
    scheduler.telemetry('m0', { waiting: 500, running: 500, kvUsage: 1 })
    await clock.advance(1)
    const workflow = scheduler.workflow()
    const during = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    during.done()
    // A second sample, now with calls to price it by, then silence.
    scheduler.telemetry('m0', { waiting: 500, running: 500, kvUsage: 1 })
    assert.ok(scheduler.snapshot().instances[0]!.correctionMs > 0)
    await clock.advance(2_001)
    assert.equal(scheduler.snapshot().instances[0]!.correctionMs, 0, 'stale')
    const started = scheduler.nowMs
    const after = await workflow.call({ promptTokens: 10, outputTokens: 5 })
    assert.equal(scheduler.nowMs, started)
    after.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('story 10b: load that only telemetry sees counts while it is fresh', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(2),
      policy: { order: 'fcfs', placement: 'least-work-left' },
    })
    const workflow = scheduler.workflow()
    ;(await workflow.call({ promptTokens: 10, outputTokens: 5 })).done()
    const call = async () => {
      const lease = await workflow.call({ promptTokens: 10, outputTokens: 5, parents: [] })
      lease.done()
      await clock.advance(0)
      return lease.instance
    }
    assert.equal(await call(), 'm0')
    scheduler.telemetry('m0', { running: 10 })
    assert.equal(await call(), 'm1')
    scheduler.telemetry('m0', { running: 0 })
    assert.equal(await call(), 'm0')
    scheduler.telemetry('m0', { kvUsage: 1 })
    assert.equal(await call(), 'm0', 'an unknown number of requests is not zero and not many')
  })

  it('story 11: both names of a renamed metric are found; absent is unknown; a constant 0 with live leases warns', async () => {
    const page = (name: string) =>
      `# TYPE x gauge\n${name}{model_name="a",engine="0"} 0.25\n${name}{engine="1"} 0.5\nvllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n`
    assert.deepEqual(parseTelemetry(page('vllm:kv_cache_usage_perc')), { running: 7, kvUsage: 0.5 })
    assert.deepEqual(parseTelemetry(page('vllm:gpu_cache_usage_perc')), { running: 7, kvUsage: 0.5 })
    assert.deepEqual(parseTelemetry(page('vllm:renamed_again')), { running: 7 })
    const { clock, scheduler } = virtual()
    const warnings: string[] = []
    scheduler.on('warning', ({ message }) => warnings.push(message))
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    for (let s = 0; s <= 40; s += 1) {
      scheduler.telemetry(lease.instance, { kvUsage: 0 })
      await clock.advance(1000)
    }
    assert.equal(warnings.length, 1)
    assert.match(warnings[0]!, /KV usage of 0/)
  })

  it('story 13: no retry after the first byte', async () => {
    const { scheduler } = virtual()
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    lease.firstToken()
    assert.equal(await lease.failed({ error: new Error('ECONNRESET'), clientBytes: 17 }), null)
  })

  it('story 15: idle for ten minutes, then the first call is served', async () => {
    const { clock, scheduler } = virtual()
    ;(await scheduler.workflow({ id: 'w' }).call({ promptTokens: 10, outputTokens: 5 })).done()
    await clock.advance(600_000)
    const lease = await scheduler.workflow({ id: 'w' }).call({ promptTokens: 10, outputTokens: 5 })
    lease.done()
    await clock.advance(0)
    assert.equal(scheduler.snapshot().activeCalls, 0)
  })

  it('story 16: aborts in every state and throws in every callback leave no lease behind', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1, { maxSequences: 2 }), lookahead: 0 })
    for (const moment of ['before', 'revealed', 'waiting', 'leased', 'streaming', 'failed', 'done']) {
      const filler = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
      if (moment !== 'waiting') filler.done()
      const abort = new AbortController()
      const workflow = scheduler.workflow()
      if (moment === 'before') abort.abort()
      const promise = workflow.call({ promptTokens: 10, outputTokens: 5, signal: abort.signal })
      if (moment === 'revealed') abort.abort()
      const seen = watch(promise)
      await clock.advance(0)
      const { value } = seen
      if (moment === 'streaming') value!.firstToken()
      if (moment === 'failed') void value!.failed({ status: 500 }).catch(() => {})
      if (moment === 'done') value!.done()
      abort.abort()
      await clock.advance(0)
      filler.done()
      await clock.advance(0)
      assert.equal(scheduler.snapshot().activeCalls, 0, moment)
      assert.equal(scheduler.snapshot().instances[0]!.leased, 0, moment)
      // A handler that throws closes its lease by `using`.
      const thrown = await code(async () => {
        using lease = await workflow.call({ promptTokens: 10, outputTokens: 5 })
        lease.firstToken()
        throw Object.assign(new Error('handler'), { code: 'HANDLER' })
      })
      assert.equal(thrown, 'HANDLER')
      workflow.end()
      await clock.advance(0)
    }
    await clock.advance(5_000)
    assertEmpty(scheduler)
  })

  it('story 16b: a lease that nobody closes is lost after its TTL, not a fault of its instance', async () => {
    const { clock, scheduler } = virtual({ leaseTtlMs: 5_000 })
    const workflow = scheduler.workflow()
    const lost: unknown[] = []
    scheduler.on('lost', (event) => lost.push(event))
    const lease = await workflow.call({ id: 'a', promptTokens: 10, outputTokens: 5 })
    const child = watch(workflow.call({ promptTokens: 10, outputTokens: 5, parents: ['a'] }))
    await clock.advance(4_000)
    lease.progress()
    await clock.advance(4_999)
    assert.equal(lease.closed, false)
    await clock.advance(1)
    assert.equal(lease.closed, true)
    assert.equal(lease.signal.aborted, true)
    assert.equal(lost.length, 1)
    assert.equal(child.settled, true, 'finished for its children')
    assert.equal(
      scheduler.snapshot().instances.every(({ breaker }) => breaker === 'closed'),
      true,
    )
    assert.equal(lease.done(), false)
    child.value!.done()
    workflow.end()
    assertEmpty(scheduler)
  })

  it('story 17: a call that is tried again keeps its place: its debt is real', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1 }),
      lookahead: 0,
      policy: { order: 'fcfs', placement: 'round-robin' },
    })
    const first = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    await clock.advance(10)
    const later = Array.from({ length: 5 }, () =>
      watch(scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })),
    )
    await clock.advance(10)
    const again = await first.failed({ status: 500 })
    assert.equal(again!.epoch, 1)
    await clock.advance(10)
    assert.deepEqual(
      later.map(({ settled }) => settled),
      [false, false, false, false, false],
    )
    again!.done()
    await clock.advance(0)
    assert.deepEqual(
      later.map(({ settled }) => settled),
      [true, false, false, false, false],
    )
  })

  it('story 18: one fresh instance among eight does not draw the misses', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(7, { maxSequences: 32 }) })
    const next = random(18)
    const session = scheduler.workflow()
    const sleep = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms))
    const counts = new Map<string, number>()
    const run = async (lease: Lease) => {
      counts.set(lease.instance, (counts.get(lease.instance) ?? 0) + 1)
      await sleep(5)
      lease.firstToken()
      await sleep(400)
      lease.done({ outputTokens: 40 })
    }
    const load = async (ms: number) => {
      for (let t = 0; t < ms; t += 20) {
        // Half of the calls have their prefix somewhere, the rest miss.
        const cachedTokens = next() < 0.5 ? { [`m${Math.floor(next() * 7)}`]: 900 } : undefined
        void session
          .call({ promptTokens: 1000, outputTokens: 40, parents: [], ...(cachedTokens && { cachedTokens }) })
          .then(run)
        await clock.advance(20)
      }
    }
    await load(5_000)
    scheduler.addInstance({ id: 'm7', latency: LATENCY, kvTokens: 100_000, maxSequences: 32 })
    counts.clear()
    await load(60_000)
    const total = [...counts.values()].reduce((a, b) => a + b)
    assert.ok(counts.get('m7')! <= (2 * total) / 8, `${counts.get('m7')} of ${total}`)
  }).timeout(60_000)

  it('story 19: an instance that leaves and returns in one turn keeps its leases, once', async () => {
    const { scheduler } = virtual({ cluster: instances(2) })
    const workflow = scheduler.workflow()
    const leases = await Promise.all(
      Array.from({ length: 4 }, () => workflow.call({ promptTokens: 100, outputTokens: 5, parents: [] })),
    )
    const before = scheduler
      .snapshot()
      .instances.map(({ leased, reservedKv, workMs }) => [leased, reservedKv, workMs])
    scheduler.removeInstance('m0')
    scheduler.addInstance(instances(2)[0]!)
    const after = scheduler
      .snapshot()
      .instances.map(({ leased, reservedKv, workMs }) => [leased, reservedKv, workMs])
    assert.deepEqual(after, before)
    for (const lease of leases) lease.done()
    workflow.end()
    assertEmpty(scheduler)
  })
})

describe('hazard: queues without bound', () => {
  it('rejects beyond the limits, in all and per tenant, with a time to come back', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1 }),
      lookahead: 0,
      queueLimit: 5,
      tenantQueueLimit: 3,
    })
    const calls = (tenant: string, count: number) =>
      Array.from({ length: count }, () =>
        watch(scheduler.workflow({ tenant }).call({ promptTokens: 10, outputTokens: 100 })),
      )
    const a = calls('a', 6)
    await clock.advance(0)
    // One is leased, three wait, two are too many for the tenant.
    assert.deepEqual(
      a.map(({ error }) => (error as { code?: string })?.code?.slice(11)),
      [undefined, undefined, undefined, undefined, 'QUEUE_FULL', 'QUEUE_FULL'],
    )
    const b = calls('b', 3)
    await clock.advance(0)
    assert.equal(b.filter(({ error }) => error !== undefined).length, 1)
    const { retryAfterMs } = b.find(({ error }) => error !== undefined)!.error as { retryAfterMs: number }
    assert.ok(retryAfterMs >= 100 && retryAfterMs <= 60_000)
    assert.equal(scheduler.snapshot().queued, 5)
    assert.ok(scheduler.audit())
  })

  it('gives up after the queue timeout, in one wake', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1 }),
      lookahead: 0,
      queueTimeoutMs: 1_000,
    })
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 100 })
    const waiting = watch(scheduler.workflow().call({ promptTokens: 10, outputTokens: 100 }))
    await clock.advance(999)
    assert.equal(waiting.settled, false)
    assert.equal(clock.timers, 1)
    await clock.advance(1)
    assert.equal((waiting.error as { code: string }).code, 'ERR_LAXITY_QUEUE_TIMEOUT')
    lease.done()
    await clock.advance(0)
    assert.equal(scheduler.snapshot().activeCalls, 0)
  })

  it('runs, demotes or rejects what would miss its deadline even on an idle instance', async () => {
    for (const hopeless of ['run', 'demote', 'reject'] as const) {
      const { clock, scheduler } = virtual({
        cluster: instances(1, { maxSequences: 1 }),
        lookahead: 0,
        hopeless,
        policy: { order: 'urgency', placement: 'round-robin' },
      })
      const running = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 100 })
      // Takes 1 + 990 ms alone: hopeless from 9 ms on.
      const tight = watch(scheduler.workflow({ sloMs: 1_000 }).call({ promptTokens: 10, outputTokens: 100 }))
      const loose = watch(scheduler.workflow({ sloMs: 60_000 }).call({ promptTokens: 10, outputTokens: 100 }))
      await clock.advance(9)
      assert.equal(tight.settled, false)
      await clock.advance(1)
      if (hopeless === 'reject') {
        assert.equal((tight.error as { code: string }).code, 'ERR_LAXITY_DEADLINE')
        continue
      }
      running.done()
      await clock.advance(0)
      assert.deepEqual([tight.settled, loose.settled], hopeless === 'run' ? [true, false] : [false, true])
      ;(tight.value ?? loose.value)!.done()
      await clock.advance(0)
      assert.deepEqual([tight.settled, loose.settled], [true, true])
    }
  })
})

describe('learning while it runs', () => {
  it('predicts output lengths per stage; a hint wins, max_tokens bounds', async () => {
    const { scheduler } = virtual({ cluster: instances(1, { maxSequences: 64 }) })
    const workflow = scheduler.workflow()
    const next = random(3)
    const kv = async (options: object) => {
      const lease = await workflow.call({ promptTokens: 100, parents: [], ...options })
      const { reservedKv } = scheduler.snapshot().instances[0]!
      lease.done({ outputTokens: 1 })
      return reservedKv - 100
    }
    assert.equal(await kv({ stage: 'unseen', outputTokens: 7 }), 7)
    for (let i = 0; i < 500; i += 1) {
      for (const [stage, mean] of [
        ['short', 20],
        ['long', 400],
      ] as const) {
        const lease = await workflow.call({ stage, promptTokens: 100, parents: [] })
        lease.done({ outputTokens: Math.max(1, Math.round(mean * (0.5 + next()))) })
      }
    }
    scheduler.snapshot()
    const short = scheduler.lengths('short')
    const long = scheduler.lengths('long')
    assert.ok(
      Math.abs(short.mean - 20) <= 1 && Math.abs(long.mean - 400) <= 12,
      `${short.mean}, ${long.mean}`,
    )
    assert.ok(
      short.high >= 27 && short.high <= 32 && long.high >= 540 && long.high <= 620,
      `${short.high}, ${long.high}`,
    )
    assert.ok(long.meanAbsoluteError > 80 && long.meanAbsoluteError < 130, `${long.meanAbsoluteError}`)
    assert.ok(long.aboveHigh < 0.12)
    assert.equal(await kv({ stage: 'long' }), long.mean)
    assert.equal(await kv({ stage: 'long', maxOutputTokens: 50 }), 50)
    assert.equal(await kv({ stage: 'long', outputTokens: 9 }), 9)
  })

  it('learns the speed of backends of which only the URL is known', async () => {
    const { clock, scheduler } = virtual({
      cluster: [{ url: 'http://fast:8000' }, { url: 'http://slow:8000' }],
      policy: { order: 'fcfs', placement: 'least-work-left' },
    })
    const workflow = scheduler.workflow()
    const speed = { 'http://fast:8000': [0.02, 5], 'http://slow:8000': [0.2, 50] } as Record<
      string,
      [number, number]
    >
    for (let i = 0; i < 60; i += 1) {
      const lease = await workflow.call({ promptTokens: 1000, outputTokens: 101, parents: [] })
      const [prefill, decode] = speed[lease.url!]!
      await clock.advance(1000 * prefill)
      lease.firstToken()
      await clock.advance(100 * decode)
      lease.done({ outputTokens: 101 })
      await clock.advance(0)
      if (i % 2 === 0) {
        // Keep both in use while nothing is known.
        const other = Object.keys(speed).find((url) => url !== lease.url)!
        scheduler.drainInstance(lease.instance)
        const forced = await workflow.call({ promptTokens: 1000, outputTokens: 101, parents: [] })
        assert.equal(forced.url, other)
        await clock.advance(1000 * speed[other]![0])
        forced.firstToken()
        await clock.advance(100 * speed[other]![1])
        forced.done({ outputTokens: 101 })
        scheduler.restoreInstance(lease.instance)
      }
    }
    for (const { id, prefillMsPerToken, decodeMs } of scheduler.snapshot().instances) {
      const [prefill, decode] = speed[id]!
      assert.ok(
        Math.abs(prefillMsPerToken / prefill - 1) < 0.15,
        `${id}: ${prefillMsPerToken} for ${prefill}`,
      )
      assert.ok(Math.abs(decodeMs / decode - 1) < 0.15, `${id}: ${decodeMs} for ${decode}`)
    }
    assert.equal(scheduler.estimate({ promptTokens: 1000, outputTokens: 101 }).instance, 'http://fast:8000')
  })
})
