import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { native } from '../../lib/native.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import type { LivePairs } from '../../lib/scheduler/read-pairs.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, code, instances, virtual, watch } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'
import { random } from '../support/runs.ts'

describe('the live scheduler on prefill-decode clusters', () => {
  it('leases a pair, gives room to decode, and ends with nothing left', async () => {
    const { clock, scheduler } = virtual({
      cluster: pairCluster(1, 1, { d: { kvTokens: 500 } }),
      lookahead: 0,
    })
    const workflow = scheduler.workflow({ sloMs: 60_000 })
    const call = () => workflow.call({ promptTokens: 300, outputTokens: 50, parents: [] })
    const first = await call()
    assert.deepEqual(
      [first.instance, first.prefill, first.decode, first.paired, first.resumed],
      ['p0', 'p0', 'd0', true, false],
    )
    assert.equal(await first.admitted(), 'd0') // room is there at once
    const second = watch(call())
    await clock.advance(10)
    assert.equal(second.settled, false) // one prefill at a time
    first.firstToken()
    await clock.advance(0)
    const lease = second.value!
    const room = watch(lease.admitted())
    const at = (id: string) => scheduler.snapshot().instances.find((i) => i.id === id)!
    // The first prompt's KV is on p until it has moved; d has room for one.
    assert.deepEqual([at('p0').reservedKv, at('d0').reservedKv, at('d0').admittedKv], [600, 700, 350])
    assert.deepEqual([at('p0').role, at('d0').role], ['prefill', 'decode'])
    first.transferDone()
    first.transferDone()
    await clock.advance(0)
    assert.equal(at('p0').reservedKv, 300)
    lease.firstToken()
    await clock.advance(100)
    assert.equal(room.settled, false)
    assert.equal(first.done({ outputTokens: 50 }), true)
    await clock.advance(0)
    assert.equal(room.value, 'd0')
    assert.equal(await lease.admitted(), 'd0')
    lease.done() // implies the transfer
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('admits at once where engines do it themselves', async () => {
    const { clock, scheduler } = virtual({
      cluster: pairCluster(1, 1, { d: { kvTokens: 500 } }),
      pairs: { decodeAdmission: 'engine' },
      lookahead: 0,
    })
    const workflow = scheduler.workflow()
    for (let i = 0; i < 3; i += 1) {
      const lease = await workflow.call({ promptTokens: 300, outputTokens: 50, parents: [] })
      assert.equal(await lease.admitted(), 'd0')
      lease.firstToken()
    }
    assert.equal(scheduler.snapshot().instances[1]!.reservedKv, 1050)
    await scheduler.close()
    await clock.advance(0)
  })

  it('goes on elsewhere when the second leg fails and the KV is still there; else it prefills again', async () => {
    for (const kvOnPrefill of [true, false]) {
      const { clock, scheduler } = virtual({ cluster: pairCluster(2, 2) })
      const workflow = scheduler.workflow()
      const lease = await workflow.call({ promptTokens: 300, outputTokens: 50 })
      const d = await lease.admitted()
      lease.firstToken()
      await clock.advance(5)
      const next = (await lease.failed({ status: 500, leg: 'decode', kvOnPrefill }))!
      assert.equal(next.resumed, kvOnPrefill)
      assert.equal(next.epoch, kvOnPrefill ? 0 : 1)
      assert.notEqual(await next.admitted(), d)
      if (kvOnPrefill) assert.equal(next.prefill, lease.prefill)
      assert.equal(lease.done(), false)
      next.firstToken()
      next.transferDone()
      next.done({ outputTokens: 9 })
      workflow.end()
      await clock.advance(2_000)
      assertEmpty(scheduler)
    }
  })

  it('avoids the instance that failed, of either role', async () => {
    for (const policy of ['laxity', { order: 'fcfs', placement: 'least-loaded' }] as const) {
      for (const leg of ['prefill', 'decode', 'link'] as const) {
        const { scheduler } = virtual({ cluster: pairCluster(2, 2), policy })
        const workflow = scheduler.workflow()
        const lease = await workflow.call({ promptTokens: 300, outputTokens: 50 })
        await lease.admitted()
        const next = (await lease.failed({ error: new Error('reset'), leg }))!
        assert.equal(next.epoch, 1)
        if (leg === 'prefill') assert.notEqual(next.prefill, lease.prefill)
        else assert.notEqual(next.decode, lease.decode)
        next.done()
        await scheduler.close()
      }
    }
  })

  for (const policy of [
    'hexagent',
    { order: 'fcfs', placement: 'least-loaded' },
    { order: 'edf', placement: 'round-robin', binding: 'at-credit' },
  ] as const) {
    const name = typeof policy === 'string' ? policy : policy.placement
    it(`opens the breaker of the decode instance that fails, probes it, closes it (${name})`, async () => {
      const { clock, scheduler } = virtual({
        cluster: pairCluster(2, 2),
        policy,
        parameters: { retryBudget: 0, breakerOpenMs: 5_000 },
      })
      const moves: string[] = []
      scheduler.on('breaker', ({ instance, from, to }) => moves.push(`${instance}: ${from} to ${to}`))
      const workflow = scheduler.workflow()
      let served = 0
      const run = async (broken: boolean) => {
        let lease = await workflow.call({ promptTokens: 100, outputTokens: 10, parents: [] })
        for (;;) {
          lease.firstToken()
          const d = await lease.admitted()
          if (d !== 'd0' || !broken) break
          const next = await lease.failed({ status: 500, leg: 'decode', kvOnPrefill: false })
          if (next === null) return
          lease = next
        }
        if (lease.decode === 'd0') served += 1
        lease.transferDone()
        await clock.advance(20)
        lease.done({ outputTokens: 10 })
      }
      for (let i = 0; i < 40; i += 1) await run(true)
      await clock.advance(0)
      assert.deepEqual(moves, ['d0: closed to open'])
      const breakers = () => scheduler.snapshot().instances.map(({ breaker }) => breaker)
      assert.deepEqual(breakers(), ['closed', 'closed', 'open', 'closed'])
      await clock.advance(5_000)
      assert.equal(served, 0)
      for (let i = 0; i < 2; i += 1) await run(false)
      assert.equal(served, 2) // both were probes
      await clock.advance(0)
      assert.deepEqual(moves, ['d0: closed to open', 'd0: open to half-open', 'd0: half-open to closed'])
      workflow.end()
      await clock.advance(10_000)
      assertEmpty(scheduler)
    })

    it(`probes a prefill instance the same way: its ok is that the KV arrived (${name})`, async () => {
      const { clock, scheduler } = virtual({
        cluster: pairCluster(2, 1),
        policy,
        parameters: { retryBudget: 0, breakerOpenMs: 5_000, breakerSuccesses: 1 },
      })
      const workflow = scheduler.workflow()
      const call = () => workflow.call({ promptTokens: 100, outputTokens: 10, parents: [] })
      const breaker = () => scheduler.snapshot().instances[0]!.breaker
      for (let i = 0; i < 40 && breaker() === 'closed'; i += 1) {
        let lease = await call()
        while (lease.prefill === 'p0') {
          const next = await lease.failed({ status: 500 })
          assert.ok(next)
          lease = next
        }
        lease.firstToken()
        lease.done({ outputTokens: 10 })
        await clock.advance(1_100) // longer than the penalty of a fault
      }
      assert.equal(breaker(), 'open')
      await clock.advance(5_000)
      const probe = await call()
      assert.equal(probe.prefill, 'p0')
      const other = await call()
      assert.equal(other.prefill, 'p1') // one probe at a time
      probe.firstToken()
      probe.transferDone()
      assert.equal(breaker(), 'closed')
      probe.done()
      other.done()
      workflow.end()
      await clock.advance(10_000)
      assertEmpty(scheduler)
    })
  }

  it('panics by role: two open decode instances are passed over, whatever the prefill instances do', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(6, 2), parameters: { retryBudget: 0 } })
    const workflow = scheduler.workflow()
    for (let i = 0; i < 30; i += 1) {
      const lease = await workflow.call({ promptTokens: 100, outputTokens: 10, parents: [] })
      void lease.failed({ status: 500, leg: 'decode', clientBytes: 1 })
      await clock.advance(1)
    }
    const after = scheduler.snapshot().instances
    assert.deepEqual(
      after.slice(6).map(({ breaker, masked }) => [breaker, masked]),
      [
        ['open', false],
        ['open', false],
      ],
    )
    const lease = await workflow.call({ promptTokens: 100, outputTokens: 10, parents: [] })
    lease.done()
    await scheduler.close()
  })

  it('moves what an instance loses: another pair, or another d with the KV that is there', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(2, 2) })
    const workflow = scheduler.workflow()
    const call = () => workflow.call({ promptTokens: 300, outputTokens: 50, parents: [] })
    // p lost with its KV.
    const lease = await call()
    lease.firstToken()
    scheduler.failInstance(lease.prefill)
    assert.equal(lease.signal.aborted, true)
    const next = (await lease.failed({ error: new Error('gone') }))!
    assert.deepEqual([next.epoch, next.prefill === lease.prefill], [1, false])
    scheduler.restoreInstance(lease.prefill)
    // d lost, KV still on p: the same attempt, another d.
    const d = await next.admitted()
    next.firstToken()
    scheduler.failInstance(d)
    assert.equal(next.signal.aborted, true)
    const third = (await next.failed({ error: new Error('gone'), leg: 'decode', kvOnPrefill: true }))!
    assert.deepEqual([third.resumed, third.epoch, third.prefill], [true, 1, next.prefill])
    assert.notEqual(await third.admitted(), d)
    third.transferDone()
    // The other d lost too, after the KV had left p: everything again, when a d is there.
    scheduler.failInstance(third.decode)
    const waits = watch(third.failed({ error: new Error('gone'), leg: 'decode' }))
    await clock.advance(10)
    assert.equal(waits.settled, false)
    scheduler.restoreInstance(d)
    await clock.advance(0)
    assert.equal(waits.value!.decode, d)
    assert.equal(waits.value!.epoch, 2)
    // An answer of before still counts.
    waits.value!.done()
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('tells who waits for room that his lease is over', async () => {
    const { clock, scheduler } = virtual({
      cluster: pairCluster(1, 1, { d: { kvTokens: 500 } }),
      leaseTtlMs: 1_000,
      pairs: { kvLeaseMs: 0 },
      policy: { order: 'fcfs', placement: 'least-loaded' },
    })
    const workflow = scheduler.workflow()
    const call = () => workflow.call({ promptTokens: 300, outputTokens: 50, parents: [] })
    const [first, second] = await Promise.all([call(), call()])
    await first.admitted()
    first.firstToken()
    second.firstToken()
    const cancelled = code(second.admitted())
    second.cancel()
    assert.equal(await cancelled, 'ERR_LAXITY_STATE')
    assert.equal(await code(second.admitted()), 'ERR_LAXITY_STATE')
    const silent = await call()
    const room = code(silent.admitted())
    await clock.advance(1_000)
    assert.equal(await room, 'ERR_LAXITY_LOST')
    assert.equal(await code(silent.admitted()), 'ERR_LAXITY_LOST')
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('switches policy while calls wait, by the names of pair placements', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(2, 2), lookahead: 0 })
    const workflow = scheduler.workflow()
    const next = random(5)
    const waiting = Array.from({ length: 30 }, () =>
      watch(workflow.call({ promptTokens: 100 + Math.floor(next() * 100), outputTokens: 20, parents: [] })),
    )
    const policies = native.orders.flatMap((order) =>
      native.pairPlacements.flatMap((placement) =>
        (['at-reveal', 'at-credit'] as const).map((binding) => ({ order, placement, binding })),
      ),
    )
    assert.ok(policies.length >= 40)
    for (const policy of policies) {
      scheduler.setPolicy(policy)
      assert.deepEqual(scheduler.snapshot().policy, { ...policy, migrate: false })
      assert.ok(scheduler.audit(), JSON.stringify(policy))
    }
    assert.equal(await code(() => scheduler.setPolicy('hexgen-flow')), 'ERR_LAXITY_OPTION')
    assert.equal(
      await code(() => scheduler.setPolicy({ order: 'fcfs', placement: 'eftxp' })),
      'ERR_LAXITY_OPTION',
    )
    for (let i = 0; waiting.some(({ settled }) => !settled); i += 1) {
      assert.ok(i < 200)
      scheduler.setPolicy(policies[Math.floor(next() * policies.length)]!)
      for (const { value } of waiting) {
        value?.firstToken()
        if (value?.closed === false) value.done({ outputTokens: 20 })
      }
      await clock.advance(10)
    }
    for (const { value } of waiting) value?.done()
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('takes telemetry of both roles', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(2, 2) })
    const workflow = scheduler.workflow()
    const call = () => workflow.call({ promptTokens: 1_000, outputTokens: 50, parents: [] })
    const lease = await call()
    lease.done({ outputTokens: 50 })
    await clock.advance(0)
    const busy = lease.prefill
    for (let i = 0; i < 2; i += 1) {
      // Ten foreign prefills of 100 ms stand in front of ours, as far as anybody knows for 2 s.
      scheduler.telemetry(busy, { waiting: 10 })
      scheduler.telemetry('d0', { running: 4, kvUsage: 0.5 })
      const seen = scheduler.snapshot().instances.find(({ id }) => id === busy)!
      assert.equal(seen.correctionMs, 1_000)
      const other = await call()
      assert.notEqual(other.prefill, busy)
      other.done()
    }
    await clock.advance(2_000)
    for (const { correctionMs } of scheduler.snapshot().instances) assert.equal(correctionMs, 0)
    workflow.end()
    await clock.advance(0)
    assertEmpty(scheduler)
  })

  it('plans around KV that others hold on a decode instance, while the sample is fresh, and closes no gate', async () => {
    for (const decodeAdmission of ['scheduler', 'engine'] as const) {
      const { clock, scheduler } = virtual({ cluster: pairCluster(1, 2), pairs: { decodeAdmission } })
      const workflow = scheduler.workflow()
      const call = async () => {
        const lease = await workflow.call({ promptTokens: 1_000, outputTokens: 50, parents: [] })
        const { decode } = lease
        lease.firstToken()
        await clock.advance(0)
        return { lease, decode }
      }
      const done = async ({ lease }: { lease: Lease }) => {
        lease.done({ outputTokens: 50 })
        await clock.advance(0)
      }
      const foreign = (id: string) => scheduler.snapshot().instances.find((i) => i.id === id)!.foreignKv
      const first = await call()
      assert.equal(first.decode, 'd0')
      // Its own 1,050 of 10,000 tokens are nobody else's.
      scheduler.telemetry('d0', { running: 1, kvUsage: 0.1 })
      assert.equal(foreign('d0'), 0)
      scheduler.telemetry('d0', { running: 1, kvUsage: 0.6 })
      assert.equal(foreign('d0'), 6_000 - 1_050)
      await done(first)
      scheduler.telemetry('d0', { kvUsage: 0.95 })
      assert.equal(foreign('d0'), 9_500)
      assert.ok(scheduler.audit())
      const second = await call()
      assert.equal(second.decode, 'd1')
      await done(second)
      // Both are full for others: the call waits for nothing that only they say.
      for (const d of ['d0', 'd1']) scheduler.telemetry(d, { running: 30, kvUsage: 1 })
      const third = await call()
      assert.equal(await third.lease.admitted(), third.decode)
      await done(third)
      // Stale.
      await clock.advance(2_000)
      assert.deepEqual([foreign('d0'), foreign('d1')], [0, 0])
      const fourth = await call()
      assert.equal(fourth.decode, 'd0')
      await done(fourth)
      // A sample without a usage says nothing of KV; one that comes back takes the last one's place.
      scheduler.telemetry('d0', { kvUsage: 0.95 })
      scheduler.telemetry('d0', { running: 0 })
      assert.equal(foreign('d0'), 0)
      // An instance that comes changes what the planner holds, not what it knows.
      scheduler.telemetry('d0', { kvUsage: 0.95 })
      scheduler.addInstance({ ...pairCluster(0, 3)[2]! })
      assert.equal(foreign('d0'), 9_500)
      const fifth = await call()
      assert.equal(fifth.decode, 'd1')
      await done(fifth)
      workflow.end()
      await scheduler.close()
      assertEmpty(scheduler)
    }
  })

  it('is ready only with both roles', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(1, 2) })
    assert.equal(scheduler.ready(), true)
    scheduler.drainInstance('d0')
    assert.equal(scheduler.ready(), true)
    scheduler.failInstance('d1')
    assert.equal(scheduler.ready(), false)
    const call = watch(scheduler.workflow().call({ promptTokens: 10 }))
    await clock.advance(100)
    assert.equal(call.settled, false)
    scheduler.restoreInstance('d1')
    assert.equal(scheduler.ready(), true)
    await clock.advance(0)
    call.value!.done()
    scheduler.drainInstance('p0')
    assert.equal(scheduler.ready(), false)
    assert.equal(await code(() => scheduler.ready('nope')), undefined) // one model serves whatever is asked for
    await scheduler.close()
  })

  describe('its log', () => {
    let folder = ''
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'laxity-pairs-'))
    })
    after(() => rm(folder, { recursive: true }))

    const load = async (
      scheduler: Scheduler,
      clock: { advance(ms: number): Promise<void> },
      seed: number,
    ) => {
      const next = random(seed)
      const open: { lease: import('../../lib/scheduler/lease.ts').Lease; stage: number }[] = []
      const take = (lease: import('../../lib/scheduler/lease.ts').Lease | null) =>
        void (lease && open.push({ lease, stage: 0 }))
      for (let step = 0; step < 250; step += 1) {
        const workflow = scheduler.workflow({ id: `w${Math.floor(next() * 9)}`, sloMs: 5_000 })
        workflow
          .call({ id: `c${step}`, promptTokens: 1 + Math.floor(next() * 900), outputTokens: 40, parents: [] })
          .then(take, () => {})
        if (step === 60) scheduler.failInstance('d0')
        if (step === 90) scheduler.restoreInstance('d0')
        if (step === 120) scheduler.failInstance('p1')
        if (step === 130) scheduler.restoreInstance('p1')
        if (step === 150) scheduler.setPolicy({ order: 'fcfs', placement: 'least-loaded' })
        if (step === 200) scheduler.setPolicy('hexagent')
        if (step === 210) scheduler.addInstance(pairCluster(0, 3)[2]!)
        while (open.length > 2) {
          const at = Math.floor(next() * open.length)
          const one = open[at]!
          one.stage += 1
          if (one.stage === 1) one.lease.firstToken()
          else if (one.stage === 2 && next() < 0.7) one.lease.transferDone()
          else {
            open.splice(at, 1)
            const leg = (['prefill', 'decode', 'link'] as const)[Math.floor(next() * 3)]!
            if (next() < 0.3) one.lease.failed({ status: 500, leg, kvOnPrefill: next() < 0.5 }).then(take)
            else one.lease.done({ outputTokens: 1 + Math.floor(next() * 60) })
          }
        }
        await clock.advance(next() * 60)
      }
      return open
    }

    const variants: LivePairs[] = [
      {},
      { reserve: 'late', lateDecode: true, kvLeaseMs: 300 },
      { decodeAdmission: 'engine' },
      { staging: 'unlimited', backfill: true, overlap: 0.5 },
    ]

    it('replays byte for byte', async () => {
      for (const [i, pairs] of variants.entries()) {
        const log = join(folder, `replay-${i}.jsonl`)
        const { clock, scheduler } = virtual({
          cluster: pairCluster(2, 2, { d: { kvTokens: 3_000 } }),
          pairs,
          log,
          parameters: { breakerOpenMs: 200 },
        })
        await load(scheduler, clock, i + 1)
        await scheduler.close()
        const result = await replayLog(log)
        assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
        assert.ok(result.decisions > 150, `${result.decisions}`)
      }
    })

    it('restores leases with their rooms', async () => {
      for (const [i, pairs] of variants.entries()) {
        const log = join(folder, `restore-${i}.jsonl`)
        const options = {
          cluster: pairCluster(2, 2, { d: { kvTokens: 3_000 } }),
          pairs,
          log,
          leaseTtlMs: 100_000,
          parameters: { breakerOpenMs: 200, retryBackoffMs: 0 },
        }
        const { clock, scheduler } = virtual(options)
        const open = await load(scheduler, clock, i + 7)
        const before = scheduler.snapshot()
        const rooms = open
          .filter(({ lease }) => !lease.closed && !lease.signal.aborted)
          .map(({ lease }) => [lease.workflowId, lease.id, lease.epoch, lease.prefill, lease.admittedOn?.id])
        assert.ok(rooms.length > 0)
        await new Promise((resolve) => setTimeout(resolve, 20)) // the journal is written behind the decide
        const again = await Scheduler.restore({ ...options, policy: 'laxity', clock })
        const after = again.snapshot()
        for (const [m, instance] of after.instances.entries()) {
          const was = before.instances[m]!
          assert.deepEqual(
            [instance.role, instance.leased, instance.reservedKv, instance.admittedKv],
            [was.role, was.leased, was.reservedKv, was.admittedKv],
          )
        }
        for (const [workflow, id, epoch, prefill, room] of rooms) {
          const lease = again.attach(String(id), String(workflow))
          assert.deepEqual([lease.epoch, lease.prefill, lease.admittedOn?.id], [epoch, prefill, room])
          lease.done()
        }
        await again.close()
        assert.ok(again.audit())
        // What the log of both says is one run.
        const result = await replayLog(log)
        assert.equal(result.matched, result.decisions)
      }
    })

    it('is restored only under the same pair options', async () => {
      const log = join(folder, 'same.jsonl')
      const { scheduler } = virtual({ cluster: pairCluster(1, 1), log })
      await scheduler.close()
      const other = { cluster: pairCluster(1, 1), log, pairs: { reserve: 'late' as const } }
      assert.equal(await code(Scheduler.restore(other)), 'ERR_LAXITY_LOG')
      assert.equal(await code(Scheduler.restore({ cluster: instances(2), log })), 'ERR_LAXITY_LOG')
    })
  })

  it('refuses clusters that are neither, and options that do not fit, all at once', async () => {
    const problems = (options: object) => {
      try {
        new Scheduler(options as never)
      } catch (error) {
        return (error as Error).message
      }
      return ''
    }
    const mixed = problems({ cluster: [...pairCluster(1, 1), ...instances(1)] })
    assert.match(mixed, /as a whole/)
    assert.match(problems({ cluster: pairCluster(1, 0) }), /No instance has role "decode"/)
    assert.match(problems({ cluster: instances(1), pairs: {} }), /needs a cluster of prefill and decode/)
    const many = problems({
      cluster: pairCluster(1, 1),
      policy: 'hexgen-flow',
      pairs: { reserve: 'soon', overlap: 2, staging: 1, lateDecode: 'yes', kvLeaseMs: -1, other: 1 },
    })
    for (const what of ['reserve', 'overlap', 'staging', 'lateDecode', 'kvLeaseMs', 'other', 'policy'])
      assert.match(many, new RegExp(what))
    const fields = problems({
      cluster: [
        {
          ...pairCluster(1, 0)[0],
          linkGBps: 0,
          kvBytesPerToken: 0.5,
          prefillBatchTokens: 0,
          mode: 'chunked',
        },
        { ...pairCluster(0, 1)[0], bootstrap: {}, revoke: 'yes' as never, prefillBatchTokens: 5 },
        { ...instances(1)[0], linkLatencyMs: 1 },
        { ...pairCluster(1, 0)[0], id: 'x', kvBytesPerToken: undefined, role: 'both' },
      ],
    })
    for (const what of [
      'linkGBps',
      'kvBytesPerToken',
      'prefillBatchTokens',
      'mode',
      'bootstrap',
      'revoke',
      'linkLatencyMs',
      'role',
    ])
      assert.match(fields, new RegExp(what))
    const { scheduler } = virtual({ cluster: pairCluster(1, 1) })
    assert.equal(await code(() => scheduler.addInstance(instances(3)[2]!)), 'ERR_LAXITY_FIELD')
    const { scheduler: unified } = virtual()
    assert.equal(await code(() => unified.addInstance(pairCluster(1, 0)[0]!)), 'ERR_LAXITY_FIELD')
    const lease = await scheduler.workflow().call({ promptTokens: 10 })
    assert.equal(await code(() => lease.failed({ status: 500, leg: 'both' as never })), 'ERR_LAXITY_FIELD')
    assert.equal(await code(() => lease.failed({ status: 500, kvOnPrefill: 1 as never })), 'ERR_LAXITY_FIELD')
    assert.equal(lease.closed, false)
    lease.done()
  })
})
