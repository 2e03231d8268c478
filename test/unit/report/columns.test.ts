import assert from 'node:assert/strict'
import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { readCallTable } from '../../../lib/report/result/call-table.ts'
import { decodeColumn, encodeColumn } from '../../../lib/report/result/columns.ts'
import { perCallDocument } from '../../../lib/report/result/per-call.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { chains } from '../simulator/shared.ts'
import { randomDocument } from './shared.ts'

const rejects = (message: RegExp) => (error: unknown) => {
  assert.equal((error as { code: string }).code, 'ERR_LAXITY_FIELD')
  assert.match((error as Error).message, message)
  return true
}

describe('columns of a result', () => {
  it('come back to the bit', () => {
    fc.assert(
      fc.property(fc.float64Array(), fc.uint32Array(), fc.uint16Array(), (doubles, words, halves) => {
        const bits = (array: ArrayBufferView) => Buffer.from(array.buffer, array.byteOffset, array.byteLength)
        assert.deepEqual(bits(decodeColumn(encodeColumn(doubles), 'f64', 'x')), bits(doubles))
        assert.deepEqual(decodeColumn(encodeColumn(words), 'u32', 'x'), words)
        assert.deepEqual(decodeColumn(encodeColumn(halves), 'u16', 'x'), halves)
      }),
    )
  })

  it('have the documented bytes: little-endian planes', () => {
    const { data } = encodeColumn(Uint16Array.of(0x0102, 0x0304))
    assert.equal(data, deflateRawSync(Uint8Array.of(2, 4, 1, 3), { level: 3 }).toString('base64'))
  })

  it('are refused where type, length or data do not agree', () => {
    const column = encodeColumn(Uint32Array.of(1, 2, 3))
    assert.throws(() => decodeColumn(column, 'u16', 'calls.stage'), rejects(/calls\.stage.*u16, got u32/))
    assert.throws(() => decodeColumn({ ...column, length: 4 }, 'u32', 'x'), rejects(/16 bytes, got 12/))
    assert.throws(() => decodeColumn({ ...column, length: 1 }, 'u32', 'x'), rejects(/longer than it says/))
    assert.throws(() => decodeColumn({ ...column, data: 'AAAA' }, 'u32', 'x'), rejects(/Not deflated/))
    // Half a gigabyte of zeros in half a megabyte must not be unpacked for a column that says 3.
    const bomb = deflateRawSync(Buffer.alloc(1 << 26)).toString('base64')
    assert.throws(() => decodeColumn({ type: 'u32', length: 3, data: bomb }, 'u32', 'x'), rejects(/longer/))
  })
})

describe('a table of calls', () => {
  it('repeats what the simulator recorded, to the nanosecond', async () => {
    const trace = await chessTrace({ workflows: 30, preset: 3, seed: 1 })
    const result = await simulate({ trace, cluster: 'hexgen-hetero-2', rate: 1, perCall: true })
    const table = readCallTable(JSON.parse(JSON.stringify(perCallDocument(result))), 'perCall')
    const nanos = (ms: Float64Array) => Array.from(ms, (value) => Math.round(value * 1e6))
    const columns = result.perCall!
    assert.deepEqual([...table.readyNs], nanos(columns.readyMs))
    assert.deepEqual([...table.leasedNs], nanos(columns.leasedMs))
    assert.deepEqual([...table.firstTokenNs], nanos(columns.firstTokenMs))
    assert.deepEqual([...table.finishedNs], nanos(columns.finishedMs))
    assert.deepEqual([...table.instance], [...columns.instance])
    assert.deepEqual([...table.firstCall], [...trace.columns.firstCall])
    assert.deepEqual([...table.parents], [...trace.columns.parents])
    assert.deepEqual([...table.parentOffset], [...trace.columns.parentOffset])
    assert.deepEqual(table.stages, trace.stages)
  })

  it('keeps the columns of a run with evictions', async () => {
    // Outputs far beyond the predictions, and room for one: running calls are evicted again and again.
    const trace = chains(Array.from({ length: 12 }, () => [{ prompt: 100, output: 600 }]))
    const predicted = {
      ...trace,
      columns: { ...trace.columns, predictedTokens: new Uint32Array(12).fill(10) },
    }
    const latency = { kind: 'constants' as const, prefillPerTokenMs: 0.05, decodeBaseMs: 20 }
    const cluster = { latencies: { l: latency }, instances: [{ latency: 'l', kvTokens: 1000, count: 2 }] }
    for (const feedback of ['lease', 'boundary'] as const) {
      const result = await simulate({ trace: predicted, cluster, rate: 1000, feedback, perCall: true })
      assert(result.counts.evictions + result.counts.hiddenEvictions > 10)
      const table = readCallTable(perCallDocument(result), 'perCall')
      assert.equal(table.finishedNs.filter(Number.isFinite).length, 12)
    }
  })

  it('is refused where a column breaks an invariant', () => {
    const shape = { instances: 2, workflows: 3, calls: 4, times: 1000 }
    const changed = (change: (document: ReturnType<typeof randomDocument>) => void) => () => {
      const document = randomDocument(7, shape)
      change(document)
      readCallTable(document, 'perCall')
    }
    const calls = randomDocument(7, shape).calls.stage.length
    const column = (value: number) => new Float64Array(calls).fill(value)
    changed(() => {})()
    assert.throws(
      changed(({ calls }) => (calls.waitNs = encodeColumn(column(-1)))),
      rejects(/perCall\.calls: Call 0: expected times in order/),
    )
    assert.throws(
      changed(({ calls }) => (calls.readyNs = encodeColumn(column(2 ** 60)))),
      rejects(/times in order/),
    )
    assert.throws(
      changed(({ calls: own }) => (own.instance = encodeColumn(new Uint16Array(calls).fill(2)))),
      rejects(/perCall\.calls\.instance: Expected indices below 2, got 2/),
    )
    assert.throws(
      changed(({ calls: own }) => (own.stage = encodeColumn(new Uint16Array(calls + 1)))),
      rejects(/perCall\.calls\.instance: Expected \d+ values/),
    )
    assert.throws(
      changed(({ workflows }) => (workflows.calls = encodeColumn(Uint32Array.of(1, 1, 1)))),
      rejects(/perCall\.workflows\.calls: Expected counts that sum/),
    )
    assert.throws(
      changed(
        (document) => (document.parents = encodeColumn(new Uint32Array(document.parents.length).fill(9))),
      ),
      rejects(/perCall\.parents: Expected parents that stand before their child/),
    )
    assert.throws(
      changed((document) => (document.callIds = ['a'])),
      rejects(/perCall\.callIds: Expected \d+ ids, got 1/),
    )
  })
})
