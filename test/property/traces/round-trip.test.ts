import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { traceLines } from '../../../lib/traces/write.ts'
import { contentOf, readInChunks, readText } from '../../unit/traces/shared.ts'
import { header, toJsonl, workflows } from './arbitraries.ts'

describe('JSONL round trip', () => {
  it('reading what was written gives the same table, and writing that the same text', async () => {
    await fc.assert(
      fc.asyncProperty(header, workflows, async (first, rows) => {
        const table = await readText(toJsonl(first === undefined ? rows : [first, ...rows]))
        const text = [...traceLines(table)].join('')
        const again = await readText(text)
        assert.deepEqual(contentOf(again), contentOf(table))
        assert.equal([...traceLines(again)].join(''), text)
      }),
      { numRuns: 1000 },
    )
  })

  it('a table holds what the lines say', async () => {
    await fc.assert(
      fc.asyncProperty(workflows, async (rows) => {
        const table = await readText(toJsonl(rows))
        const sorted = rows.toSorted((a, b) => (a.arrivedAtMs ?? 0) - (b.arrivedAtMs ?? 0))
        const { columns } = table
        sorted.forEach((row, w) => {
          assert.equal(table.workflowIds?.[w] ?? `w${w}`, row.id)
          assert.equal(columns.arrivalMs?.[w], row.arrivedAtMs)
          assert.equal(table.tenants[columns.tenant?.[w] ?? 0], row.tenant ?? 'default')
          assert.equal(columns.sloMs?.[w] ?? Number.NaN, row.sloMs ?? Number.NaN)
          const first = columns.firstCall[w]!
          assert.equal(columns.firstCall[w + 1]! - first, row.calls.length)
          const idAt = (local: number) => table.callIds?.[first + local] ?? `c${local}`
          for (let local = 0; local < row.calls.length; local++) {
            const at = first + local
            const call = row.calls.find((candidate) => candidate.id === idAt(local))!
            const parents = [
              ...columns.parents.subarray(columns.parentOffset[at], columns.parentOffset[at + 1]),
            ]
            assert.ok(parents.every((parent) => parent < local))
            assert.deepEqual(parents.map(idAt), call.parents ?? [])
            assert.equal(table.stages[columns.stage[at]!], call.stage)
            assert.equal(table.models[columns.model?.[at] ?? 0], call.model ?? 'default')
            assert.equal(columns.promptTokens[at], call.promptTokens)
            assert.equal(columns.cachedTokens?.[at] ?? 0, call.cachedTokens ?? 0)
            assert.equal(columns.outputTokens[at], call.outputTokens)
            assert.equal(
              columns.predictedTokens?.[at] ?? call.outputTokens,
              call.predictedTokens ?? call.outputTokens,
            )
            assert.equal(columns.toolGapMs?.[at] ?? 0, call.toolGapMs ?? 0)
          }
        })
      }),
      { numRuns: 1000 },
    )
  })

  it('chunks and gzip change nothing', async () => {
    await fc.assert(
      fc.asyncProperty(workflows, fc.integer({ min: 1, max: 40 }), async (rows, size) => {
        const bytes = Buffer.from(toJsonl(rows))
        const expected = contentOf(await readText(bytes))
        assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
        assert.deepEqual(contentOf(await readInChunks(gzipSync(bytes), size)), expected)
      }),
      { numRuns: 300 },
    )
  })
})
