import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import type { Workflow } from '../../lib/scheduler/workflow.ts'
import { assertEmpty, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'
import { random } from '../support/runs.ts'

/** Everything accepted ends in exactly one of these. */
interface Ends {
  done: number
  failed: number
  cancelled: number
  rejected: number
  lost: number
}

/** What came about on the way. */
interface Seen {
  admitted: number
  refusedRoom: number
  resumed: number
  expired: number
  replaced: number
}

const STEPS = 140_000

describe('any interleaving on prefill-decode clusters: both legs, room, failures of each, instances of both roles', function () {
  this.timeout(300_000)

  it(`conserves calls, credit and KV over ${STEPS} steps, and ends with every counter at zero`, async () => {
    let steps = 0
    let revealed = 0
    const ends: Ends = { done: 0, failed: 0, cancelled: 0, rejected: 0, lost: 0 }
    const seen: Seen = { admitted: 0, refusedRoom: 0, resumed: 0, expired: 0, replaced: 0 }
    for (let seed = 1; steps < STEPS; seed += 1) {
      const walked = await walk(seed, 1500, seen)
      steps += walked.taken
      revealed += walked.revealed
      for (const name of Object.keys(ends) as (keyof Ends)[]) ends[name] += walked.ends[name]
    }
    assert.equal(
      Object.values(ends).reduce((a, b) => a + b),
      revealed,
    )
    // The test would be empty if some of it never came about.
    for (const [name, count] of Object.entries({ ...ends, ...seen }))
      assert.ok(count > 10, `${name}: ${count}`)
  })
})

async function walk(
  seed: number,
  length: number,
  seen: Seen,
): Promise<{ ends: Ends; revealed: number; taken: number }> {
  const next = random(seed)
  const upTo = (n: number) => Math.floor(next() * n)
  const pick = <T>(list: readonly T[]): T => list[upTo(list.length)]!
  const cluster = pairCluster(2, 2, {
    p: {
      kvTokens: 2_000,
      maxSequences: 6,
      ...(next() < 0.3 && { prefillBatchTokens: 800 }),
      revoke: next() < 0.5,
    },
    d: { kvTokens: 1_500, maxSequences: 4, revoke: next() < 0.7 },
  })
  const { clock, scheduler } = virtual({
    cluster,
    policy: {
      order: pick(native.orders),
      placement: pick(native.pairPlacements),
      binding: pick(['at-reveal', 'at-credit']),
    },
    pairs: {
      reserve: pick(['early', 'late']),
      staging: pick(['none', 'none', 'unlimited']),
      decodeAdmission: pick(['scheduler', 'scheduler', 'engine']),
      links: pick(['contended', 'free']),
      backfill: next() < 0.5,
      lateDecode: next() < 0.5,
      overlap: pick([0, 0.5]),
      kvLeaseMs: pick([0, 60, 60, 30_000]),
    },
    queueLimit: pick([0, 20]),
    queueTimeoutMs: pick([0, 500]),
    leaseTtlMs: pick([80, 150, 2_000]),
    hopeless: pick(['run', 'demote', 'reject']),
    lookahead: upTo(3),
    tieSeed: upTo(2),
    parameters: {
      breakerOpenMs: 300,
      breakerFaults: pick([0, 2]),
      retryBudget: pick([0, 0.5]),
      retryBackoffMs: pick([0, 25]),
    },
  })
  const ends: Ends = { done: 0, failed: 0, cancelled: 0, rejected: 0, lost: 0 }
  let revealed = 0
  let open = 0
  const leases = new Set<Lease>()
  const workflows: Workflow[] = []
  const lost = new Set<string>()
  const over = new Set<string>()
  scheduler.on('lost', ({ call, workflow }) => lost.add(`${workflow} ${call}`))
  const nameOf = (lease: Lease) => `${lease.workflowId} ${lease.id}`
  const settle = (end: keyof Ends) => {
    ends[end] += 1
    open -= 1
  }
  const hold = (lease: Lease) => {
    leases.add(lease)
    if (lease.resumed) seen.resumed += 1
    lease.admitted().then(
      (d) => {
        seen.admitted += 1
        assert.equal(d, lease.decode)
      },
      (error: { code: string }) => {
        seen.refusedRoom += 1
        assert.match(error.code, /LOST|STATE|ABORTED|CLOSED/)
      },
    )
  }
  const follow = (promise: Promise<Lease | null>, name: string) => {
    promise.then(
      (lease) => {
        if (lease !== null) hold(lease)
        else settle(lost.delete(name) ? 'lost' : over.has(name) ? 'cancelled' : 'failed')
      },
      (error: { code: string }) => {
        settle(/ABORTED|CLOSED/.test(error.code) ? 'cancelled' : 'rejected')
      },
    )
  }
  const end = (workflow: Workflow) => {
    for (const call of workflow.calls) over.add(`${workflow.id} ${call.id}`)
    workflow.end()
  }

  let taken = 0
  for (; taken < length; taken += 1) {
    const lease = leases.size > 0 ? pick([...leases].slice(0, 40)) : undefined
    if (lease?.closed) {
      // Taken away for good: by its TTL, or by the end or the signal of its workflow.
      leases.delete(lease)
      settle(lost.delete(nameOf(lease)) ? 'lost' : 'cancelled')
      continue
    }
    switch (upTo(22)) {
      case 0:
        workflows.push(
          scheduler.workflow({ tenant: pick(['a', 'b']), ...(next() < 0.5 && { sloMs: upTo(1000) }) }),
        )
        break
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: {
        const workflow = workflows.length > 0 ? pick(workflows) : undefined
        if (workflow === undefined || workflow.closed) break
        const parents = workflow.calls.filter(() => next() < 1.5 / workflow.calls.length).map(({ id }) => id)
        const promise = workflow.call({
          stage: pick(['x', 'y']),
          promptTokens: 1 + upTo(next() < 0.02 ? 3000 : 400),
          ...(next() < 0.7 && { outputTokens: 1 + upTo(100) }),
          ...(next() < 0.5 && { parents }),
          ...(next() < 0.1 && { n: 1 + upTo(3) }),
          ...(next() < 0.2 && { stream: false }),
          ...(next() < 0.2 && { cachedTokens: upTo(300) }),
        })
        revealed += 1
        open += 1
        follow(promise, `${workflow.id} ${workflow.calls.at(-1)!.id}`)
        break
      }
      case 6:
      case 7:
      case 8:
        lease?.firstToken()
        break
      case 9:
      case 10:
        lease?.transferDone()
        break
      case 11:
      case 12:
      case 13:
        if (lease?.done({ outputTokens: upTo(90) })) {
          leases.delete(lease)
          settle('done')
          lease.done()
        }
        break
      case 14:
      case 15:
        if (lease !== undefined) {
          leases.delete(lease)
          if (lease.signal.aborted) seen.replaced += 1
          const outcome = pick([
            { status: 500 },
            { status: 429, retryAfterMs: upTo(200) },
            { status: 400 },
            { status: 502, clientBytes: 10 },
            { error: new Error('reset') },
          ])
          const leg = pick(['prefill', 'decode', 'link'] as const)
          follow(lease.failed({ ...outcome, leg, kvOnPrefill: next() < 0.5 }), nameOf(lease))
        }
        break
      case 16:
        if (lease?.cancel()) {
          leases.delete(lease)
          settle('cancelled')
        }
        break
      case 17:
        if (next() < 0.2 && workflows.length > 0) end(pick(workflows))
        break
      case 18: {
        if (next() < 0.5) break
        const i = upTo(4)
        const { id, condition } = scheduler.snapshot().instances[i]!
        if (condition === 'removed') scheduler.addInstance(cluster[i]!)
        else if (condition === 'up')
          pick([
            () => scheduler.failInstance(id),
            () => scheduler.drainInstance(id),
            () => scheduler.removeInstance(id),
          ])()
        else scheduler.restoreInstance(id)
        break
      }
      case 19:
        scheduler.telemetry(cluster[upTo(4)]!.id!, { running: upTo(5), waiting: upTo(3), kvUsage: next() })
        break
      default:
        await clock.advance(upTo(60))
    }
    if (taken % 50 === 0) {
      assert.ok(scheduler.audit(), `seed ${seed}, step ${taken}`)
      for (const i of scheduler.snapshot().instances)
        assert.ok(i.leased >= 0 && i.reservedKv >= 0 && i.workMs >= 0 && i.waiting >= 0, `seed ${seed}`)
    }
  }
  // The end: instances are back, workflows close, leases finish.
  for (const [i, { id, condition }] of scheduler.snapshot().instances.entries()) {
    if (condition === 'removed') scheduler.addInstance(cluster[i]!)
    else if (condition !== 'up') scheduler.restoreInstance(id)
  }
  await clock.advance(0)
  for (const workflow of workflows) end(workflow)
  for (let round = 0; open > 0 && round < 20; round += 1) {
    await clock.advance(1)
    for (const lease of leases) {
      leases.delete(lease)
      if (lease.done()) settle('done')
      else settle(lost.delete(nameOf(lease)) ? 'lost' : 'cancelled')
    }
  }
  // A lease that replaced a lost one and that nobody asked for ends with its TTL.
  await clock.advance(10_000)
  assert.equal(open, 0, `seed ${seed}: ${open} calls have not ended`)
  assertEmpty(scheduler)
  const { workflows: live, instances, kvExpired } = scheduler.snapshot()
  seen.expired += kvExpired
  assert.equal(live, 0, `seed ${seed}: workflows`)
  for (const { admittedKv, admittedSequences } of instances)
    assert.deepEqual([admittedKv, admittedSequences], [0, 0], `seed ${seed}: room`)
  await scheduler.close()
  return { ends, revealed, taken }
}
