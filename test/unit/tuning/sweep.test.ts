import assert from 'node:assert/strict'
import {
  chessTrace,
  type Progress,
  type SweepOptions,
  type SweepResult,
  simulate,
  sweep,
} from '../../../lib/index.ts'
import { sweepReport } from '../../../lib/report/sweep-report.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'

const cluster = 'hexgen-hetero-2'

function withoutTiming({ timing: _, ...rest }: SweepResult): Omit<SweepResult, 'timing'> {
  return rest
}

describe('sweep', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 20, preset: 3, seed: 7 })
  })

  it('is the same to the byte inline and for any number of workers', async () => {
    const options: SweepOptions = { trace, cluster, replications: 5, alphas: '0:1:0.25', rate: 1 }
    const inline = await sweep({ ...options, workers: 0 })
    for (const workers of [1, 2, 3]) {
      const pooled = await sweep({ ...options, workers })
      assert.equal(pooled.timing.workers, workers)
      assert.equal(JSON.stringify(withoutTiming(pooled)), JSON.stringify(withoutTiming(inline)))
    }
  })

  it('averages what simulate gives for each replication', async () => {
    const result = await sweep({ trace, cluster, replications: 3, alphas: [0.7, 0.2] })
    assert.deepEqual(
      result.points.map(({ alpha }) => alpha),
      [0.2, 0.7],
    )
    for (const point of result.points) {
      let p95 = 0
      let share = 0
      for (let replication = 0; replication < 3; replication++) {
        const run = await simulate({ trace, cluster, alpha: point.alpha, replication })
        p95 += run.metrics.p95Ms
        share += run.attainment(5)
      }
      assert.equal(point.p95Ms, p95 / 3)
      assert.equal(point.attainment.find(([scale]) => scale === 5)![1], share / 3)
      assert(point.ci95Ms![0] <= point.p95Ms && point.p95Ms <= point.ci95Ms![1])
    }
  })

  it('says how far every alpha is from what no scheduler can be below', async () => {
    const options: SweepOptions = {
      trace,
      cluster,
      replications: 2,
      alphas: [0, 0.5, 1],
      rate: 4,
      bound: true,
    }
    const inline = await sweep({ ...options, workers: 0 })
    const pooled = await sweep({ ...options, workers: 2 })
    assert.equal(JSON.stringify(withoutTiming(pooled)), JSON.stringify(withoutTiming(inline)))
    for (const { bound, sloScale95 } of inline.points) {
      const { bound95, bound99, bound100, over95, over99, over100, req100 } = bound!
      assert.ok(bound95 > 0 && bound95 <= bound99 && bound99 <= bound100 && bound95 <= sloScale95)
      assert.ok(over95! >= 1 && over99! >= 1 && over100! >= 1 && req100 >= bound100)
      const first = inline.points[0]!.bound!
      assert.deepEqual([bound95, bound99, bound100], [first.bound95, first.bound99, first.bound100])
    }
    const halved = await sweep({ ...options, search: 'halving', replications: 4, workers: 0 })
    assert.ok(halved.points.every(({ bound }) => bound!.over100! >= 1))
    assert.match(sweepReport(inline), /No scheduler below Req95 \d[\s\S]*\n *alpha +Req95 \/ bound/)
    const { points } = await sweep({ ...options, bound: undefined })
    assert.ok(points.every((point) => !('bound' in point)))
  })

  it('has a curve at the documented scales, and at those asked for', async () => {
    const options: SweepOptions = { trace, cluster, replications: 1, alphas: [0.5], sloScale: 4.2 }
    const { points, objective } = await sweep({ ...options, objective: 'attainment@2.7' })
    assert.deepEqual(objective, { attainment: 2.7 })
    const scales = points[0]!.attainment.map(([scale]) => scale)
    const grid = Array.from({ length: 19 }, (_, i) => 1 + i / 2)
    assert.deepEqual(scales, [...grid, 2.7, 4.2].sort((a, b) => a - b)) // biome-ignore format: one line
  })

  it('takes the best of each objective', async () => {
    const objectives = ['p95', 'p99', 'mean', 'sloScale95', { attainment: 3 }] as const
    for (const objective of objectives) {
      const { points, best } = await sweep({ trace, cluster, replications: 4, objective, rate: 1 })
      const costs = points.map((point) => {
        if (typeof objective === 'object') return -point.attainment.find(([scale]) => scale === 3)![1]
        return objective === 'sloScale95' ? point.sloScale95 : point[`${objective}Ms`]
      })
      assert.equal(best.alpha, points[costs.indexOf(Math.min(...costs))]!.alpha)
      assert(!best.indistinguishable.includes(best.alpha))
    }
  })

  it('cannot separate alphas by one replication', async () => {
    const { points, best } = await sweep({ trace, cluster, replications: 1, alphas: '0:1:0.5' })
    assert.equal(best.indistinguishable.length, 2)
    assert(points.every(({ ci95Ms }) => ci95Ms === null))
  })

  it('runs once where arrivals cannot differ', async () => {
    const { replications, timing } = await sweep({ trace, cluster, arrivals: 'fixed', alphas: [0.1] })
    assert.equal(replications, 1)
    assert.equal(timing.simulatedCalls, trace.calls)
    await assert.rejects(sweep({ trace, cluster, arrivals: 'fixed', replications: 2 }), {
      code: 'ERR_LAXITY_OPTION',
      message: /Expected 1 for `replications`, got 2/,
    })
  })

  it('finds alphas indistinguishable where the placement ignores alpha', async () => {
    const { best } = await sweep({ trace, cluster, policy: 'vllm', replications: 3, alphas: '0:1:0.5' })
    assert.deepEqual(best, { alpha: 0, indistinguishable: [0.5, 1] })
  })

  it('runs small sweeps inline and reports progress of large ones', async () => {
    assert.equal((await sweep({ trace, cluster, replications: 1 })).timing.workers, 0)
    const large = await chessTrace({ workflows: 3000, preset: 3, seed: 1 })
    const seen: Progress[] = []
    const { timing } = await sweep({
      trace: large,
      cluster,
      replications: 2,
      workers: 1,
      onProgress: (progress) => seen.push(progress),
    })
    assert(seen.length >= 1 && seen.length <= timing.sweepMs / 80 + 1)
    for (const { doneRuns, totalRuns, doneWorkflows, totalWorkflows } of seen) {
      assert.deepEqual([totalRuns, totalWorkflows], [22, 66_000])
      assert(doneRuns <= totalRuns && doneWorkflows <= totalWorkflows)
    }
  })

  it('stops workers at once', async () => {
    const large = await chessTrace({ workflows: 20_000, preset: 3, seed: 1 })
    const controller = new AbortController()
    const { signal } = controller
    const running = sweep({ trace: large, cluster, replications: 100, workers: 2, signal })
    let aborted = 0
    setTimeout(() => {
      aborted = performance.now()
      controller.abort()
    }, 4000)
    await assert.rejects(running, { code: 'ERR_LAXITY_ABORTED' })
    // To its end it takes minutes of CPU, and a run of it seconds.
    assert.ok(aborted > 0 && performance.now() - aborted < 20_000)
    // The next sweep gets a new pool.
    assert.equal((await sweep({ trace, cluster, replications: 2, workers: 2 })).points.length, 11)
  })

  const wrong: [options: Record<string, unknown>, message: RegExp][] = [
    [{ alphas: '0:2:1' }, /Expected numbers from 0 to 1 for `alphas`, got 2/],
    [{ alphas: [0, Number.NaN] }, /`alphas`, got NaN/],
    [{ alphas: [] }, /`alphas`/],
    [{ alphas: '0:1' }, /`from:to:step`/],
    [{ alpha: 0.5 }, /Unknown option `alpha`; did you mean "alphas"\?/],
    [{ replications: 0 }, /Expected a whole number from 1 to 10000 for `replications`/],
    [{ objective: 'p50' }, /Expected an objective for `objective`, got "p50" \(string\); did you mean/],
    [{ objective: { attainment: 0 } }, /`objective`, got an object/],
  ]
  for (const [options, message] of wrong) {
    it(`refuses ${JSON.stringify(options)}`, () =>
      assert.rejects(sweep({ trace, cluster, ...options } as SweepOptions), {
        code: 'ERR_LAXITY_OPTION',
        message,
      }))
  }
})
