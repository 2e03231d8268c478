import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { native } from '../../lib/native.ts'
import { policy, runOptions, scenario, simulator } from '../support/runs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(h|cc|ts)$/.test(name))
    .map((name) => join(folder, name))
}

/**
 * A waiting call is one that is ready and not leased. The simulator's containers may hold: leases (engine), calls that
 * are not ready yet (tools), and the calls of one instant on their way into the scheduler.
 */
describe('contract 6: no container of waiting calls outside scheduler/ and the order/ heaps it owns', () => {
  it('finds no queue, key, budget or score of waiting calls in simulator/, binding/ or lib/', () => {
    const offences: string[] = []
    for (const file of [...sources('native/simulator'), ...sources('native/binding'), ...sources('lib')]) {
      const text = readFileSync(join(root, file), 'utf8').replaceAll(/\/\/.*|\/\*[\s\S]*?\*\//g, '')
      for (const word of [
        /order\/(?!registry)/,
        /placement\/(?!(pair_)?registry)/,
        /workflow\/(budget|horizon)/,
        /\bt_?slo\b/i,
      ]) {
        if (word.test(text)) offences.push(`${file}: ${word}`)
      }
    }
    assert.deepEqual(offences, [])
  })

  it('keeps heaps in the simulator only for running calls, tools and time', () => {
    const heaps = sources('native/simulator').flatMap((file) =>
      [
        ...readFileSync(join(root, file), 'utf8').matchAll(
          /^\s*(?:IndexedHeap|std::priority_queue\S*)\s+(\w+)/gm,
        ),
      ].map((match) => `${file}: ${match[1]}`),
    )
    assert.deepEqual(heaps, [
      'native/simulator/driver.h: gaps_',
      'native/simulator/engine_batch.h: byFinish_',
      'native/simulator/engine_batch.h: byOverrun_',
    ])
  })

  it('counts at every instant: ready = waiting in the scheduler + leased (the laws of a run)', () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const feedback = seed % 2 === 0 ? 'boundary' : 'lease'
      const run = runOptions({
        ...policy(seed),
        feedback,
        lookahead: feedback === 'lease' ? 1 : 0,
        laws: true,
      })
      const result = simulator(scenario(seed)).run(run, {})
      assert.equal(result.status, 0, `seed ${seed}: ${native.statusReasons[result.status]}`)
    }
  })
})
