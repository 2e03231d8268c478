import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import { replay } from '../../lib/scheduler/replay.ts'
import { policy, recorded, runOptions, scenario, wrong } from '../support/runs.ts'

describe('contract 1: one list of events, through the C++ driver and through the JavaScript ring', () => {
  it('gives identical decisions for every policy, binding, knowledge and feedback', () => {
    let decisions = 0
    for (let seed = 1; seed <= 300; seed += 1) {
      const feedback = seed % 2 === 0 ? 'boundary' : 'lease'
      const caching = seed % 5 === 0
      const error = caching ? { error: wrong(seed) } : {}
      const lookahead = feedback === 'lease' ? seed % 3 : 0
      const run = runOptions({ ...policy(seed), feedback, lookahead, ...error })
      const { log } = recorded(scenario(seed, { caching }), run)
      const { latencies, templates } = log.header.cluster

      const ring = new Uint8Array(new SharedArrayBuffer(2 * native.eventLayout.recordBytes))
      const direct = new native.Scheduler({ ...run, latencies, templates }, ring).applyLog(log.records)
      assert.equal(direct.firstMismatch, -1, `seed ${seed}: native replay differs`)

      const throughRing = replay(log)
      assert.equal(throughRing.firstMismatch, undefined, `seed ${seed}: the ring differs`)
      assert.equal(throughRing.matched, direct.decisions)
      decisions += direct.decisions
    }
    assert.ok(decisions > 10_000, `only ${decisions} decisions compared`)
  })

  it('notices a decision that differs', () => {
    const { log } = recorded(scenario(5), runOptions())
    const at = lastDecision(log.records)
    log.records[at + 16 + 16] = log.records[at + 16 + 16]! ^ 1 // the instance of a lease
    assert.ok(replay(log).firstMismatch !== undefined)
  })
})

function lastDecision(records: Uint8Array): number {
  const id = native.eventLayout.kinds.find((kind) => kind.name === 'decision')!.id
  const view = new DataView(records.buffer, records.byteOffset)
  for (let at = records.length - 128; at >= 0; at -= 128) if (view.getUint16(at + 8, true) === id) return at
  throw new Error('no decision')
}
