import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { native } from '../../lib/native.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import type { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, instances, virtual, watch } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'
import { random } from '../support/runs.ts'

describe('taking leases back', () => {
  const EDF = { order: 'edf', placement: 'round-robin' } as const

  it('for something more urgent, where the instance declares it: the lease behind the running prefill, no other', async () => {
    for (const revoke of [true, false]) {
      for (const placement of ['round-robin', 'global-queue']) {
        const { clock, scheduler } = virtual({
          cluster: instances(1, { revoke }),
          policy: { order: 'edf', placement },
        })
        const call = (sloMs: number) =>
          scheduler.workflow({ sloMs }).call({ promptTokens: 100, outputTokens: 10 })
        const running = await call(9_000)
        const behind = await call(8_000)
        assert.deepEqual([running.reason, behind.reason], ['only-feasible', 'lookahead'])
        const urgent = watch(call(1_000))
        await clock.advance(0)
        assert.equal(urgent.settled, revoke)
        assert.equal(running.signal.aborted, false)
        assert.equal(behind.signal.aborted, revoke)
        assert.equal(scheduler.snapshot().revoked, revoke ? 1 : 0)
        if (!revoke) {
          await scheduler.close()
          continue
        }
        // Its holder asks for what replaces it; the failed request is nobody's fault.
        const again = watch(behind.failed({ error: behind.signal.reason }))
        running.firstToken()
        await clock.advance(0)
        assert.equal(again.value!.epoch, 1)
        assert.equal(scheduler.snapshot().instances[0]!.correctionMs, 0)
        // Less urgent than what is leased: waits.
        const loose = watch(call(20_000))
        await clock.advance(0)
        assert.equal(loose.settled, false)
        for (const lease of [running, urgent.value!, again.value!]) lease.done({ outputTokens: 10 })
        await clock.advance(0)
        loose.value!.done()
        await clock.advance(0)
        assert.equal(scheduler.snapshot().activeCalls, 0)
        await scheduler.close()
        assertEmpty(scheduler)
      }
    }
  })

  it('at most twice from one call, and never a lease with a first token', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1, { revoke: true }), policy: EDF })
    const call = (sloMs: number) =>
      scheduler.workflow({ sloMs }).call({ promptTokens: 100, outputTokens: 10 })
    const first = await call(9_000)
    let behind = await call(8_000)
    for (let times = 1; times <= 3; times += 1) {
      const urgent = watch(call(1_000))
      await clock.advance(0)
      assert.equal(behind.signal.aborted, times <= 2)
      assert.equal(urgent.settled, times <= 2)
      if (!urgent.settled) break
      const again = watch(behind.failed({ error: behind.signal.reason }))
      urgent.value!.done({ outputTokens: 10 })
      await clock.advance(0)
      behind = again.value!
      assert.equal(behind.epoch, times)
    }
    // Prefilled: both leases run.
    first.firstToken()
    behind.firstToken()
    await clock.advance(0)
    const { revoked } = scheduler.snapshot()
    assert.equal(revoked, 2)
    await scheduler.close()
    assertEmpty(scheduler)
  })

  for (const close of ['drain', 'remove', 'pause', 'breaker'] as const) {
    it(`when the instance closes (${close}): what has not begun goes elsewhere`, async () => {
      const { clock, scheduler } = virtual({
        cluster: instances(2, { revoke: true }),
        policy: EDF,
        parameters: { breakerFaults: 1, panicShare: 0, retryBudget: 0 },
      })
      const call = () => scheduler.workflow({ sloMs: 9_000 }).call({ promptTokens: 100, outputTokens: 10 })
      const leases = [await call(), await call(), await call()]
      const [a, , behind] = leases as [Lease, Lease, Lease]
      assert.deepEqual([a.instance, behind.instance], ['m0', 'm0'])
      // Something of m0 that may fail, with its first token behind it.
      if (close === 'drain') scheduler.drainInstance('m0')
      else if (close === 'remove') scheduler.removeInstance('m0')
      else {
        const status = close === 'pause' ? 429 : 500
        void a.failed({ status, clientBytes: 1, ...(close === 'pause' && { retryAfterMs: 5_000 }) })
        await clock.advance(0)
        assert.equal(behind.signal.aborted, true)
        await scheduler.close()
        assertEmpty(scheduler)
        return
      }
      await clock.advance(0)
      assert.equal(a.signal.aborted, false)
      assert.equal(behind.signal.aborted, true)
      const next = (await behind.failed({ error: behind.signal.reason }))!
      assert.deepEqual([next.instance, next.epoch], ['m1', 1])
      a.done()
      for (const lease of leases) lease.done()
      next.done()
      await scheduler.close()
      assertEmpty(scheduler)
    })
  }

  it('takes back the one that goes last, and only if that lets the urgent one in: a naive choice agrees', async () => {
    let revoked = 0
    for (let seed = 1; seed <= 400; seed += 1) {
      const next = random(seed)
      const upTo = (n: number) => Math.floor(next() * n)
      const lookahead = 1 + upTo(3)
      const kvTokens = 500 + upTo(1500)
      const { clock, scheduler } = virtual({
        cluster: instances(1, { revoke: true, kvTokens }),
        policy: EDF,
        lookahead,
      })
      const held: { lease: Lease; slo: number; kv: number; order: number }[] = []
      for (let i = 0; i < 1 + lookahead; i += 1) {
        const slo = 1_000 + upTo(9_000)
        const prompt = 50 + upTo(300)
        const call = watch(
          scheduler.workflow({ sloMs: slo }).call({ promptTokens: prompt, outputTokens: 10 }),
        )
        await clock.advance(0)
        if (call.value === undefined) break
        held.push({ lease: call.value, slo, kv: prompt + 10, order: i })
      }
      if (held.length < 1 + lookahead || held.some(({ lease }) => lease.signal.aborted)) {
        await scheduler.close()
        continue
      }
      const slo = 1_000 + upTo(9_000)
      const prompt = 50 + upTo(600)
      const urgent = watch(
        scheduler.workflow({ sloMs: slo }).call({ promptTokens: prompt, outputTokens: 10 }),
      )
      await clock.advance(0)
      const used = held.reduce((sum, { kv }) => sum + kv, 0)
      const naive = held
        .slice(1)
        .filter((one) => slo < one.slo && used - one.kv + prompt + 10 <= kvTokens)
        .sort((x, y) => y.slo - x.slo || y.order - x.order)[0]
      const gone = held.filter(({ lease }) => lease.signal.aborted)
      assert.deepEqual(gone, naive === undefined ? [] : [naive], `seed ${seed}`)
      assert.equal(urgent.value !== undefined, naive !== undefined)
      revoked += gone.length
      assert.ok(scheduler.audit())
      await scheduler.close()
      assertEmpty(scheduler)
    }
    assert.ok(revoked > 50, `${revoked}`)
  })

  it('conserves everything under every order, and replays', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'laxity-revoke-'))
    let revoked = 0
    for (const [i, order] of native.orders.entries()) {
      const log = join(folder, `${i}.jsonl`)
      const next = random(i + 1)
      const { clock, scheduler } = virtual({
        cluster: instances(3, {
          revoke: true,
          mode: i % 2 === 0 ? 'prefill-first' : 'chunked',
          ...(i % 2 === 1 && { chunkTokens: 256 }),
        }),
        policy: { order, placement: i % 3 === 0 ? 'global-queue' : 'eftxp' },
        lookahead: 1 + (i % 3),
        log,
        parameters: { breakerOpenMs: 100 },
      })
      const held = new Set<Lease>()
      const take = (lease: Lease | null) => void (lease && held.add(lease))
      for (let step = 0; step < 300; step += 1) {
        if (next() < 0.95)
          scheduler
            .workflow({ sloMs: 100 + next() * 3_000 })
            .call({ promptTokens: 1 + Math.floor(next() * 600), outputTokens: 20 })
            .then(take, () => {})
        for (const lease of held) {
          if (lease.signal.aborted) {
            held.delete(lease)
            if (next() < 0.8) lease.failed({ error: lease.signal.reason }).then(take)
            else lease.done({ outputTokens: 5 }) // the answer was there already
          } else if (next() < 0.2) lease.firstToken()
          else if (next() < 0.15) {
            held.delete(lease)
            if (next() < 0.1) lease.failed({ status: 500 }).then(take)
            else lease.done({ outputTokens: 20 })
          }
        }
        if (step % 60 === 20) scheduler.drainInstance('m1')
        if (step % 60 === 40) scheduler.restoreInstance('m1')
        await clock.advance(next() * 30)
        if (step % 10 === 0) assert.ok(scheduler.audit(), `${order}, step ${step}`)
      }
      revoked += scheduler.snapshot().revoked
      await scheduler.close()
      assertEmpty(scheduler)
      const result = await replayLog(log)
      assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
    }
    await rm(folder, { recursive: true })
    assert.ok(revoked > 50, `${revoked}`)
  })
})

describe('taking leases of pairs back', () => {
  const BINDINGS = ['at-reveal', 'at-credit'] as const
  const declared = (p: boolean, d: boolean) => ({ p: { revoke: p }, d: { revoke: d } })
  const open = (scheduler: Scheduler, sloMs: number, promptTokens = 100) =>
    scheduler.workflow({ sloMs }).call({ promptTokens, outputTokens: 10 })

  for (const placement of native.pairPlacements) {
    it(`where both declare it, under ${placement}, bound early or late`, async () => {
      for (const binding of BINDINGS) {
        for (const [p, d] of [
          [true, true],
          [true, false],
          [false, true],
        ] as const) {
          const revoke = p && d
          const { clock, scheduler } = virtual({
            cluster: pairCluster(1, 1, declared(p, d)),
            policy: { order: 'edf', placement, binding },
          })
          const running = await open(scheduler, 9_000)
          const behind = await open(scheduler, 8_000)
          assert.deepEqual([running.reason, behind.reason], ['best-score', 'lookahead'])
          const room = watch(behind.admitted())
          const urgent = watch(open(scheduler, 1_000))
          await clock.advance(0)
          assert.equal(urgent.settled, revoke, `${binding} ${p} ${d}`)
          assert.deepEqual([running.signal.aborted, behind.signal.aborted], [false, revoke])
          assert.equal(scheduler.snapshot().revoked, revoke ? 1 : 0)
          if (revoke) {
            assert.ok(room.value === 'd0' || (room.error as { code: string }).code === 'ERR_LAXITY_LOST')
            const again = watch(behind.failed({ error: behind.signal.reason }))
            running.firstToken()
            await clock.advance(0)
            assert.equal(again.value!.epoch, 1)
            assert.equal(scheduler.snapshot().instances[0]!.correctionMs, 0)
            for (const lease of [running, urgent.value!, again.value!]) lease.done({ outputTokens: 10 })
            await clock.advance(0)
            assert.equal(scheduler.snapshot().activeCalls, 0)
          }
          await scheduler.close()
          assertEmpty(scheduler)
        }
      }
    })
  }

  for (const close of ['drain p', 'drain d', 'remove d', 'pause d', 'breaker of d'] as const) {
    it(`when p or d closes (${close}): what has not begun goes elsewhere`, async () => {
      const { clock, scheduler } = virtual({
        cluster: pairCluster(2, 2, declared(true, true)),
        policy: { order: 'edf', placement: 'round-robin', binding: 'at-reveal' },
        parameters: { breakerFaults: 1, panicShare: 0, retryBudget: 0, retryBackoffMs: 0 },
      })
      // p0 d0, p1 d1, and behind the first, on the same pair, the third.
      const leases = [
        await open(scheduler, 9_000),
        await open(scheduler, 9_000),
        await open(scheduler, 9_000),
      ]
      const [first, , behind] = leases as [Lease, Lease, Lease]
      assert.deepEqual([first.prefill, first.decode], ['p0', 'd0'])
      assert.deepEqual([behind.prefill, behind.decode], ['p0', 'd0'])
      if (close === 'drain p') scheduler.drainInstance('p0')
      else if (close === 'drain d') scheduler.drainInstance('d0')
      else if (close === 'remove d') scheduler.removeInstance('d0')
      else {
        const status = close === 'pause d' ? 429 : 500
        void first.failed({
          status,
          leg: 'decode',
          clientBytes: 1,
          ...(status === 429 && { retryAfterMs: 5_000 }),
        })
      }
      await clock.advance(0)
      assert.equal(behind.signal.aborted, true)
      const next = (await behind.failed({ error: behind.signal.reason }))!
      assert.equal(next.epoch, 1)
      if (close === 'drain p') assert.equal(next.prefill, 'p1')
      else if (close !== 'pause d') assert.equal(next.decode, 'd1')
      for (const lease of [...leases, next]) lease.done()
      await scheduler.close()
      assertEmpty(scheduler)
    })
  }

  it('takes back the one that goes last, and only if that lets the urgent one in: a naive choice agrees', async () => {
    let revoked = 0
    for (let seed = 1; seed <= 900; seed += 1) {
      const next = random(seed)
      const upTo = (n: number) => Math.floor(next() * n)
      const lookahead = 1 + upTo(3)
      const kvTokens = 500 + upTo(1500)
      const prefills = 1 + upTo(3)
      const batch = next() < 0.5 ? 100 + upTo(500) : 0
      const { clock, scheduler } = virtual({
        cluster: pairCluster(prefills, 2, {
          p: { revoke: true, kvTokens, maxSequences: 64, ...(batch > 0 && { prefillBatchTokens: batch }) },
          d: { revoke: true, kvTokens: 1_000_000, maxSequences: 64 },
        }),
        policy: {
          order: 'edf',
          placement: seed % 2 === 0 ? 'earliest-finish' : 'least-loaded',
          binding: 'at-credit',
        },
        lookahead,
      })
      const ask = async (slo: number, prompt: number) => {
        const workflow = scheduler.workflow({ sloMs: slo })
        const call = watch(workflow.call({ promptTokens: prompt, outputTokens: 10 }))
        await clock.advance(0)
        return { workflow, call }
      }
      const held: { lease: Lease; slo: number; prompt: number }[] = []
      for (;;) {
        const slo = 1_000 + next() * 9_000
        const prompt = 50 + upTo(300)
        const { workflow, call } = await ask(slo, prompt)
        if (call.value === undefined || held.some(({ lease }) => lease.signal.aborted)) {
          workflow.end()
          break
        }
        held.push({ lease: call.value, slo, prompt })
      }
      await clock.advance(0)
      if (held.some(({ lease }) => lease.signal.aborted)) {
        await scheduler.close()
        continue
      }
      const slo = 1_000 + next() * 9_000
      const prompt = 50 + upTo(600)
      const { call: urgent } = await ask(slo, prompt)

      const on = (p: string) => held.filter(({ lease }) => lease.prefill === p)
      const tokens = (list: typeof held) => list.reduce((sum, one) => sum + one.prompt, 0)
      const fits = (list: typeof held) =>
        tokens(list) + prompt <= kvTokens &&
        (list.length < 1 + lookahead || (batch > 0 && tokens(list) + prompt <= (1 + lookahead) * batch))
      const names = Array.from({ length: prefills }, (_, i) => `p${i}`)
      const naive = names.some((p) => fits(on(p)))
        ? undefined
        : names
            .flatMap((p) => {
              const list = on(p)
              return list.filter(
                (one, i) =>
                  i > 0 &&
                  (batch === 0 || tokens(list.slice(0, i + 1)) > batch) &&
                  slo < one.slo &&
                  fits(list.filter((other) => other !== one)),
              )
            })
            .sort((x, y) => y.slo - x.slo)[0]
      const gone = held.filter(({ lease }) => lease.signal.aborted)
      assert.deepEqual(gone, naive === undefined ? [] : [naive], `seed ${seed}`)
      if (naive !== undefined) assert.equal(urgent.value!.prefill, naive.lease.prefill)
      revoked += gone.length
      assert.ok(scheduler.audit())
      await scheduler.close()
      assertEmpty(scheduler)
    }
    assert.ok(revoked > 50, `${revoked}`)
  }).timeout(120_000)

  it('conserves everything under every order and placement, and replays', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'laxity-revoke-'))
    let revoked = 0
    for (const [i, order] of native.orders.entries()) {
      const log = join(folder, `${i}.jsonl`)
      const next = random(i + 1)
      const { clock, scheduler } = virtual({
        cluster: pairCluster(2, 2, declared(true, i % 4 !== 3)),
        policy: {
          order,
          placement: native.pairPlacements[i % native.pairPlacements.length]!,
          binding: BINDINGS[Math.floor(i / 2) % 2]!,
        },
        pairs: { reserve: i % 2 === 0 ? 'early' : 'late', kvLeaseMs: i % 3 === 0 ? 60 : 0 },
        lookahead: 1 + (i % 3),
        log,
        parameters: { breakerOpenMs: 100 },
      })
      const held = new Set<Lease>()
      const take = (lease: Lease | null) => void (lease && held.add(lease))
      for (let step = 0; step < 300; step += 1) {
        if (next() < 0.95)
          open(scheduler, 100 + next() * 3_000, 1 + Math.floor(next() * 600)).then(take, () => {})
        for (const lease of held) {
          if (lease.signal.aborted) {
            held.delete(lease)
            if (next() < 0.8) lease.failed({ error: lease.signal.reason }).then(take)
            else lease.done({ outputTokens: 5 }) // the answer was there already
          } else if (next() < 0.2) lease.firstToken()
          else if (next() < 0.1) lease.transferDone()
          else if (next() < 0.15) {
            held.delete(lease)
            if (next() < 0.1)
              lease.failed({ status: 500, leg: next() < 0.5 ? 'prefill' : 'decode' }).then(take)
            else lease.done({ outputTokens: 10 })
          }
        }
        if (step % 60 === 20) scheduler.drainInstance(step % 120 === 20 ? 'p1' : 'd1')
        if (step % 60 === 40) scheduler.restoreInstance(step % 120 === 40 ? 'p1' : 'd1')
        await clock.advance(next() * 30)
        if (step % 10 === 0) assert.ok(scheduler.audit(), `${order}, step ${step}`)
      }
      revoked += scheduler.snapshot().revoked
      await scheduler.close()
      assertEmpty(scheduler)
      const result = await replayLog(log)
      assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
    }
    await rm(folder, { recursive: true })
    assert.ok(revoked > 50, `${revoked}`)
  }).timeout(120_000)
})

describe('switching migration while it runs', () => {
  it('moves waiting calls, or not, as the policy says', async () => {
    for (const migrate of [true, false]) {
      const { clock, scheduler } = virtual({
        cluster: instances(2),
        lookahead: 0,
        policy: { order: 'fcfs', placement: 'round-robin', migrate: !migrate },
      })
      scheduler.setPolicy({ order: 'fcfs', placement: 'round-robin', migrate })
      assert.equal(scheduler.snapshot().policy.migrate, migrate)
      const workflow = scheduler.workflow()
      const call = (promptTokens: number) => workflow.call({ promptTokens, outputTokens: 10, parents: [] })
      // m0 gets the long one and, behind it, the third; m1 is free again soon.
      const long = await call(60_000)
      const short = await call(10)
      const third = watch(call(100))
      await clock.advance(0)
      assert.equal(third.settled, false)
      assert.deepEqual([long.instance, short.instance, scheduler.queue('m0').length], ['m0', 'm1', 1])
      short.done({ outputTokens: 10 })
      await clock.advance(0)
      assert.equal(third.value?.instance, migrate ? 'm1' : undefined)
      long.done()
      await clock.advance(0)
      third.value?.done()
      await scheduler.close()
    }
  })
})
