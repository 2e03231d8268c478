import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import type { Workflow } from '../../lib/scheduler/workflow.ts'
import { assertEmpty, instances, virtual } from '../support/live.ts'
import { random } from '../support/runs.ts'

/** Everything accepted ends in exactly one of these. */
interface Ends {
  done: number
  failed: number
  cancelled: number
  rejected: number
  lost: number
}

const STEPS = 105_000

describe('any interleaving of reveals, leases, ends, failures, aborts and instances coming and going', function () {
  this.timeout(240_000)

  it(`conserves calls, credit and KV over ${STEPS} steps, and ends with every counter at zero`, async () => {
    let steps = 0
    const total: Ends & { revealed: number } = {
      revealed: 0,
      done: 0,
      failed: 0,
      cancelled: 0,
      rejected: 0,
      lost: 0,
    }
    for (let seed = 1; steps < STEPS; seed += 1) {
      const { ends, revealed, taken } = await walk(seed, 1500)
      steps += taken
      total.revealed += revealed
      for (const name of Object.keys(ends) as (keyof Ends)[]) total[name] += ends[name]
    }
    const { revealed, ...ends } = total
    assert.equal(
      Object.values(ends).reduce((a, b) => a + b),
      revealed,
    )
    // The test would be empty if some end never came about.
    for (const [name, count] of Object.entries(total)) assert.ok(count > 100, `${name}: ${count}`)
  })
})

async function walk(seed: number, length: number): Promise<{ ends: Ends; revealed: number; taken: number }> {
  const next = random(seed)
  const upTo = (n: number) => Math.floor(next() * n)
  const pick = <T>(list: readonly T[]): T => list[upTo(list.length)]!
  const cluster = instances(4, { maxSequences: 3, kvTokens: 2000 })
  const { clock, scheduler } = virtual({
    cluster,
    policy: {
      order: pick(native.orders),
      placement: pick(native.placements),
      binding: pick(['at-reveal', 'at-credit']),
    },
    queueLimit: pick([0, 20]),
    tenantQueueLimit: pick([0, 10]),
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
  const aborts: AbortController[] = []
  const lost = new Set<string>()
  scheduler.on('lost', ({ call, workflow }) => lost.add(`${workflow} ${call}`))

  const settle = (end: keyof Ends) => {
    ends[end] += 1
    open -= 1
  }
  const follow = (promise: Promise<Lease | null>, name: string) => {
    promise.then(
      (lease) => {
        if (lease !== null) leases.add(lease)
        else settle(lost.delete(name) ? 'lost' : (retryEnd.get(name) ?? 'failed'))
      },
      (error: { code: string }) => {
        settle(/ABORTED|CLOSED/.test(error.code) ? 'cancelled' : 'rejected')
      },
    )
  }
  // A retry that is cancelled ends with null too.
  const retryEnd = new Map<string, keyof Ends>()
  const nameOf = (lease: Lease) => `${lease.workflowId} ${lease.id}`

  let taken = 0
  for (; taken < length; taken += 1) {
    const lease = leases.size > 0 ? pick([...leases].slice(0, 40)) : undefined
    if (lease?.closed) {
      // Taken away: by its TTL, or by the end or the signal of its workflow.
      leases.delete(lease)
      settle(lost.delete(nameOf(lease)) ? 'lost' : 'cancelled')
      continue
    }
    switch (upTo(20)) {
      case 0: {
        const abort = new AbortController()
        aborts.push(abort)
        workflows.push(
          scheduler.workflow({
            tenant: pick(['a', 'b']),
            signal: abort.signal,
            ...(next() < 0.5 && { sloMs: upTo(1000) }),
          }),
        )
        break
      }
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: {
        const workflow = workflows.length > 0 ? pick(workflows) : undefined
        if (workflow === undefined || workflow.closed) break
        const parents = workflow.calls.filter(() => next() < 1.5 / workflow.calls.length).map(({ id }) => id)
        const promise = workflow.call({
          stage: pick(['x', 'y']),
          promptTokens: 1 + upTo(next() < 0.02 ? 3000 : 400),
          ...(next() < 0.5 && { outputTokens: 1 + upTo(100) }),
          ...(next() < 0.5 && { parents }),
          ...(next() < 0.1 && { n: 1 + upTo(4) }),
          ...(next() < 0.2 && { stream: false }),
          ...(next() < 0.2 && { cachedTokens: upTo(300) }),
        })
        revealed += 1
        open += 1
        follow(promise, `${workflow.id} ${workflow.calls.at(-1)!.id}`)
        break
      }
      case 7:
      case 8:
        lease?.firstToken()
        break
      case 9:
      case 10:
      case 11:
      case 12:
        if (lease?.done({ outputTokens: upTo(90) })) {
          leases.delete(lease)
          settle('done')
          lease.done()
        }
        break
      case 13:
        if (lease !== undefined) {
          leases.delete(lease)
          const outcome = pick([
            { status: 500 },
            { status: 429, retryAfterMs: upTo(200) },
            { status: 400 },
            { status: 502, clientBytes: 10 },
            { error: new Error('reset') },
          ])
          follow(lease.failed(outcome), nameOf(lease))
        }
        break
      case 14:
        if (lease?.cancel()) {
          leases.delete(lease)
          settle('cancelled')
        }
        break
      case 15:
        if (next() < 0.3 && aborts.length > 0) {
          const i = upTo(aborts.length)
          for (const call of workflows[i]!.calls) retryEnd.set(`${workflows[i]!.id} ${call.id}`, 'cancelled')
          aborts[i]!.abort()
        }
        break
      case 16:
        if (next() < 0.3 && workflows.length > 0) {
          const workflow = pick(workflows)
          for (const call of workflow.calls) retryEnd.set(`${workflow.id} ${call.id}`, 'cancelled')
          workflow.end()
        }
        break
      case 17: {
        if (next() < 0.5) break
        const i = upTo(4)
        const { condition } = scheduler.snapshot().instances[i]!
        if (condition === 'removed') scheduler.addInstance(cluster[i]!)
        else if (condition === 'up')
          pick([
            () => scheduler.failInstance(`m${i}`),
            () => scheduler.drainInstance(`m${i}`),
            () => scheduler.removeInstance(`m${i}`),
          ])()
        else scheduler.restoreInstance(`m${i}`)
        break
      }
      case 18:
        scheduler.telemetry(`m${upTo(4)}`, { running: upTo(5), waiting: upTo(3), kvUsage: next() })
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
  for (const [i, { condition }] of scheduler.snapshot().instances.entries()) {
    if (condition === 'removed') scheduler.addInstance(cluster[i]!)
    else if (condition !== 'up') scheduler.restoreInstance(`m${i}`)
  }
  await clock.advance(0)
  for (const workflow of workflows) {
    for (const call of workflow.calls) retryEnd.set(`${workflow.id} ${call.id}`, 'cancelled')
    workflow.end()
  }
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
  const { workflows: live } = scheduler.snapshot()
  assert.equal(live, 0, `seed ${seed}: workflows`)
  await scheduler.close()
  return { ends, revealed, taken }
}
