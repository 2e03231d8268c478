import assert from 'node:assert/strict'
import { allAtOnce, findWorkload, takeWorkflows } from '../../../lib/compare/workload.ts'
import { native } from '../../../lib/native.ts'
import { callId, type TraceTable, workflowId } from '../../../lib/traces/table.ts'
import { scenario } from '../../support/runs.ts'
import { chains } from '../simulator/shared.ts'

const { signal } = new AbortController()

/** Everything that a table says of a workflow, as plain values. */
function workflowAt(table: TraceTable, w: number) {
  const { firstCall, parentOffset, parents, ...columns } = table.columns
  const calls = Array.from({ length: firstCall[w + 1]! - firstCall[w]! }, (_, i) => {
    const row = firstCall[w]! + i
    return {
      stage: columns.stage[row],
      prompt: columns.promptTokens[row],
      cached: columns.cachedTokens?.[row],
      output: columns.outputTokens[row],
      predicted: columns.predictedTokens?.[row],
      gap: columns.toolGapMs?.[row],
      model: columns.model?.[row],
      parents: [...parents.subarray(parentOffset[row]!, parentOffset[row + 1]!)],
      id: callId(table, w, i),
    }
  })
  return { calls, tenant: columns.tenant?.[w], slo: columns.sloMs?.[w] }
}

describe('takeWorkflows', () => {
  it('repeats or cuts a trace and changes nothing else, in 200 random ones', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const { columns } = scenario(seed, { caching: true })
      const workflows = columns.firstCall.length - 1
      const table: TraceTable = {
        ...chains([[{ prompt: 1, output: 1 }]]),
        columns,
        workflows,
        calls: columns.stage.length,
        workflowIds: Array.from({ length: workflows }, (_, w) => `id${w}`),
      }
      const count = 1 + ((seed * 7) % (3 * workflows))
      const taken = takeWorkflows(table, count)
      assert.equal(taken.workflows, count)
      assert.equal(taken.columns.arrivalMs === undefined, count !== workflows)
      assert.equal(new native.Trace(taken.columns).status, 0)
      assert.equal(new Set(taken.workflowIds).size, count)
      for (let w = 0; w < count; w++) {
        assert.deepEqual(workflowAt(taken, w), workflowAt(table, w % workflows))
        assert.equal(workflowId(taken, w).split('~')[0], `id${w % workflows}`)
      }
      assert.equal(taken.calls, taken.columns.stage.length)
      for (const column of Object.values(taken.columns)) {
        if (count !== workflows) assert(column.buffer instanceof SharedArrayBuffer)
      }
    }
  })

  it('brings all workflows to t = 0', () => {
    const table = allAtOnce(chains([[{ prompt: 1, output: 1 }], [{ prompt: 1, output: 1 }]]))
    assert.deepEqual([...table.columns.arrivalMs!], [0, 0])
  })
})

describe('a workload', () => {
  it('is generated: 1,000 workflows, others for another seed', async () => {
    const workload = findWorkload('chess:1', undefined)
    const [a, b, again] = await Promise.all([1, 2, 1].map((seed) => workload.open(undefined, seed, signal)))
    assert.equal(a!.workflows, 1000)
    assert.notDeepEqual(a!.columns.promptTokens, b!.columns.promptTokens)
    assert.deepEqual(a!.columns, again!.columns)
    assert.equal((await workload.open(5, 1, signal)).workflows, 5)
  })

  it('is a trace: all of it, or as many as wanted, the same for every seed', async () => {
    const table = chains([[{ prompt: 1, output: 1 }], [{ prompt: 2, output: 1 }]])
    const workload = findWorkload(table, undefined)
    assert.equal(await workload.open(undefined, 1, signal), table)
    assert.deepEqual([...(await workload.open(3, 2, signal)).columns.promptTokens], [1, 2, 1])
  })

  it('of agents holds new tokens, or the whole context where that is wanted', async () => {
    const prompts = async (context: 'new' | 'full' | undefined) => {
      const table = await findWorkload('bfcl', context).open(20, 1, signal)
      return { context: table.context, tokens: table.columns.promptTokens.reduce((a, b) => a + b, 0) }
    }
    const [usual, fresh, full] = [await prompts(undefined), await prompts('new'), await prompts('full')]
    assert.deepEqual(usual, fresh)
    assert.deepEqual([fresh.context, full.context], ['new', 'full'])
    assert(full.tokens > 2 * fresh.tokens)

    // The same of a trace that has the history.
    const table = await findWorkload('bfcl', 'full').open(20, 1, signal)
    const own = await findWorkload(table, 'new').open(undefined, 1, signal)
    assert.equal(own.context, 'new')
    assert.equal(
      own.columns.promptTokens.reduce((a, b) => a + b, 0),
      fresh.tokens,
    )
    assert.equal((await findWorkload(table, undefined).open(30, 1, signal)).context, 'full')
  })

  it('is refused where nobody knows it', () => {
    assert.throws(() => findWorkload('ches:1', undefined), {
      code: 'ERR_LAXITY_OPTION',
      message: /Unknown workload "ches:1"; did you mean "chess:1"\?/,
    })
    assert.throws(() => findWorkload('chess:1', 'full'), {
      message: /`context` has no meaning for the workload "chess:1"/,
    })
  })
})
