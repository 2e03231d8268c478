import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parseGrid } from '../../../lib/tuning/grid.ts'

const grid = (text: string) => parseGrid(text, 'alpha')

describe('parseGrid', () => {
  it('counts in exact decimals', () => {
    assert.deepEqual(grid('0:1:0.1'), [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    assert.deepEqual(grid('0.1:0.35:0.05'), [0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
    assert.deepEqual(grid('0:1:0.3'), [0, 0.3, 0.6, 0.9])
    assert.deepEqual(grid('0.5:0.5:1'), [0.5])
  })

  it('gives the doubles that the decimals denote', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 900 }), fc.integer({ min: 1, max: 90 }), (from, step) => {
        const text = (thousandths: number) => (thousandths / 1000).toFixed(3)
        const points = grid(`${text(from)}:1:${text(step)}`)
        assert.deepEqual(
          points,
          points.map((_, i) => Number(text(from + i * step))),
        )
        assert(from + points.length * step > 1000)
      }),
    )
  })

  it('takes a list or one number, ascending and each once', () => {
    assert.deepEqual(grid('0.5, 0.2,0.50'), [0.2, 0.5])
    assert.deepEqual(grid(' 0.25 '), [0.25])
  })

  for (const text of [
    '',
    'a',
    '0:1',
    '0:1:0',
    '0:1:-0.1',
    '1:0:0.1',
    '0:1:0.1:2',
    '0,,1',
    '0:1:x',
    '1e-1',
    'NaN',
    '0x1',
  ]) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(() => grid(text), {
        code: 'ERR_LAXITY_OPTION',
        place: 'alpha',
        message: /Expected `from:to:step`, a list or a number for `alpha`, got/,
      })
    })
  }

  it('has a limit', () => {
    assert.throws(() => grid('0:1:0.000000000000001'), {
      code: 'ERR_LAXITY_OPTION',
      message: /1000000000000001 points/,
    })
  })
})
