import assert from 'node:assert/strict'
import { halve, kept, plannedRuns } from '../../../lib/tuning/halving.ts'
import { random } from '../../support/runs.ts'

const CASES = 4000

/** Costs by arm and replication: noise around a curve, with ties, plateaus and unfinished runs among them. */
function objective(next: () => number, arms: number, replications: number): Float64Array[] {
  const kind = Math.floor(next() * 5)
  const shared = Array.from({ length: replications }, () => next())
  return Array.from({ length: arms }, () => {
    const level = kind === 0 ? 1 : kind === 1 ? Math.floor(next() * 3) : next() * 2
    return Float64Array.from(shared, (common) => {
      if (kind === 4 && next() < 0.05) return Number.POSITIVE_INFINITY
      return kind <= 1 ? level : level + common + next() * (kind === 2 ? 0.01 : 3)
    })
  })
}

function grid(next: () => number): number[] {
  const points = new Set(
    Array.from({ length: 1 + Math.floor(next() * 14) }, () => Math.floor(next() * 101) / 100),
  )
  if (next() < 0.7) points.add(0)
  if (next() < 0.7) points.add(1)
  return [...points].sort((a, b) => a - b)
}

const isEnd = (alpha: number) => alpha === 0 || alpha === 1
const meanOf = (costs: Float64Array, count: number) =>
  costs.subarray(0, count).reduce((sum, cost) => sum + cost, 0) / count

/** The rule by counting: an arm stays while fewer than half of the others (rounded up) are strictly better. */
function naive(alphas: readonly number[], costs: readonly Float64Array[], replications: number) {
  let arms = alphas.map((_, arm) => arm)
  const eliminated: { alpha: number; round: number; replications: number }[] = []
  for (let round = 1; 2 ** (round - 1) < replications; round++) {
    const count = 2 ** (round - 1)
    const others = arms.filter((arm) => !isEnd(alphas[arm]!))
    if (others.length < 2) break
    const own = new Map(others.map((arm) => [arm, meanOf(costs[arm]!, count)]))
    const gone = others.filter((arm) => {
      const better = others.filter((other) => own.get(other)! < own.get(arm)!)
      return better.length >= Math.ceil(others.length / 2)
    })
    eliminated.push(...gone.map((arm) => ({ alpha: alphas[arm]!, round, replications: count })))
    arms = arms.filter((arm) => !gone.includes(arm))
  }
  return { arms, eliminated }
}

describe('successive halving', () => {
  it(`eliminates what the rule says and nothing else, in ${CASES} random objectives`, async () => {
    const next = random(20_250_517)
    let eliminations = 0
    let ties = 0
    for (let round = 0; round < CASES; round++) {
      const alphas = grid(next)
      const replications = 1 + Math.floor(next() * 20)
      const costs = objective(next, alphas.length, replications)
      const done = alphas.map(() => 0)
      const order: number[] = []
      const result = await halve(
        alphas,
        replications,
        async (arms, from, to) => {
          for (const arm of arms) {
            assert.equal(done[arm], from, 'replications run once, in order')
            done[arm] = to
            order.push(arm, to)
          }
        },
        (arm, count) => {
          assert.equal(done[arm], count, 'only what has run is looked at')
          return costs[arm]!.subarray(0, count)
        },
      )
      const expected = naive(alphas, costs, replications)
      const where = `case ${round}`
      assert.deepEqual(result.arms, expected.arms, where)
      assert.deepEqual(
        result.eliminated.map(({ cost: _, ...rest }) => rest),
        expected.eliminated,
        where,
      )
      // What follows from the rule.
      for (const [arm, alpha] of alphas.entries()) {
        const survived = result.arms.includes(arm)
        assert.equal(done[arm], survived ? replications : done[arm])
        if (isEnd(alpha)) assert(survived, where)
        const others = alphas.filter((other, k) => k !== arm && !isEnd(other)).length
        const dominates = costs.every(
          (row, k) => k === arm || row.every((cost, r) => costs[arm]![r]! <= cost),
        )
        if (dominates || others === 0) assert(survived, where)
      }
      for (const { alpha, replications: count, cost } of result.eliminated) {
        assert.equal(cost, meanOf(costs[alphas.indexOf(alpha)]!, count))
      }
      const runs = done.reduce((sum, count) => sum + count, 0)
      assert(runs >= plannedRuns(alphas, replications) && runs <= alphas.length * replications, where)
      if (runs > plannedRuns(alphas, replications)) ties++
      eliminations += result.eliminated.length
    }
    assert(eliminations > CASES && ties > CASES / 20, `${eliminations} eliminations, ties in ${ties} cases`)
  })

  it('keeps equals together and lets infinite costs go first', () => {
    const infinite = Number.POSITIVE_INFINITY
    assert.deepEqual(kept([0, 0.2, 0.4, 0.6, 1], [9, 2, 2, 2, 9]), [true, true, true, true, true])
    assert.deepEqual(kept([0.1, 0.2, 0.3, 0.4], [infinite, 3, infinite, 1]), [false, true, false, true])
    assert.deepEqual(kept([0.1, 0.2, 0.3], [infinite, infinite, infinite]), [true, true, true])
    assert.deepEqual(kept([0.1, 0.2, 0.3], [1, 2, 3]), [true, true, false])
    assert.deepEqual(kept([0, 1], [5, 1]), [true, true])
  })

  it('makes 68 of 176 runs on the default grid and replications', () => {
    const alphas = Array.from({ length: 11 }, (_, i) => i / 10)
    assert.equal(plannedRuns(alphas, 16), 11 + 7 + 5 * 2 + 4 * 4 + 3 * 8)
    assert.equal(plannedRuns(alphas, 1), 11)
  })
})
