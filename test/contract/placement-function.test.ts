import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { LaxityError } from '../../lib/errors.ts'
import { native } from '../../lib/native.ts'
import type { PlacementFunction } from '../../lib/scheduler/placement.ts'
import { decodeRecord, type EventObject } from '../../lib/scheduler/records.ts'
import { replay } from '../../lib/scheduler/replay.ts'
import { RingScheduler } from '../../lib/scheduler/ring.ts'
import { policy, recorded, runOptions, scenario, simulator } from '../support/runs.ts'

const first: PlacementFunction = ({ candidates }) => candidates[0]!.instance

/** Depends on much of what it sees, so that a view that differs shows. */
const mixed: PlacementFunction = ({ nowMs, call, candidates }) => {
  let best = candidates[0]!
  let bestScore = Number.POSITIVE_INFINITY
  for (const c of candidates) {
    const score =
      (c.queuedWorkMs + c.backlogMs + c.execMs) * (1 + c.assigned) +
      c.reservedKv +
      c.waitingKv +
      c.backlogTokens +
      ((call.promptTokens + Math.floor(nowMs) + c.instance) % 7) * 50 +
      c.utilisation
    if (score < bestScore) {
      best = c
      bestScore = score
    }
  }
  return best.instance
}

function withFunction(seed: number, placement: PlacementFunction) {
  const feedback = seed % 2 === 0 ? ('boundary' as const) : ('lease' as const)
  const lookahead = feedback === 'lease' ? seed % 3 : 0
  return runOptions({ ...policy(seed), placement, feedback, lookahead })
}

const LATENCY = {
  kind: 'constants',
  prefillBaseMs: 0,
  prefillPerTokenMs: 1,
  decodeBaseMs: 1,
  decodePerSequenceMs: 0,
  decodePerContextMs: 0,
} as const

/** A ring with two instances and one open workflow. */
function ring(placement: PlacementFunction, binding: 'at-reveal' | 'at-credit' = 'at-reveal'): RingScheduler {
  const run = runOptions({ placement, binding, order: 'fcfs', feedback: 'lease', lookahead: 0 })
  const scheduler = new RingScheduler({ ...run, latencies: [LATENCY], templates: [] })
  for (const instance of [0, 1]) {
    const spec = { role: 0, mode: 0, model: 0, latency: 0, maxSequences: 4, kvTokens: 1000, chunkTokens: 0, decodeShare: 0, linkPerToken: 0, linkLatency: 0 } // biome-ignore format: one line
    scheduler.push({ t: 0, kind: 'instance', instance, change: 0, ...spec })
  }
  scheduler.push({
    t: 0,
    kind: 'openWorkflow',
    workflow: 0,
    workflowGeneration: 1,
    tenant: 0,
    stageTemplate: -1,
    deadline: 10n ** 12n,
    remaining: -1,
  })
  return scheduler
}

function reveal(call: number): EventObject {
  const none = 0xffff_ffff
  return {
    t: 0,
    kind: 'reveal',
    call,
    callGeneration: 1,
    workflow: 0,
    workflowGeneration: 1,
    stage: 0,
    model: 0,
    sequences: 1,
    frontier: 0,
    toolPending: 0,
    silent: 0,
    promptTokens: 10,
    predictedTokens: 5,
    predictedHigh: 5,
    cachedOn0: none,
    cachedTokens0: 0,
    cachedOn1: none,
    cachedTokens1: 0,
    remaining: -1,
    parents: [],
  }
}

function decided(bytes: Uint8Array): { call: number; instance: number }[] {
  const size = native.eventLayout.decisionBytes
  const record = new Uint8Array(native.eventLayout.recordBytes)
  const view = new DataView(record.buffer)
  const id = native.eventLayout.kinds.find(({ name }) => name === 'decision')!.id
  return Array.from({ length: bytes.length / size }, (_, i) => {
    view.setUint16(8, id, true)
    record.set(bytes.subarray(i * size, (i + 1) * size), record.length - 112)
    const { call, instance } = decodeRecord(view, 0)!
    return { call: call as number, instance: instance as number }
  })
}

function failure(act: () => unknown): LaxityError {
  try {
    act()
  } catch (error) {
    assert(error instanceof LaxityError, String(error))
    assert.equal(error.code, 'ERR_LAXITY_PLACEMENT')
    return error
  }
  throw new assert.AssertionError({ message: 'no failure' })
}

describe('a placement in JavaScript behind the ring', () => {
  it('makes every decision of its simulation again, natively and through the ring', () => {
    let decisions = 0
    for (let seed = 1; seed <= 80; seed += 1) {
      const run = withFunction(seed, mixed)
      const { log } = recorded(scenario(seed), run)
      const { latencies, templates } = log.header.cluster
      const bytes = new Uint8Array(new SharedArrayBuffer(2 * native.eventLayout.recordBytes))
      const direct = new native.Scheduler({ ...run, latencies, templates }, bytes).applyLog(log.records)
      assert.equal(direct.firstMismatch, -1, `seed ${seed}: native replay differs`)
      const throughRing = replay(log, 'log', { placement: mixed })
      assert.equal(throughRing.firstMismatch, undefined, `seed ${seed}: the ring differs`)
      decisions += throughRing.matched
    }
    assert.ok(decisions > 2_000, `only ${decisions} decisions compared`)
    // Another function decides otherwise, so that the comparison can fail.
    const { log } = recorded(scenario(3), withFunction(3, mixed))
    assert.notEqual(replay(log, 'log', { placement: first }).firstMismatch, undefined)
  })

  it('needs its function for a replay', () => {
    const { log } = recorded(scenario(3), withFunction(3, mixed))
    log.header.run = { ...log.header.run, placement: 'javascript' }
    assert.throws(() => replay(log), { code: 'ERR_LAXITY_LOG', message: /JavaScript function/ })
    assert.equal(replay(log, 'log', { placement: mixed }).firstMismatch, undefined)
  })

  it('surfaces its failure from decide, leaves the state as it was, and is asked again', () => {
    const cause = new Error('not today')
    let answer = (): number => {
      throw cause
    }
    const scheduler = ring(() => answer())
    scheduler.push(reveal(0))
    scheduler.push(reveal(1))
    const error = failure(() => scheduler.decide())
    assert.equal(error.cause, cause)
    assert.equal(scheduler.decisions.length, 0)
    assert.equal(scheduler.refusals.length, 0)
    assert(scheduler.audit())
    for (const bad of [Number.NaN, 2, -1, '0', undefined, null, Promise.resolve(0), Promise.reject(cause)]) {
      answer = () => bad as number
      scheduler.push({ t: 0, kind: 'timer' })
      failure(() => scheduler.decide())
      assert(scheduler.audit())
    }
    answer = () => 1
    scheduler.push({ t: 0, kind: 'timer' })
    assert.deepEqual(decided(scheduler.decide()), [{ call: 0, instance: 1 }])
    assert(scheduler.audit())
    scheduler.push({ t: 5, kind: 'finished', call: 0, callGeneration: 1, epoch: 0, outputTokens: 5 })
    assert.deepEqual(decided(scheduler.decide()), [{ call: 1, instance: 1 }])
    assert(scheduler.audit())
  })

  it('keeps what was decided before it failed', () => {
    const scheduler = ring(() => 0, 'at-credit')
    for (const call of [0, 1]) scheduler.push(reveal(call))
    failure(() => scheduler.decide()) // instance 0 has no credit for the second
    assert.deepEqual(decided(scheduler.decisions), [{ call: 0, instance: 0 }])
    assert(scheduler.audit())
    scheduler.push({ t: 5, kind: 'firstToken', call: 0, callGeneration: 1, epoch: 0 })
    assert.deepEqual(decided(scheduler.decide()), [{ call: 1, instance: 0 }])
    assert(scheduler.audit())
  })

  it('cannot come back into the scheduler that calls it, and may write to its ring', () => {
    for (const attempt of ['decide', 'audit'] as const) {
      let scheduler: RingScheduler | undefined
      const caught: unknown[] = []
      scheduler = ring((view) => {
        try {
          scheduler![attempt]()
        } catch (error) {
          caught.push(error)
        }
        if (scheduler!.pending === 0) scheduler!.push({ t: 1, kind: 'timer' })
        return first(view)
      })
      scheduler.push(reveal(0))
      assert.equal(decided(scheduler.decide()).length, 1)
      assert.match(String(caught[0]), /a placement must not call it/)
      assert.equal(scheduler.pending, 1)
      assert(scheduler.audit())
    }
    let scheduler: RingScheduler | undefined
    scheduler = ring(() => decided(scheduler!.decide()).length)
    scheduler.push(reveal(0))
    assert.match(failure(() => scheduler.decide()).message, /a placement must not call it/)
    assert(scheduler.audit())
  })

  it('cannot run its own simulator again', () => {
    const input = scenario(4)
    const sim = simulator(input)
    const caught: unknown[] = []
    const run = runOptions({
      placement: (view) => {
        try {
          sim.run(runOptions(), {})
        } catch (error) {
          caught.push(error)
        }
        return first(view)
      },
    })
    assert.equal(sim.run(run, {}).status, 0)
    assert.match(String(caught[0]), /must not run it again/)
    assert.deepEqual(sim.run(runOptions(), {}).p95Ms, simulator(input).run(runOptions(), {}).p95Ms)
  })

  it('does not keep its scheduler alive', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    let collected = 0
    const registry = new FinalizationRegistry(() => {
      collected += 1
    })
    for (let i = 0; i < 20; i += 1) {
      let self: RingScheduler | undefined
      self = ring((view) => (self === undefined ? -1 : first(view)))
      registry.register(self, i)
    }
    for (let i = 0; i < 20 && collected < 15; i += 1) {
      collect()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    assert(collected >= 15, `${collected} of 20 collected`)
  })
})
