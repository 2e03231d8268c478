import assert from 'node:assert/strict'
import { decodeRecord, type EventObject, RECORD_BYTES } from '../../lib/scheduler/records.ts'
import { policy, random, recorded, runOptions, type Scenario, scenario, wrong } from '../support/runs.ts'

/**
 * Two futures that look the same until some instant: true lengths and everything not yet revealed are scrambled. Up to
 * the first event that tells them apart, every decision must be the same.
 */
describe('contract 3: permute the future', () => {
  for (const knowledge of ['online', 'template', 'declared'] as const) {
    it(`changes no decision before its reveal (${knowledge})`, () => permuted(knowledge, false))
    it(`nor with prefix caches and prediction errors (${knowledge})`, () => permuted(knowledge, true))
  }

  function permuted(knowledge: 'online' | 'template' | 'declared', caching: boolean): void {
    let compared = 0
    let diverged = 0
    for (let seed = 1; seed <= 150; seed += 1) {
      for (const feedback of ['boundary', 'lease'] as const) {
        const run = runOptions({
          ...policy(seed),
          knowledge,
          feedback,
          lookahead: feedback === 'lease' ? 1 : 0,
          ...(caching && { error: wrong(seed) }),
        })
        const input = scenario(seed, { caching })
        const a = objects(recorded(input, run).log.records)
        const b = objects(recorded(scramble(input, seed, knowledge === 'declared'), run).log.records)
        let i = 0
        while (i < a.length && i < b.length && same(a[i]!, b[i]!)) i += 1
        compared += a.slice(0, i).filter((event) => event.kind === 'decision').length
        if (i === a.length && i === b.length) continue
        diverged += 1
        // The first difference is something that happened, never a decision (nor a decide mark: a count of decisions
        // made at the same instant after the same events).
        for (const event of [a[i], b[i]]) {
          assert.ok(
            event === undefined || event.kind !== 'decision',
            `seed ${seed}, ${feedback}: a decision saw the future: ${JSON.stringify(event)}`,
          )
        }
        if (a[i]?.kind === 'decide' && b[i]?.kind === 'decide') {
          assert.notEqual(a[i]!.t, b[i]!.t, `seed ${seed}: the same instant, another number of decisions`)
        }
      }
    }
    assert.ok(compared > 2_000 && diverged > 100, `compared ${compared} decisions, ${diverged} runs diverged`)
  }

  it('is broken by oracle knowledge, which is how this test knows that it can fail', () => {
    let seen = false
    for (let seed = 1; seed <= 60 && !seen; seed += 1) {
      const run = runOptions({ order: 'ratio', placement: 'workload-balanced', knowledge: 'oracle' })
      const input = scenario(seed)
      const a = objects(recorded(input, run).log.records).filter((event) => event.kind !== 'reveal')
      const b = objects(recorded(scramble(input, seed, true), run).log.records).filter(
        (event) => event.kind !== 'reveal',
      )
      let i = 0
      while (i < a.length && i < b.length && same(a[i]!, b[i]!)) i += 1
      seen = a[i]?.kind === 'decision' && b[i]?.kind === 'decision'
    }
    assert.ok(seen)
  })
})

function objects(records: Uint8Array): EventObject[] {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  return Array.from(
    { length: records.length / RECORD_BYTES },
    (_, i) => decodeRecord(view, i * RECORD_BYTES)!,
  )
}

function same(a: EventObject, b: EventObject): boolean {
  return JSON.stringify(a, bigints) === JSON.stringify(b, bigints)
}

function bigints(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

/**
 * From a random workflow on: other true lengths, and other stages, prompts, predictions and gaps of the calls that are
 * not revealed with their workflow. So some runs differ from the start and some only near their end.
 */
function scramble({ columns, cluster }: Scenario, seed: number, lengthsOnly: boolean): Scenario {
  const next = random(seed + 1_000_003)
  const changed = structuredClone(columns)
  const from = Math.floor(next() * (columns.firstCall.length - 1))
  for (let w = from; w + 1 < columns.firstCall.length; w += 1) {
    const first = columns.firstCall[w]!
    for (let row = first; row < columns.firstCall[w + 1]!; row += 1) {
      changed.outputTokens[row] = 1 + Math.floor(next() * 60)
      const source = columns.parentOffset[row] === columns.parentOffset[row + 1]
      if (lengthsOnly || source) continue
      changed.stage[row] = Math.floor(next() * 4)
      changed.promptTokens[row] = 1 + Math.floor(next() * 400)
      if (changed.cachedTokens) changed.cachedTokens[row] = Math.floor(next() * changed.promptTokens[row]!)
      changed.predictedTokens![row] = 1 + Math.floor(next() * 90)
      changed.toolGapMs![row] = Math.floor(next() * 3) * 100
    }
  }
  return { columns: changed, cluster }
}
