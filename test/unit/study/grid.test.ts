import assert from 'node:assert/strict'
import fc from 'fast-check'
import { cellCount, coordinatesOf, runCount, type Study } from '../../../lib/study/study.ts'

const list = (length: number) => Array.from({ length }, (_, i) => i)

/** The grid written out as nested loops: the definition of the order. */
function naive(sizes: number[], parameters: number[]): unknown[] {
  const [clusters, workloads, rates, policies, seeds] = sizes as [number, number, number, number, number]
  const runs: Record<string, unknown>[] = []
  for (const cluster of list(clusters))
    for (const workload of list(workloads))
      for (const rate of list(rates))
        for (const policy of list(policies)) {
          let combinations: number[][] = [[]]
          for (const size of parameters)
            combinations = combinations.flatMap((c) => list(size).map((v) => [...c, v]))
          for (const combination of combinations)
            for (const seed of list(seeds))
              runs.push({ cluster, workload, rate, policy, parameters: combination, seed })
        }
  return runs
}

describe('the grid of a study', () => {
  it('is numbered as nested loops would number it', () => {
    const size = fc.integer({ min: 1, max: 4 })
    fc.assert(
      fc.property(
        fc.tuple(size, size, size, size, size),
        fc.array(size, { maxLength: 3 }),
        (sizes, parameters) => {
          const [clusters, workloads, rates, policies, seeds] = sizes.map(list)
          const axes = parameters.map((n, i) => ({ name: `p${i}`, values: list(n) }))
          const study = { clusters, workloads, rates, policies, parameters: axes, seeds } as unknown as Study
          const expected = naive(sizes, parameters)
          assert.equal(runCount(study), expected.length)
          assert.equal(cellCount(study) * sizes[4], expected.length)
          assert.deepEqual(
            expected.map((_, run) => coordinatesOf(study, run)),
            expected,
          )
        },
      ),
      { numRuns: 200 },
    )
  })
})
