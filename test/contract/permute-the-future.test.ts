import assert from 'node:assert/strict'
import { inCommon, objects, scramble } from '../support/future.ts'
import { pairRun, pairScenario } from '../support/pairs.ts'
import { policy, recorded, runOptions, scenario, wrong } from '../support/runs.ts'

/**
 * Two futures that look the same until some instant: true lengths and everything not yet revealed are scrambled. Up to
 * the first event that tells them apart, every decision must be the same.
 */
describe('contract 3: permute the future', () => {
  for (const knowledge of ['online', 'template', 'declared'] as const) {
    it(`changes no decision before its reveal (${knowledge})`, () => permuted(knowledge, false))
    it(`nor with prefix caches and prediction errors (${knowledge})`, () => permuted(knowledge, true))
    it(`nor on prefill-decode clusters (${knowledge})`, () => permuted(knowledge, false, true))
    it(`nor there with caches and errors (${knowledge})`, () => permuted(knowledge, true, true))
  }

  function permuted(knowledge: 'online' | 'template' | 'declared', caching: boolean, pairs = false): void {
    let compared = 0
    let diverged = 0
    for (let seed = 1; seed <= 150; seed += 1) {
      for (const feedback of ['boundary', 'lease'] as const) {
        const own = {
          knowledge,
          feedback,
          lookahead: feedback === 'lease' ? 1 : 0,
          ...(caching && { error: wrong(seed) }),
        }
        // What callers declare of the time after a call is the future itself.
        const { remaining: _, ...paired } = pairRun(seed, own)
        const run = pairs ? paired : runOptions({ ...policy(seed), ...own })
        const input = pairs ? pairScenario(seed, { caching }) : scenario(seed, { caching })
        const a = objects(recorded(input, run).log.records)
        const b = objects(recorded(scramble(input, seed, knowledge === 'declared'), run).log.records)
        const i = inCommon(a, b)
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
      const i = inCommon(a, b)
      seen = a[i]?.kind === 'decision' && b[i]?.kind === 'decision'
    }
    assert.ok(seen)
  })

  it('is broken on prefill-decode clusters by oracle knowledge and by declared remaining times', () => {
    const base = { order: 'ratio', placement: 'earliest-finish', binding: 'at-credit' } as const
    for (const told of [
      { knowledge: 'oracle' },
      { knowledge: 'online', remaining: { sigma: 0, seed: 1 } },
    ] as const) {
      let seen = false
      for (let seed = 1; seed <= 150 && !seen; seed += 1) {
        const { remaining: _, ...other } = pairRun(seed)
        const run = { ...other, ...base, ...told }
        const input = pairScenario(seed)
        const [a, b] = [input, scramble(input, seed, true)].map((one) =>
          objects(recorded(one, run).log.records).filter((event) => event.kind !== 'reveal'),
        )
        const i = inCommon(a!, b!)
        seen = a![i]?.kind === 'decision' && b![i]?.kind === 'decision'
      }
      assert.ok(seen, `no decision differs with ${JSON.stringify(told)}`)
    }
  })
})
