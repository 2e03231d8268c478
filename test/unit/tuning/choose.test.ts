import assert from 'node:assert/strict'
import { bestOf, indistinguishable } from '../../../lib/tuning/choose.ts'

const costs = (...rows: number[][]) => rows.map((row) => Float64Array.from(row))

/** An interval of half a unit around the mean difference. */
const native = {
  pairedT(a: Float64Array, b: Float64Array) {
    const mean = a.reduce((sum, value, i) => sum + value - b[i]!, 0) / a.length
    return { mean, low: mean - 0.5, high: mean + 0.5, p: 1 }
  },
}

describe('the choice of a sweep', () => {
  it('takes the smallest mean, of equals the first', () => {
    assert.equal(bestOf(costs([3, 3], [1, 2], [2, 1])), 1)
    assert.equal(bestOf(costs([Number.POSITIVE_INFINITY], [5])), 1)
  })

  it('names those whose interval of the difference includes 0', () => {
    assert.deepEqual(indistinguishable(native, costs([1, 1], [1.4, 1.4], [2, 2], [1.5, 1.5]), 0), [1, 3])
  })

  it('separates nothing by one replication', () => {
    assert.deepEqual(indistinguishable(native, costs([1], [100], [2]), 0), [1, 2])
  })

  it('compares unfinished runs without arithmetic on infinities', () => {
    const infinite = Number.POSITIVE_INFINITY
    assert.deepEqual(indistinguishable(native, costs([1, 1], [1, infinite]), 0), [])
    assert.deepEqual(indistinguishable(native, costs([infinite, 1], [infinite, 1], [infinite, 2]), 0), [1])
  })
})
