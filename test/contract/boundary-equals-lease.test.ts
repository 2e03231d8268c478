import assert from 'node:assert/strict'
import { decodeRecord, RECORD_BYTES } from '../../lib/scheduler/records.ts'
import { pairRun, pairScenario } from '../support/pairs.ts'
import { policy, recorded, runOptions, scenario } from '../support/runs.ts'

describe('contract 4: boundary equals lease at batch limit 1 and L = 0', () => {
  it('gives the same decisions at the same times, and the same bytes of results', () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const input = scenario(seed, { maxSequences: 1, caching: seed % 2 === 0 })
      // A call that outgrows its prediction is evicted by the scheduler in one mode and unseen in the other.
      input.columns.predictedTokens = input.columns.outputTokens
      const runs = (['boundary', 'lease'] as const).map((feedback) => {
        const run = runOptions({ ...policy(seed), feedback, lookahead: 0 })
        const calls = input.columns.stage.length
        const outputs = {
          latencyMs: new Float64Array(input.columns.firstCall.length - 1),
          instance: new Uint16Array(calls),
          leasedMs: new Float64Array(calls),
          firstTokenMs: new Float64Array(calls),
          finishedMs: new Float64Array(calls),
        }
        const { log } = recorded(input, run, outputs)
        return { outputs, decisions: decisions(log.records) }
      })
      assert.deepEqual(runs[0], runs[1], `seed ${seed}`)
      assert.ok(runs[0]!.decisions.length > 0)
    }
  })

  // With the steps between and the order of events: "boundary feedback equals lease feedback" of test/native/pair_simulation_test.cc.
  it('gives the same on prefill-decode clusters whose decode instances run one sequence', () => {
    let decided = 0
    for (let seed = 1; seed <= 600; seed += 1) {
      const input = pairScenario(seed, { maxSequences: 1, caching: seed % 2 === 0 })
      input.columns.predictedTokens = input.columns.outputTokens
      const calls = input.columns.stage.length
      const base = pairRun(seed, { feedback: 'lease' })
      const [boundary, lease] = (['boundary', 'lease'] as const).map((feedback) => {
        const outputs = {
          latencyMs: new Float64Array(input.columns.firstCall.length - 1),
          instance: new Uint16Array(calls),
          decodeInstance: new Uint16Array(calls),
          leasedMs: new Float64Array(calls),
          firstTokenMs: new Float64Array(calls),
          transferStartMs: new Float64Array(calls),
          transferredMs: new Float64Array(calls),
          decodeMs: new Float64Array(calls),
          finishedMs: new Float64Array(calls),
        }
        const { log } = recorded(input, { ...base, feedback, lookahead: 0 }, outputs)
        return { outputs, decisions: decisions(log.records) }
      })
      decided += boundary!.decisions.length
      assert.deepEqual(
        [boundary!.decisions, boundary!.outputs],
        [lease!.decisions, lease!.outputs],
        `seed ${seed}`,
      )
    }
    assert.ok(decided > 15_000, `only ${decided} decisions`)
  })

  it('differs at other limits, so that the comparison can fail', () => {
    const differs = Array.from({ length: 30 }, (_, i) => i + 1).some((seed) => {
      const input = scenario(seed)
      const [a, b] = (['boundary', 'lease'] as const).map((feedback) =>
        decisions(
          recorded(input, runOptions({ feedback, lookahead: feedback === 'lease' ? 1 : 0 })).log.records,
        ),
      )
      return JSON.stringify(a) !== JSON.stringify(b)
    })
    assert.ok(differs)
  })
})

function decisions(records: Uint8Array): string[] {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  const made: string[] = []
  for (let at = 0; at < records.length; at += RECORD_BYTES) {
    const event = decodeRecord(view, at)!
    if (event.kind === 'decision') made.push(JSON.stringify(event))
  }
  return made
}
