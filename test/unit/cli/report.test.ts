import assert from 'node:assert/strict'
import { errorLine } from '../../../lib/cli/errors.ts'
import { LaxityError } from '../../../lib/errors.ts'
import { chart } from '../../../lib/report/chart.ts'
import { Problems } from '../../../lib/report/problems.ts'
import { table } from '../../../lib/report/table.ts'
import { duration, significant } from '../../../lib/report/units.ts'

describe('reports', () => {
  it('chooses units that people read', () => {
    const cases: [ms: number, text: string][] = [
      [0, '0 s'],
      [0.0123, '12.3 µs'],
      [4.5, '4.50 ms'],
      [163_412, '163 s'],
      [700_000, '11.7 min'],
      [36_000_000, '10.0 h'],
      [Number.POSITIVE_INFINITY, '∞'],
    ]
    for (const [ms, text] of cases) assert.equal(duration(ms), text)
    assert.equal(significant(12_345.6), '12,346')
  })

  it('draws tables without colours or trailing spaces', () => {
    const text = table(['a', 'b'], [['x', '10'], ['longer', '2']]) // biome-ignore format: a table
    assert.deepEqual(text.split('\n'), [' a         b', ' x        10', ' longer    2'])
  })

  it('marks the best point of a curve and labels both axes', () => {
    const x = [0, 0.1, 0.2, 0.3, 0.4]
    const text = chart({ x, y: [9, 5, 4, 6, 8], marked: 2, format: String, xName: 'alpha', yName: 'P95' })
    const lines = text.split('\n')
    assert.match(lines[0]!, /^ +P95$/)
    assert.match(lines.at(-2)!, /^ +0 +0\.1 +0\.2 +0\.3 +0\.4$/)
    const bottom = lines.findLast((line) => line.includes('┤') || line.includes('┼'))!
    assert(bottom.trimStart().startsWith('4'))
    // The mark stands above the tick of its x.
    const ticks = lines.at(-3)!
    const third = [...ticks].flatMap((character, column) => (character === '┬' ? column : []))[2]
    assert.equal(bottom.indexOf('●'), third)
  })

  it('has no curve for one point or infinite values', () => {
    const rest = { marked: 0, format: String, xName: 'x', yName: 'y' }
    assert.equal(chart({ x: [1], y: [1], ...rest }), '')
    assert.equal(chart({ x: [1, 2], y: [1, Number.POSITIVE_INFINITY], ...rest }), '')
    assert.notEqual(chart({ x: [1, 2], y: [1, 1], ...rest }), '')
  })
})

describe('error lines', () => {
  it('name the flag, once', () => {
    const error = new LaxityError(
      'ERR_LAXITY_OPTION',
      'Expected more for `sloScale`, got 0 (number)',
      'sloScale',
    )
    assert.equal(
      errorLine(error),
      'laxity: Expected more for `--slo-scale`, got 0 (number) [ERR_LAXITY_OPTION]',
    )
  })

  it('list several problems on one line', () => {
    const problems = new Problems()
    problems.add('ERR_LAXITY_OPTION', 'Unknown order "x"', 'order')
    problems.add('ERR_LAXITY_FIELD', 'Odd\nvalue', 'f.json: a')
    assert.throws(
      () => problems.throwIfAny(),
      (error) =>
        errorLine(error as LaxityError) ===
        'laxity: 2 problems: order: Unknown order "x"; f.json: a: Odd value [ERR_LAXITY_OPTION]',
    )
  })
})
