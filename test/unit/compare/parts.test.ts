import assert from 'node:assert/strict'
import { pairedRatio } from '../../../lib/compare/intervals.ts'
import { inLanes } from '../../../lib/compare/lanes.ts'
import { namedPolicy, policyOption } from '../../../lib/compare/policies.ts'
import { Progresses } from '../../../lib/compare/progress.ts'
import { saturationRate } from '../../../lib/compare/saturation.ts'
import { native } from '../../../lib/native.ts'
import type { Progress } from '../../../lib/simulator/options.ts'

const near = (got: number | null, wanted: number) =>
  assert(got !== null && Math.abs(got / wanted - 1) < 1e-9, `${got}, not ${wanted}`)

describe('the paired ratio', () => {
  it('is the geometric mean with the t-interval of the logarithms, against values by hand', () => {
    // Ratios 2, 4, 8: logarithms of mean 2 ln 2 and deviation ln 2; t(0.975; 2) = 4.302652729911275.
    const three = pairedRatio(native, Float64Array.of(2, 12, 40), Float64Array.of(1, 3, 5))!
    near(three.ratio, 4)
    near(three.low, 0.7149242471326539)
    near(three.high, 22.379993494655114)
    // t(0.975; 1) = 12.706204736432095
    const two = pairedRatio(native, Float64Array.of(1.1, 2.6), Float64Array.of(1, 2))!
    near(two.ratio, 1.1958260743101399)
    near(two.low, 0.4137578089979899)
    near(two.high, 3.4561281235104064)
  })

  it('pairs: what changes both alike does not widen it', () => {
    const own = Float64Array.of(9, 90, 900)
    near(pairedRatio(native, own, own.map((value) => value / 3))!.low, 3) // biome-ignore format: one line
    assert(pairedRatio(native, own, Float64Array.of(300, 30, 3))!.low! < 0.01)
  })

  it('has no interval with one seed, and is nothing where a logarithm is', () => {
    assert.deepEqual(pairedRatio(native, Float64Array.of(3), Float64Array.of(2)), {
      ratio: 1.5,
      low: null,
      high: null,
    })
    for (const bad of [0, Number.POSITIVE_INFINITY, Number.NaN]) {
      assert.equal(pairedRatio(native, Float64Array.of(1, bad), Float64Array.of(1, 2)), null)
      assert.equal(pairedRatio(native, Float64Array.of(1, 2), Float64Array.of(bad, 1)), null)
    }
    assert.equal(pairedRatio(native, new Float64Array(0), new Float64Array(0)), null)
  })
})

describe('load 1.0', () => {
  const finishes = (...seconds: number[]) => Float64Array.from(seconds, (s) => 1000 * s)

  it('is throughput until 90 % are done, whatever becomes of the rest', () => {
    assert.equal(saturationRate(finishes(3, 1, 2, 4, 5, 6, 7, 8, 9, 500)), 1)
    assert.equal(saturationRate(finishes(3, 1, 2, 4, 5, 6, 7, 8, 9, Number.POSITIVE_INFINITY)), 1)
    // Of 11 it needs 10, the tenth of which ends at 20 s.
    assert.equal(saturationRate(finishes(1, 1, 1, 1, 1, 1, 1, 1, 1, 20, 99)), 0.5)
    assert.equal(saturationRate(finishes(2)), 0.5)
  })

  it('is 0 where too many never end', () => {
    const never = Number.POSITIVE_INFINITY
    assert.equal(saturationRate(finishes(1, 2, 3, 4, 5, 6, 7, 8, never, never)), 0)
  })
})

describe('a policy of a comparison', () => {
  it("is a preset, or parts with the placement's own binding", () => {
    assert.equal(policyOption('hexagent'), 'hexagent')
    const of = (name: string) => namedPolicy(native, 'paired', name).policy
    const hexagent = { order: 'ratio', placement: 'earliest-finish', binding: 'at-credit', migrate: false }
    assert.deepEqual(of('hexagent'), hexagent)
    assert.deepEqual(of('ratio/earliest-finish'), hexagent)
    assert.equal(of('workflow-fcfs/least-loaded').binding, 'at-reveal')
    assert.equal(of('workflow-fcfs/least-loaded/at-credit').binding, 'at-credit')
    assert.equal(namedPolicy(native, 'unified', 'laxity').policy.migrate, true)
  })

  const wrong: [name: string, message: RegExp][] = [
    ['hexagnt', /^Unknown policy "hexagnt"; did you mean "hexagent"\? \(in `policy` "hexagnt"\)$/],
    ['fcf/least-loaded', /Unknown order "fcf"; did you mean "fcfs"\?/],
    ['fcfs/', /Unknown placement ""/],
    ['fcfs/least-loaded/at-once', /Unknown binding "at-once"/],
    ['fcfs/least-loaded/at-credit/x', /Unknown binding "at-credit\/x"/],
    ['vllm', /is for unified clusters/],
    ['fcfs/workload-balanced', /"workload-balanced" is for unified clusters/],
  ]
  for (const [name, message] of wrong) {
    it(`is refused: ${name}`, () =>
      assert.throws(() => namedPolicy(native, 'paired', name), {
        code: 'ERR_LAXITY_OPTION',
        place: 'policy',
        message,
      }))
  }
})

describe('lanes', () => {
  const soon = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

  it('keep so many jobs under way, and the results in their order', async () => {
    let active = 0
    let most = 0
    const jobs = Array.from({ length: 9 }, (_, i) => async () => {
      most = Math.max(most, ++active)
      await soon(9 - i)
      active--
      return i
    })
    assert.deepEqual(await inLanes(3, jobs, () => assert.fail()), [0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert.equal(most, 3)
    assert.deepEqual(await inLanes(0, jobs.slice(0, 2), () => {}), [0, 1])
  })

  it('stop at a failure: those under way are told and awaited, no other starts', async () => {
    const events: string[] = []
    const jobs = [
      async () => {
        await soon(5)
        events.push('ended')
      },
      async () => {
        throw new Error('first')
      },
      async () => {
        events.push('started')
      },
    ]
    await assert.rejects(
      inLanes(2, jobs, () => events.push('told')),
      { message: 'first' },
    )
    assert.deepEqual(events, ['told', 'ended'])
  })
})

describe('the progress of many runs', () => {
  it('adds up, and never counts a run twice', () => {
    const seen: Progress[] = []
    const all = new Progresses((progress) => seen.push(progress))
    all.totalRuns = 2
    all.totalWorkflows = 30
    const [a, b] = [all.add(10), all.add(20)]
    a({ doneRuns: 0, totalRuns: 1, doneWorkflows: 4, totalWorkflows: 10 })
    assert.deepEqual(seen, [{ doneRuns: 0, totalRuns: 2, doneWorkflows: 4, totalWorkflows: 30 }])
    a({ doneRuns: 1, totalRuns: 1, doneWorkflows: 10, totalWorkflows: 10 })
    a({ doneRuns: 1, totalRuns: 1, doneWorkflows: 10, totalWorkflows: 10 })
    const now = performance.now
    performance.now = () => now.call(performance) + 1000
    try {
      b({ doneRuns: 1, totalRuns: 1, doneWorkflows: 99, totalWorkflows: 20 })
    } finally {
      performance.now = now
    }
    assert.deepEqual(seen.at(-1), { doneRuns: 2, totalRuns: 2, doneWorkflows: 30, totalWorkflows: 30 })
  })
})
