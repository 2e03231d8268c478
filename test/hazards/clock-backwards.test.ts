import assert from 'node:assert/strict'
import type { Clock } from '../../lib/scheduler/clock.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { RingScheduler } from '../../lib/scheduler/ring.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, instances } from '../support/live.ts'
import { random, runOptions } from '../support/runs.ts'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A clock that a test sets as it likes; timers fire when told to. */
class UnreliableClock implements Clock {
  reading = 0
  readonly timers = new Map<object, () => void>()

  now(): number {
    return this.reading
  }

  setTimer(callback: () => void): unknown {
    const timer = {}
    this.timers.set(timer, callback)
    return timer
  }

  clearTimer(timer: unknown): void {
    this.timers.delete(timer as object)
  }

  fire(): void {
    for (const [timer, callback] of [...this.timers]) {
      this.timers.delete(timer)
      callback()
    }
  }
}

/** Calls that come and go while `read` says what time it is. */
async function load(read: (step: number) => number, steps: number): Promise<Scheduler> {
  const clock = new UnreliableClock()
  const scheduler = new Scheduler({ cluster: instances(2), clock, leaseTtlMs: 3_600_000 })
  const leases: Lease[] = []
  let last = scheduler.nowMs
  for (let step = 0; step < steps; step += 1) {
    clock.reading = read(step)
    clock.fire()
    assert.ok(scheduler.nowMs >= last, 'time never decreases')
    last = scheduler.nowMs
    const workflow = scheduler.workflow({ sloMs: 1000 })
    void workflow.call({ promptTokens: 1 + (step % 50) }).then(
      (lease) => leases.push(lease),
      () => {},
    )
    await turn()
    if (step % 3 === 2)
      for (const lease of leases.splice(0)) {
        lease.firstToken()
        lease.done({ outputTokens: 1 + (step % 9) })
      }
    workflow.end()
    await turn()
    assert.ok(scheduler.audit(), `step ${step}`)
  }
  for (let round = 0; round < 20; round += 1) {
    for (const lease of leases.splice(0)) lease.done({ outputTokens: 1 })
    await turn()
  }
  assertEmpty(scheduler)
  return scheduler
}

describe('hazard: a clock that goes backwards', () => {
  it('by steps, by random jumps, or for ever: time stands still meanwhile', async () => {
    await load((step) => 1000 - step, 90)
    await load((step) => (step % 10) * 100, 90)
    const next = random(11)
    await load(() => Math.floor(next() * 1e6), 200)
  })

  it('that stands still: every event happens at one instant', async () => {
    const scheduler = await load(() => 0, 60)
    assert.equal(scheduler.nowMs, 0)
  })

  it('that is no number for a while', async () => {
    await load((step) => (step % 4 === 1 ? Number.NaN : step), 60)
    await load((step) => (step % 4 === 1 ? Number.NEGATIVE_INFINITY : step), 60)
  })

  it('that jumps ahead by a century, or to infinity: what cannot be a time is not one', async () => {
    for (const wrong of [Number.POSITIVE_INFINITY, 1e300, 2 ** 53, 1e16]) {
      const scheduler = await load((step) => (step === 30 ? wrong : step * 10), 60)
      assert.equal(scheduler.nowMs, 590, `${wrong}`)
    }
  })

  it('in the ring: a record of the past is refused, and changes nothing', () => {
    const run = runOptions({ feedback: 'lease', lookahead: 0 })
    const scheduler = new RingScheduler({ ...run, latencies: [], templates: [] })
    scheduler.push({ t: 1000, kind: 'timer' })
    scheduler.decide()
    for (const t of [999, 0, -1, -(2 ** 53) + 1]) {
      scheduler.push({ t, kind: 'openWorkflow', workflow: 0, workflowGeneration: 1, tenant: 0, stageTemplate: -1, deadline: -1, remaining: -1 }) // biome-ignore format: one line
      scheduler.decide()
      assert.equal(scheduler.refusals.length, 2, `${t}`)
      assert.ok(scheduler.audit())
    }
    scheduler.push({ t: 1000, kind: 'openWorkflow', workflow: 0, workflowGeneration: 1, tenant: 0, stageTemplate: -1, deadline: 10n ** 12n, remaining: -1 }) // biome-ignore format: one line
    scheduler.decide()
    assert.equal(scheduler.refusals.length, 0)
  })
})
