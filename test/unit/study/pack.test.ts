import assert from 'node:assert/strict'
import { digest, fromBytes, pack, toBytes } from '../../../lib/study/pack.ts'
import { openSmall } from '../../support/study.ts'

describe('packed values', () => {
  it('come back equal, typed arrays over shared memory', async () => {
    const trace = await openSmall('chess:7')
    const value = {
      trace,
      numbers: [1.5, -0.1, Number.POSITIVE_INFINITY],
      nothing: null,
      text: 'a\nü',
      list: [[], {}],
    }
    const back = fromBytes(toBytes(pack(value))) as typeof value
    const { workflowIds, callIds, ...plain } = trace
    assert.equal(workflowIds, undefined)
    assert.equal(callIds, undefined)
    assert.deepEqual(back, { ...value, trace: plain })
    assert(back.trace.columns.promptTokens.buffer instanceof SharedArrayBuffer)
  })

  it('have one digest whatever the order of keys, and another for another content', () => {
    const column = Float64Array.of(1, 2)
    const a = digest(pack({ x: 1, y: { column, z: undefined } }))
    assert.equal(a, digest(pack({ y: { column: Float64Array.of(1, 2) }, x: 1 })))
    assert.notEqual(a, digest(pack({ x: 1, y: { column: Float64Array.of(1, 3) } })))
    assert.notEqual(a, digest(pack({ x: 1, y: { column: [1, 2] } })))
  })
})
