import assert from 'node:assert/strict'
import { generateWorkload, simulate, withContext } from '../../../lib/index.ts'
import { AGENTIC_STAGES, AGENTIC_WORKLOADS, type AgenticWorkload } from '../../../lib/traces/agentic.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { macSqlTrace } from '../../../lib/traces/mac-sql.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { WORKLOADS } from '../../../lib/traces/workload.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { assertFails, contentOf, readText } from './shared.ts'

function mean(column: Uint32Array | undefined, calls: number): number {
  return (column ?? new Uint32Array(1)).reduce((sum, value) => sum + value, 0) / calls
}

/** [workload, context, calls per workflow, prompt and output tokens per call (undefined = not published)] */
const published: [
  AgenticWorkload,
  'new' | 'full',
  calls: number,
  prompt: number | undefined,
  output: number | undefined,
][] = [
  ['sharegpt', 'new', 6.66, 256, 277],
  ['bfcl', 'full', 9.95, 6275, undefined],
  ['lats', 'new', 159.7, 467.2, 72.6],
  ['mixed', 'new', (6.66 + 9.95 + 159.7) / 3, undefined, undefined],
  ['chains', 'new', 8, 256, 277],
]

describe('generateWorkload', () => {
  for (const [name, context, calls, prompt, output] of published) {
    it(`${name} has the published means`, async () => {
      const table = await generateWorkload(name, { workflows: name === 'mixed' ? 30_000 : 6000, context })
      const near = (value: number, wanted: number | undefined) =>
        assert(wanted === undefined || Math.abs(value / wanted - 1) < 0.03, `${value}, not ${wanted}`)
      near(table.calls / table.workflows, calls)
      near(mean(table.columns.promptTokens, table.calls), prompt)
      near(mean(table.columns.outputTokens, table.calls), output)
    })
  }

  it('agents have the published share of cached tokens', async () => {
    const { columns, calls } = await generateWorkload('agents', { workflows: 2000, context: 'full' })
    const share = mean(columns.cachedTokens, calls) / mean(columns.promptTokens, calls)
    assert(Math.abs(share / 0.963 - 1) < 0.02, `${share}`)
  })

  for (const name of AGENTIC_WORKLOADS) {
    it(`${name}: new tokens by default, named in results; a longer one begins with the shorter`, async () => {
      const table = await generateWorkload(name, { workflows: 60, seed: 3 })
      assert.deepEqual([table.source, table.context, table.columns.cachedTokens], [name, 'new', undefined])
      assert.deepEqual(await generateWorkload(name, { workflows: 60, seed: 3, context: 'new' }), table)
      assert.notDeepEqual((await generateWorkload(name, { workflows: 60, seed: 4 })).columns, table.columns)
      const shorter = await generateWorkload(name, { workflows: 20, seed: 3 })
      assert.deepEqual(shorter.columns.outputTokens, table.columns.outputTokens.slice(0, shorter.calls))
      assert.deepEqual([...new Set(table.columns.stage)], [...table.stages.keys()])
      assert(table.stages.every((stage) => AGENTIC_STAGES.includes(stage as 'chat')))

      const full = await generateWorkload(name, { workflows: 60, seed: 3, context: 'full' })
      assert.equal(full.context, 'full')
      assert.deepEqual(full.columns.parents, table.columns.parents)
      assert.deepEqual(full.columns.outputTokens, table.columns.outputTokens)
      const { promptTokens } = withContext(full, 'new').columns
      const differs = Array.from(promptTokens.keys()).filter(
        (call) => promptTokens[call] !== table.columns.promptTokens[call],
      )
      // Siblings of an expansion share their whole prompt; the preset counts it for each.
      const { stage } = table.columns
      assert(differs.every((call) => table.stages[stage[call]!] === 'expand' && promptTokens[call] === 1))
      assert.equal(differs.length > 0, name === 'lats' || name === 'mixed')
    })

    it(`${name} survives being written and read, and runs`, async () => {
      for (const context of ['new', 'full'] as const) {
        const table = await generateWorkload(name, { workflows: 12, context })
        assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
        const result = await simulate({ trace: table, cluster: 'hexgen-homo', rate: 0.5 })
        assert.deepEqual([result.counts.completed, result.knowledge], [12, 'online'])
      }
    })

    it(`${name} gives 1,000 workflows in less than 100 ms of the processor`, async () => {
      let best = Number.POSITIVE_INFINITY
      for (let round = 0; round < 5; round++) {
        // What other processes take is no cost of ours.
        const from = process.cpuUsage()
        assert.equal((await generateWorkload(name, { workflows: 1000, seed: round })).workflows, 1000)
        const { user, system } = process.cpuUsage(from)
        best = Math.min(best, (user + system) / 1000)
      }
      assert(best < 100, `${best} ms`)
    })
  }

  it('gives CHESS and MAC-SQL too, of the published sizes', async () => {
    for (const [preset, workflows] of [
      [1, 90],
      [2, 96],
      [3, 110],
    ] as const) {
      assert.deepEqual(
        await generateWorkload(`chess:${preset}`),
        await chessTrace({ workflows, preset, seed: 1 }),
      )
    }
    assert.deepEqual(await generateWorkload('mac-sql'), await macSqlTrace({ workflows: 150, seed: 1 }))
    const sizes = await Promise.all(WORKLOADS.map(async (name) => (await generateWorkload(name)).workflows))
    assert.deepEqual(sizes, [90, 96, 110, 150, 100, 400, 100, 100, 100, 100])
  })

  it('chains have as many calls as wanted', async () => {
    const { columns, calls } = await generateWorkload('chains', { workflows: 5, chainCalls: 3 })
    assert.equal(calls, 15)
    assert.deepEqual([...columns.parents], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    const single = await generateWorkload('chains', { workflows: 4, chainCalls: 1 })
    assert.deepEqual([single.calls, single.columns.parents.length], [4, 0])
  })

  it('refuses options out of range', async () => {
    const fails = (result: Promise<TraceTable>, field: string, message: RegExp) =>
      assertFails(result, 'ERR_LAXITY_OPTION', field, message)
    await fails(generateWorkload('latz' as never), 'workload', /got "latz" \(string\); did you mean "lats"\?/)
    await fails(generateWorkload(7 as never), 'workload', /got 7/)
    await fails(generateWorkload('mixed', { workflows: 0 }), 'workflows', /got 0/)
    await fails(generateWorkload('mixed', { workflows: 250_001 }), 'workflows', /got 250001/)
    await fails(generateWorkload('mixed', { seed: 0.5 }), 'seed', /got 0.5/)
    await fails(generateWorkload('mixed', { context: 'all' as never }), 'context', /new or full .* got "all"/)
    await fails(generateWorkload('chains', { chainCalls: 1001 }), 'chainCalls', /1 to 1000 .* got 1001/)
    await fails(generateWorkload('mixed', { chainCalls: 3 }), 'chainCalls', /needs the workload "chains"/)
    await fails(generateWorkload('mac-sql', { context: 'new' }), 'context', /no meaning/)
    await fails(
      generateWorkload('chains', { workflows: 100_000, chainCalls: 1000 }),
      'workflows',
      /Fewer.*100000000 calls/,
    )
  })
})

describe('withContext', () => {
  const line = (cachedTokens: number, promptTokens: number) => ({
    id: `${promptTokens}`,
    stage: 's',
    promptTokens,
    cachedTokens,
    outputTokens: 1,
  })
  const text = `${JSON.stringify({ id: 'a', calls: [line(0, 10), line(8, 20), line(29, 30)] })}\n`

  it('leaves the cached tokens out, and changes nothing else', async () => {
    const table = await readText(text)
    const before = structuredClone(table)
    const fresh = withContext(table, 'new')
    assert.deepEqual([...fresh.columns.promptTokens], [10, 12, 1])
    assert.deepEqual(table, before)
    const { promptTokens: _, cachedTokens: __, ...others } = table.columns
    const { promptTokens, ...kept } = fresh.columns
    assert.deepEqual(kept, others)
    assert(promptTokens.buffer instanceof SharedArrayBuffer)
    assert.equal(withContext(fresh, 'new'), fresh)
    assert.deepEqual(withContext(table, 'full'), { ...table, context: 'full' })
  })

  it('refuses to bring a history back, and other presets', async () => {
    const fresh = withContext(await readText(text), 'new')
    const fails = (call: () => unknown, message: RegExp) =>
      assertFails(Promise.resolve().then(call), 'ERR_LAXITY_OPTION', 'context', message)
    await fails(() => withContext(fresh, 'full'), /was left out/)
    await fails(() => withContext(fresh, 'old' as never), /got "old"/)
  })

  it('stays in a file’s header', async () => {
    const fresh = withContext(await readText(text), 'new')
    const again = await readText([...traceLines(fresh)].join(''))
    assert.deepEqual(contentOf(again), contentOf(fresh))
    assert.equal(again.context, 'new')
    await assertFails(
      readText(`{"laxity":"trace","version":1,"context":"old"}\n${text}`),
      'ERR_LAXITY_FIELD',
      't:1: context',
      /"new" or "full"/,
    )
  })
})
