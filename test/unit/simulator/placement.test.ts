import assert from 'node:assert/strict'
import {
  chessTrace,
  LaxityError,
  type PlacementFunction,
  type PlacementView,
  type SimulateOptions,
  simulate,
  sweep,
} from '../../../lib/index.ts'
import { native } from '../../../lib/native.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'

const cluster = 'hexgen-hetero-2'

/** The native `least-work-left`, word for word: candidates come in the order of ties. */
const leastWorkLeft: PlacementFunction = ({ candidates }) => {
  let best = candidates[0]!
  for (const c of candidates) {
    if (
      c.queuedWorkMs < best.queuedWorkMs ||
      (c.queuedWorkMs === best.queuedWorkMs && c.execMs < best.execMs)
    )
      best = c
  }
  return best.instance
}

describe('a placement in JavaScript', () => {
  let trace: TraceTable
  let base: SimulateOptions
  before(async () => {
    trace = await chessTrace({ workflows: 25, preset: 3, seed: 7 })
    base = { trace, cluster, rate: 2, log: true, perCall: true, laws: true }
  })

  async function failure(placement: unknown, options: Partial<SimulateOptions> = {}): Promise<LaxityError> {
    try {
      await simulate({ ...base, ...options, placement: placement as PlacementFunction })
    } catch (error) {
      assert(error instanceof LaxityError, String(error))
      return error
    }
    throw new assert.AssertionError({ message: 'the placement was accepted' })
  }

  it('that copies least-work-left gives the same bytes', async () => {
    for (const options of [
      {},
      { feedback: 'lease' as const, tieSeed: 5 },
      { order: 'ratio', binding: 'at-credit' as const },
      { migrate: true },
    ]) {
      const [mine, theirs] = await Promise.all([
        simulate({ ...base, ...options, placement: leastWorkLeft }),
        simulate({ ...base, ...options, placement: 'least-work-left' }),
      ])
      assert.deepEqual(mine.latencyMs, theirs.latencyMs)
      assert.deepEqual(mine.perCall, theirs.perCall)
      assert.deepEqual(mine.metrics, theirs.metrics)
      assert(Buffer.from(mine.log!).equals(theirs.log!))
      assert.equal(mine.policy.placement, 'javascript')
      assert.equal(mine.logHeader!.run.placement, 'javascript')
    }
  })

  it('sees the documented view, with numbers that agree with each other', async () => {
    const views: PlacementView[] = []
    await simulate({
      ...base,
      placement: (view) => {
        views.push(view)
        return leastWorkLeft(view)
      },
    })
    assert.equal(views.length, trace.calls)
    const [first] = views as [PlacementView]
    assert.deepEqual(Object.keys(first), ['nowMs', 'call', 'candidates'])
    assert.deepEqual(Object.keys(first.call), [
      'workflow',
      'tenant',
      'arrivedAtMs',
      'deadlineMs',
      'stage',
      'model',
      'promptTokens',
      'predictedOutputTokens',
      'sequences',
      'waitedMs',
      'attempt',
    ])
    assert.deepEqual(Object.keys(first.candidates[0]!), [
      'instance',
      'hardwareClass',
      'prefillMs',
      'execMs',
      'cachedTokens',
      'queuedWorkMs',
      'assigned',
      'waiting',
      'leased',
      'unprefilled',
      'backlogMs',
      'backlogTokens',
      'reservedKv',
      'waitingKv',
      'kvTokens',
      'contextTokens',
      'maxSequences',
      'utilisation',
    ])
    assert.deepEqual([first.call.workflow, first.call.attempt, first.call.waitedMs], [0, 0, 0])
    for (const { nowMs, call, candidates } of views) {
      assert(candidates.length === 4 && call.arrivedAtMs <= nowMs && call.deadlineMs! > call.arrivedAtMs)
      assert(trace.stages[call.stage] !== undefined && trace.models[call.model] !== undefined)
      for (const c of candidates) {
        assert(c.prefillMs > 0 && c.prefillMs < c.execMs && c.unprefilled <= c.leased)
        assert.equal(c.assigned, c.waiting + c.leased) // one sequence per call
        assert.equal(c.assigned === 0, c.queuedWorkMs === 0)
        assert(c.reservedKv <= c.kvTokens && c.utilisation >= 0 && c.leased <= c.maxSequences)
        assert.equal(c.backlogTokens > 0, c.waiting + c.unprefilled > 0)
      }
    }
    assert(views.some(({ candidates }) => candidates.some(({ waiting }) => waiting > 0)))
    assert(views.some(({ candidates }) => candidates.some(({ utilisation }) => utilisation > 0)))
  })

  const cause = new RangeError('no idea')
  const hostile = { toString: () => 'bad', get message() { throw new Error('worse') } } // biome-ignore format: one line
  const wrong: [what: string, placement: unknown, message: RegExp][] = [
    ['throws', () => { throw cause }, /The placement function failed: no idea/], // biome-ignore format: one line
    ['throws a string', () => { throw 'x' }, /failed: "x" \(string\)/], // biome-ignore format: one line
    ['throws nothing', () => { throw undefined }, /failed: undefined/], // biome-ignore format: one line
    ['throws what throws', () => { throw hostile }, /failed: an object/], // biome-ignore format: one line
    ['is async', async () => 0, /it returned a promise/],
    ['is async and rejects', async () => { throw cause }, /it returned a promise/], // biome-ignore format: one line
    // biome-ignore lint/suspicious/noThenProperty: the point
    ['returns a hostile thenable', () => ({ get then() { throw cause } }), /failed: no idea/], // biome-ignore format: one line
    ['returns NaN', () => Number.NaN, /Expected the index of a candidate.*NaN/],
    ['returns nothing', () => {}, /undefined/],
    ['returns text', () => '0', /got "0" \(string\)/],
    ['returns a bigint', () => 0n, /got 0 \(bigint\)/],
    ['returns a symbol', () => Symbol('s'), /Symbol\(s\)/],
    ['returns an object', () => ({ valueOf: () => 0 }), /got an object/],
    ['returns -1', () => -1, /got -1/],
    ['returns 0.5', () => 0.5, /got 0\.5/],
    ['returns too much', () => 4, /got 4/],
    ['returns 2^32', () => 2 ** 32, /got 4294967296/],
    ['recurses for ever', function f(): unknown { return f() }, /Maximum call stack/], // biome-ignore format: one line
  ]
  for (const [what, placement, message] of wrong) {
    it(`that ${what} is one coded error`, async () => {
      for (const options of [{}, { compat: 'hexgen-ticks' as const }, { binding: 'at-credit' as const }]) {
        const error = await failure(placement, options)
        assert.equal(error.code, 'ERR_LAXITY_PLACEMENT')
        assert.equal(error.place, 'placement')
        assert.match(error.message, message)
      }
    })
  }

  it('that fails late keeps its error as the cause, and is asked no more', async () => {
    let asked = 0
    const error = await failure((view: PlacementView) => {
      if (++asked === 40) throw cause
      return leastWorkLeft(view)
    })
    assert.equal(error.cause, cause)
    assert.equal(asked, 40)
    await new Promise((resolve) => setImmediate(resolve)) // a rejection nobody handles would show here
    assert.deepEqual(
      (await simulate({ ...base, placement: leastWorkLeft })).latencyMs,
      (await simulate({ ...base, placement: 'least-work-left' })).latencyMs,
    )
  })

  it('that names an instance without credit is refused', async () => {
    const error = await failure(() => 0, { binding: 'at-credit' })
    assert.match(error.message, /Expected the index of a candidate.*got 0/)
  })

  it('may start other runs, which wait, but never the run that calls it', async () => {
    const started: Promise<unknown>[] = []
    const outer = await simulate({
      ...base,
      placement: (view) => {
        if (started.length < 3) started.push(simulate({ ...base, placement: leastWorkLeft }))
        return leastWorkLeft(view)
      },
    })
    for (const inner of (await Promise.all(started)) as (typeof outer)[])
      assert.deepEqual(inner.latencyMs, outer.latencyMs)
  })

  it('runs in this thread whatever `workers` says, and so does a sweep with it', async () => {
    const run = await simulate({ ...base, placement: leastWorkLeft, workers: 2 })
    assert.equal(run.timing.workers, 0)
    const options = { trace, cluster, alphas: [0, 1], replications: 2, workers: 2 }
    const mine = await sweep({ ...options, placement: leastWorkLeft })
    const theirs = await sweep({ ...options, placement: 'least-work-left' })
    assert.equal(mine.timing.workers, 0)
    assert.deepEqual(mine.points, theirs.points)
    assert.equal(mine.policy.placement, 'javascript')
  })

  it('can abort its own run', async () => {
    const controller = new AbortController()
    const long = await chessTrace({ workflows: 200, preset: 3, seed: 7 })
    const run = simulate({
      ...base,
      trace: long,
      signal: controller.signal,
      placement: (view) => {
        if (view.call.workflow === 3) controller.abort()
        assert(view.call.workflow < 150, 'the run goes on')
        return leastWorkLeft(view)
      },
    })
    await assert.rejects(run, { code: 'ERR_LAXITY_ABORTED' })
  })
})

describe('placements and migration in the facade', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 15, preset: 3, seed: 7 })
  })

  it('runs every registered placement, with and without migration', async () => {
    for (const placement of native.placements) {
      const options = { trace, cluster, rate: 2, placement, laws: true }
      const plain = await simulate({ ...options })
      assert.equal(plain.counts.completed, 15)
      if (placement === 'global-queue') continue
      assert.deepEqual((await simulate({ ...options, migrate: false })).latencyMs, plain.latencyMs)
      const moved = await simulate({ ...options, migrate: true, parameters: { migrateMs: 0 } })
      assert.equal(moved.counts.completed, 15)
    }
  })

  it('moves nothing above its threshold, and changes a run below it', async () => {
    const options = { trace, cluster, rate: 5, placement: 'round-robin' }
    const run = async (more: Partial<SimulateOptions>) =>
      Array.from((await simulate({ ...options, ...more })).latencyMs)
    const plain = await run({})
    assert.deepEqual(await run({ migrate: true, parameters: { migrateMs: 1e9 } }), plain)
    assert.notDeepEqual(await run({ migrate: true }), plain)
  })

  it('draws by placementSeed', async () => {
    const run = async (placementSeed?: number) =>
      Array.from((await simulate({ trace, cluster, placement: 'power-of-two', placementSeed })).latencyMs)
    assert.deepEqual(await run(), await run(1))
    assert.notDeepEqual(await run(2), await run(1))
  })

  const wrong: [Partial<SimulateOptions>, RegExp][] = [
    [{ migrate: true, placement: 'global-queue' }, /`migrate` needs binding "at-reveal"/],
    [{ migrate: 1 as never }, /Expected true or false for `migrate`/],
    [{ placementSeed: -1 }, /`placementSeed`, got -1/],
    [{ parameters: { migrateMs: -1 } }, /out of range for parameter "migrateMs"/],
    [{ parameters: { migrateCandidates: 0 } }, /out of range for parameter "migrateCandidates"/],
    [{ placement: 'least-loadd' }, /did you mean "least-loaded"/],
    [{ placement: {} as never }, /Expected one of round-robin, .*power-of-two.* for `placement`/],
  ]
  for (const [options, message] of wrong) {
    it(`refuses ${message.source}`, async () => {
      await assert.rejects(simulate({ trace, cluster, ...options }), { code: 'ERR_LAXITY_OPTION', message })
    })
  }
})
