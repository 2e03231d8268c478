import assert from 'node:assert/strict'
import { readTrace } from '../../../lib/traces/read.ts'
import { contentOf, readInChunks, readText, sharedFile } from './shared.ts'

export function hexgen(workflows: [step: string, input: number, output: number][][]): string {
  const elements = workflows.map((steps) => ({
    Text2SQLRequest: steps.map(([step, input_length, output_length]) => ({
      step,
      input_length,
      output_length,
    })),
  }))
  return JSON.stringify(elements, null, 4)
}

const CANDIDATE = 'generate_candidate_llama-agent'

describe('HexGen-Flow traces', () => {
  const counts = { trace1: [90, 1732, 2086], trace3: [110, 2296, 2752], formula1: [29, 504, 619] }
  for (const [name, [workflows, calls, edges]] of Object.entries(counts)) {
    it(`reads the real ${name}`, async function () {
      const table = await readTrace(sharedFile(this, `data/hexgen-flow/input_file_${name}.json`))
      assert.equal(table.workflows, workflows)
      assert.equal(table.calls, calls)
      assert.equal(table.columns.parents.length, edges)
      assert.equal(table.template!.length, 15)
      assert.equal(table.stages.length, 7)
    })
  }

  it('makes a chain of stages, candidates and evaluations parallel at the place of the first', async () => {
    const table = await readText(
      hexgen([
        [
          ['Information Retriever', 1, 2],
          [CANDIDATE, 3, 4],
          ['revise', 5, 6],
          [CANDIDATE, 7, 8],
          ['revise', 9, 10],
          ['evaluate', 11, 12],
          ['evaluate', 13, 14],
          ['unit_tester', 15, 16],
        ],
      ]),
    )
    assert.deepEqual([...table.columns.promptTokens], [1, 3, 7, 5, 9, 11, 13, 15])
    assert.deepEqual([...table.columns.outputTokens], [2, 4, 8, 6, 10, 12, 14, 16])
    assert.deepEqual([...table.columns.parentOffset], [0, 0, 1, 2, 4, 5, 6, 7, 9])
    assert.deepEqual([...table.columns.parents], [0, 0, 1, 2, 3, 4, 4, 5, 6])
    assert.equal(table.columns.arrivalMs, undefined)
  })

  it('carries the CHESS template in execution order, under the names of the file', async () => {
    const table = await readText(hexgen([[['revise', 1, 1]], [[CANDIDATE, 1, 1]]]))
    const [lookup, tester] = ['Information Retriever', 'unit_tester']
    assert.deepEqual(
      table.template!.map((entry) => entry.stage),
      [
        ...[
          lookup,
          'extract_keywords',
          lookup,
          lookup,
          lookup,
          CANDIDATE,
          'revise',
          'revise',
          'revise',
          'revise',
        ],
        ...[tester, 'generate_unit_test', tester, 'evaluate', tester],
      ],
    )
    assert.deepEqual(table.template![5], { stage: CANDIDATE, promptTokens: 11748, outputTokens: 678 })
    assert.deepEqual(table.stageGroups, [
      '1 schema linking',
      '1 schema linking',
      '2 candidates',
      '3 self-correction',
      '4 evaluation',
      '4 evaluation',
      '4 evaluation',
    ])
    assert.deepEqual([...table.columns.stage], [3, 2])
  })

  it('has no template where a step is not one of CHESS', async () => {
    const table = await readText(hexgen([[['revise', 1, 1]], [['Selector', 1, 1]]]))
    assert.equal(table.template, undefined)
    assert.equal(table.stageGroups, undefined)
    assert.deepEqual(table.stages, ['revise', 'Selector'])
  })

  it('reads any chunking and layout alike', async () => {
    const text = hexgen([[['revise ä€😀', 1, 1]], [['evaluate', 22, 333]]])
    const expected = contentOf(await readText(text))
    const compact = Buffer.from(JSON.stringify(JSON.parse(text)))
    for (const bytes of [Buffer.from(`\ufeff \n${text}\n`), compact]) {
      for (const size of [1, 2, 3, 7, 64])
        assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
    }
  })
})
