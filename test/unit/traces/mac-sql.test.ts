import assert from 'node:assert/strict'
import { simulate } from '../../../lib/index.ts'
import { MAC_SQL_STAGES, macSqlTrace } from '../../../lib/traces/mac-sql.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { assertFails, contentOf, readText } from './shared.ts'

describe('macSqlTrace', () => {
  it('refuses options out of range', async () => {
    const good = { workflows: 1, seed: 1 }
    await assertFails(macSqlTrace({ ...good, workflows: 0 }), 'ERR_LAXITY_OPTION', 'workflows', /got 0/)
    await assertFails(macSqlTrace({ ...good, workflows: 1e9 }), 'ERR_LAXITY_OPTION', 'workflows')
    await assertFails(macSqlTrace({ ...good, seed: -1 }), 'ERR_LAXITY_OPTION', 'seed', /got -1/)
    await assertFails(macSqlTrace({ ...good, seed: 'x' as never }), 'ERR_LAXITY_OPTION', 'seed', /got "x"/)
  })

  let table: TraceTable
  before(async () => {
    table = await macSqlTrace({ workflows: 3000, seed: 1 })
  })

  it('gives chains of 1 to 6 calls with the published mean, and the template for budgets', () => {
    const { firstCall, stage, promptTokens, outputTokens } = table.columns
    for (let w = 0; w < table.workflows; w++) {
      const names = Array.from(stage.subarray(firstCall[w], firstCall[w + 1]), (id) => MAC_SQL_STAGES[id]![0])
      assert.match(names.join(''), /^S?DR{0,4}$/)
    }
    assert(Math.abs(table.calls / table.workflows - 3.6) < 0.1, `${table.calls / table.workflows}`)
    const meanOf = (id: number, column: Uint32Array) => {
      const own = column.filter((_, row) => stage[row] === id)
      return own.reduce((sum, value) => sum + value, 0) / own.length
    }
    const published = [
      [2940, 99.5],
      [1973, 172.3],
      [1527, 482.8],
    ]
    for (const [id, [input, output]] of published.entries()) {
      assert(Math.abs(meanOf(id, promptTokens) / input! - 1) < 0.04)
      assert(Math.abs(meanOf(id, outputTokens) / output! - 1) < 0.04)
    }
    assert.deepEqual(
      table.template!.map(({ stage: name, promptTokens: input, outputTokens: output }) => [
        name,
        input,
        output,
      ]),
      [
        ['Selector', 2962, 143],
        ['Decomposer', 2310, 215],
        ...Array.from({ length: 4 }, () => ['Refiner', 1729, 555]),
      ],
    )
  })

  it('depends on the seed alone', async () => {
    assert.deepEqual(await macSqlTrace({ workflows: 3000, seed: 1 }), table)
    const other = await macSqlTrace({ workflows: 3000, seed: 2 })
    assert.notDeepEqual(other.columns.outputTokens, table.columns.outputTokens)
  })

  it('survives being written and read, and runs', async () => {
    assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
    const { counts, knowledge } = await simulate({ trace: table, cluster: 'hexgen-homo', rate: 5 })
    assert.deepEqual([counts.completed, knowledge], [3000, 'template'])
  })
})
