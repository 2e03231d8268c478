import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import type { EventLog } from '../../lib/scheduler/log.ts'
import { replay } from '../../lib/scheduler/replay.ts'
import { objects } from '../support/future.ts'
import { pairRun, pairScenario } from '../support/pairs.ts'
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
      decisions += madeAgain(recorded(scenario(seed, { caching }), run).log, `seed ${seed}`)
    }
    assert.ok(decisions > 10_000, `only ${decisions} decisions compared`)
  })

  it('the same on prefill-decode clusters: leases to pairs, rooms on d, plans that arrive later', () => {
    let decisions = 0
    const seen = new Map<string, number>()
    for (let seed = 1; seed <= 400; seed += 1) {
      const caching = seed % 5 === 0
      const run = pairRun(seed, caching ? { error: wrong(seed) } : {})
      const { log } = recorded(pairScenario(seed, { caching }), run)
      decisions += madeAgain(log, `seed ${seed}`)
      for (const { kind, ...event } of objects(log.records)) {
        const name = kind === 'decision' ? `decision ${event.kind}` : kind
        seen.set(name, (seen.get(name) ?? 0) + 1)
      }
    }
    assert.ok(decisions > 15_000, `only ${decisions} decisions compared`)
    for (const kind of ['transferDone', 'planArrived', 'evicted', 'capacity'])
      assert.ok((seen.get(kind) ?? 0) > 20, `${kind}: ${seen.get(kind)}`)
  })

  it('notices a decision that differs', () => {
    const { log } = recorded(scenario(5), runOptions())
    const at = lastDecision(log.records)
    log.records[at + 16 + 16] = log.records[at + 16 + 16]! ^ 1 // the instance of a lease
    assert.ok(replay(log).firstMismatch !== undefined)
  })
})

/** Natively and through the ring; how many decisions. */
function madeAgain(log: EventLog, what: string): number {
  const { run, cluster } = log.header
  const { latencies, templates } = cluster
  const ring = new Uint8Array(new SharedArrayBuffer(2 * native.eventLayout.recordBytes))
  const direct = new native.Scheduler({ ...run, latencies, templates }, ring).applyLog(log.records)
  assert.equal(direct.firstMismatch, -1, `${what}: native replay differs`)
  const throughRing = replay(log)
  assert.equal(throughRing.firstMismatch, undefined, `${what}: the ring differs`)
  assert.equal(throughRing.matched, direct.decisions)
  return direct.decisions
}

function lastDecision(records: Uint8Array): number {
  const id = native.eventLayout.kinds.find((kind) => kind.name === 'decision')!.id
  const view = new DataView(records.buffer, records.byteOffset)
  for (let at = records.length - 128; at >= 0; at -= 128) if (view.getUint16(at + 8, true) === id) return at
  throw new Error('no decision')
}
