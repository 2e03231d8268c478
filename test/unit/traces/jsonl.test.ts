import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { readTrace } from '../../../lib/traces/read.ts'
import { traceStatistics } from '../../../lib/traces/statistics.ts'
import { callId, workflowId } from '../../../lib/traces/table.ts'
import { call, contentOf, readInChunks, readText, repositoryFile, workflow } from './shared.ts'

const HEADER = {
  laxity: 'trace',
  version: 1,
  template: [
    { stage: 'b', promptTokens: 5, outputTokens: 6 },
    { stage: 'a', promptTokens: 7, outputTokens: 8 },
  ],
  stageGroups: { a: '1', unused: '2' },
}

describe('JSONL traces', () => {
  it('reads the shipped example', async () => {
    const table = await readTrace(repositoryFile('examples/trace.jsonl'))
    assert.equal(table.workflows, 3)
    assert.equal(table.calls, 8)
    assert.deepEqual(table.stages, ['plan', 'search', 'answer'])
    assert.deepEqual(table.tenants, ['support', 'batch'])
    assert.deepEqual(table.stageGroups, ['1 planning', '2 tools', '3 answer'])
    assert.deepEqual([...table.columns.sloMs!], [30000, 30000, Number.NaN])
    assert.deepEqual([...table.columns.parents], [0, 0, 1, 2, 0, 0])
    assert.equal(workflowId(table, 2), 'report')
    assert.equal(callId(table, 0, 3), 'answer')
    assert.deepEqual(traceStatistics(table), {
      workflows: 3,
      calls: 8,
      largestWorkflow: 4,
      promptTokens: 27640 - 900,
      cachedTokens: 4980 + 0,
      outputTokens: 2820,
    })
  })

  it('keeps optional columns only where a value differs from the default', async () => {
    const plain = await readText(
      workflow('w0', [call('c0', { cachedTokens: 0, toolGapMs: 0, predictedTokens: 2 })]),
    )
    assert.deepEqual(Object.keys(plain.columns).sort(), [
      'firstCall',
      'outputTokens',
      'parentOffset',
      'parents',
      'promptTokens',
      'stage',
    ])
    assert.equal(plain.workflowIds, undefined)
    assert.equal(plain.callIds, undefined)
    assert.deepEqual(plain.models, ['default'])
    const full = await readText(
      workflow('w0', [
        call('c0'),
        call('c1', { predictedTokens: 3, cachedTokens: 4, toolGapMs: 0.5, model: 'm' }),
      ]),
    )
    assert.deepEqual([...full.columns.predictedTokens!], [2, 3])
    assert.deepEqual([...full.columns.cachedTokens!], [0, 4])
    assert.deepEqual([...full.columns.toolGapMs!], [0, 0.5])
    assert.deepEqual([...full.columns.model!], [0, 1])
    assert.deepEqual(full.models, ['default', 'm'])
  })

  it('puts every column in shared memory of exact size', async () => {
    const table = await readText(
      workflow('x', [call('a'), call('b', { parents: ['a'] })], { arrivedAtMs: 1 }),
    )
    for (const [name, column] of Object.entries(table.columns)) {
      assert.ok(column.buffer instanceof SharedArrayBuffer, name)
      assert.equal(column.byteLength, column.buffer.byteLength, name)
    }
  })

  it('brings parents before their children and keeps the order otherwise', async () => {
    const calls = [call('d', { parents: ['c', 'a'] }), call('a'), call('b'), call('c', { parents: ['b'] })]
    const table = await readText(workflow('w', calls))
    assert.deepEqual(table.callIds, ['b', 'c', 'a', 'd'])
    assert.deepEqual([...table.columns.parentOffset], [0, 0, 1, 1, 3])
    assert.deepEqual([...table.columns.parents], [0, 1, 2])
  })

  it('sorts workflows stably by arrival, with their ids, calls and names', async () => {
    const text =
      workflow('w0', [call('c0', { stage: 'late' })], { arrivedAtMs: 20, tenant: 't2' }) +
      workflow('w1', [call('x'), call('y', { parents: ['x'] })], {
        arrivedAtMs: 10,
        tenant: 't1',
        sloMs: 5,
      }) +
      workflow('w2', [call('c0')], { arrivedAtMs: 20 })
    const table = await readText(text)
    assert.deepEqual(table.workflowIds, ['w1', 'w0', 'w2'])
    assert.deepEqual(table.callIds, ['x', 'y', 'c0', 'c0'])
    assert.deepEqual([...table.columns.firstCall], [0, 2, 3, 4])
    assert.deepEqual([...table.columns.arrivalMs!], [10, 20, 20])
    assert.deepEqual([...table.columns.sloMs!], [5, Number.NaN, Number.NaN])
    assert.deepEqual(table.stages, ['s', 'late'])
    assert.deepEqual([...table.columns.stage], [0, 0, 1, 0])
    assert.deepEqual(table.tenants, ['t1', 't2', 'default'])
    assert.deepEqual([...table.columns.tenant!], [0, 1, 2])
    assert.deepEqual([...table.columns.parentOffset], [0, 0, 1, 1, 1])
  })

  it('drops ids that sorting turns into the default ones', async () => {
    const table = await readText(
      workflow('w1', [call('c0')], { arrivedAtMs: 2 }) + workflow('w0', [call('c0')], { arrivedAtMs: 1 }),
    )
    assert.equal(table.workflowIds, undefined)
  })

  it('numbers stages by the template first, and groups only those that occur', async () => {
    const text = `${JSON.stringify(HEADER)}\n${workflow('w0', [call('c0', { stage: 'z' }), call('c1', { stage: 'a' })])}`
    const table = await readText(text)
    assert.deepEqual(table.stages, ['b', 'a', 'z'])
    assert.deepEqual([...table.columns.stage], [2, 1])
    assert.deepEqual(table.template, HEADER.template)
    assert.deepEqual(table.stageGroups, ['', '1', ''])
  })

  it('accepts gzip, a byte order mark, blank lines, CRLF, no last newline, and any chunking', async () => {
    const lines = [JSON.stringify(HEADER), workflow('ä').trim(), workflow('€😀', [call('b')]).trim()]
    const expected = contentOf(await readText(lines.join('\n')))
    const odd = Buffer.from(`\ufeff\n \t\n${lines.join('\r\n\r\n')}`)
    for (const bytes of [
      odd,
      gzipSync(odd),
      Buffer.concat([gzipSync(odd.subarray(0, 50)), gzipSync(odd.subarray(50))]),
    ]) {
      assert.deepEqual(contentOf(await readText(bytes)), expected)
      for (const size of [1, 2, 3, 7]) assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
    }
  })

  it('finds a workflow id by row after many default ones', async () => {
    const rows = Array.from({ length: 3000 }, (_, i) => workflow(`w${i}`, [call('c0'), call('c1')]))
    const table = await readText(rows.join('') + workflow('odd', [call('c0'), call('last')]))
    assert.equal(table.workflowIds![2999], 'w2999')
    assert.equal(table.workflowIds![3000], 'odd')
    assert.equal(table.callIds![5999], 'c1')
    assert.equal(table.callIds![6001], 'last')
    assert.equal(table.calls, 6002)
  })

  it('sorts a deep and a wide workflow without recursion', async () => {
    const deep = Array.from({ length: 30_000 }, (_, i) =>
      call(`n${i}`, i < 29_999 ? { parents: [`n${i + 1}`] } : {}),
    )
    const table = await readText(workflow('deep', deep))
    assert.equal(table.callIds![0], 'n29999')
    assert.equal(table.columns.parents[29_998], 29_998)
  })
})
