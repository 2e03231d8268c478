import assert from 'node:assert/strict'
import { chessTrace, type SweepOptions, type SweepResult, sweep } from '../../../lib/index.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'

const cluster = 'hexgen-hetero-2'

function withoutTiming({ timing: _, ...rest }: SweepResult): Omit<SweepResult, 'timing'> {
  return rest
}

describe('a sweep by successive halving', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 30, preset: 3, seed: 7 })
  })

  it('is the same to the byte inline and for any number of workers', async () => {
    const options: SweepOptions = { trace, cluster, search: 'halving', replications: 8, rate: 1 }
    const inline = await sweep({ ...options, workers: 0 })
    for (const workers of [1, 2, 3]) {
      const pooled = await sweep({ ...options, workers })
      assert.equal(pooled.timing.workers, workers)
      assert.equal(JSON.stringify(withoutTiming(pooled)), JSON.stringify(withoutTiming(inline)))
    }
  })

  it('gives survivors the numbers of the full grid, and names the others with their round', async () => {
    for (const objective of ['p95', 'mean', 'attainment@2'] as const) {
      const options: SweepOptions = { trace, cluster, rate: 1, replications: 16, objective }
      const full = await sweep(options)
      const halved = await sweep({ ...options, search: 'halving' })
      assert.deepEqual([full.search, full.eliminated, full.runs], ['grid', [], 176])
      const survivors = halved.points.map(({ alpha }) => alpha)
      assert.deepEqual(
        halved.points,
        full.points.filter(({ alpha }) => survivors.includes(alpha)),
      )
      assert(survivors.includes(0) && survivors.includes(1))
      const all = [...survivors, ...halved.eliminated.map(({ alpha }) => alpha)].sort((a, b) => a - b)
      assert.deepEqual(
        all,
        full.points.map(({ alpha }) => alpha),
      )
      for (const { round, replications } of halved.eliminated) assert.equal(replications, 2 ** (round - 1))
      assert(survivors.includes(halved.best.alpha))
      assert(halved.best.indistinguishable.every((alpha) => survivors.includes(alpha)))
      assert(halved.runs < full.runs)
      assert.equal(halved.timing.simulatedCalls, halved.runs * trace.calls)
    }
  })

  it('eliminates nothing where one replication is all there is', async () => {
    const options: SweepOptions = { trace, cluster, arrivals: 'fixed' }
    const halved = await sweep({ ...options, search: 'halving' })
    const full = await sweep(options)
    assert.deepEqual(halved.eliminated, [])
    assert.deepEqual(halved.points, full.points)
  })

  it('reports progress over all rounds', async () => {
    const large = await chessTrace({ workflows: 2000, preset: 3, seed: 1 })
    let last = 0
    let reports = 0
    await sweep({
      trace: large,
      cluster,
      search: 'halving',
      replications: 8,
      workers: 1,
      onProgress: ({ doneRuns, totalRuns, doneWorkflows, totalWorkflows }) => {
        reports++
        assert(doneRuns >= last && doneRuns <= totalRuns && doneWorkflows <= totalWorkflows)
        assert.equal(totalWorkflows, totalRuns * 2000)
        last = doneRuns
      },
    })
    assert(reports > 0)
  })

  it('refuses another search', () =>
    assert.rejects(sweep({ trace, cluster, search: 'golden' } as unknown as SweepOptions), {
      code: 'ERR_LAXITY_OPTION',
      message: /Unknown search "golden" \(known: grid, halving\)/,
    }))
})
