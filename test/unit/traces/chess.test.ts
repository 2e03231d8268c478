import assert from 'node:assert/strict'
import { CHESS_STAGES, chessTrace } from '../../../lib/traces/chess.ts'
import type { TemplateEntry, TraceTable } from '../../../lib/traces/table.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { assertFails, contentOf, readText } from './shared.ts'

describe('chessTrace', () => {
  it('refuses options out of range', async () => {
    const good = { workflows: 1, preset: 3, seed: 1 } as const
    await assertFails(chessTrace({ ...good, workflows: 0 }), 'ERR_LAXITY_OPTION', 'workflows', /got 0/)
    await assertFails(chessTrace({ ...good, workflows: 1e9 }), 'ERR_LAXITY_OPTION', 'workflows')
    await assertFails(chessTrace({ ...good, preset: 4 as never }), 'ERR_LAXITY_OPTION', 'preset', /1, 2 or 3/)
    await assertFails(chessTrace({ ...good, seed: 1.5 }), 'ERR_LAXITY_OPTION', 'seed', /got 1.5/)
  })

  describe('with the addon', () => {
    let table: TraceTable
    before(async () => {
      table = await chessTrace({ workflows: 200, preset: 3, seed: 1 })
    })

    it('gives workflows of 9 to 32 calls in the seven stages', () => {
      const { firstCall, stage } = table.columns
      assert.equal(table.workflows, 200)
      for (let w = 0; w < table.workflows; w++) {
        const calls = firstCall[w + 1]! - firstCall[w]!
        assert.ok(calls >= 9 && calls <= 32, `${calls} calls`)
      }
      assert.equal(new Set(stage).size, CHESS_STAGES.length)
      assert.equal(table.stageGroups!.length, CHESS_STAGES.length)
    })

    it('depends on the seed alone', async () => {
      const again = await chessTrace({ workflows: 200, preset: 3, seed: 1 })
      assert.deepEqual(again, table)
      const other = await chessTrace({ workflows: 200, preset: 3, seed: 2 })
      assert.notDeepEqual(other.columns.outputTokens, table.columns.outputTokens)
    })

    it('ships a pessimistic template: every optional round, no step shorter, the same stages in order', () => {
      const { template, pessimisticTemplate } = table
      const rounds = (entries: readonly TemplateEntry[], name: string) =>
        entries.filter(({ stage }) => stage === name).length
      assert.deepEqual([rounds(template!, 'revise'), rounds(pessimisticTemplate!, 'revise')], [4, 10])
      const runs = (entries: readonly TemplateEntry[]) =>
        entries.map(({ stage }) => stage).filter((stage, i, all) => stage !== all[i - 1])
      assert.deepEqual(runs(pessimisticTemplate!), runs(template!))
      for (const entry of template!) {
        const longer = pessimisticTemplate!.find(({ stage }) => stage === entry.stage)!
        assert.ok(longer.promptTokens >= entry.promptTokens && longer.outputTokens >= entry.outputTokens)
      }
    })

    it('survives being written and read', async () => {
      assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
    })
  })
})
