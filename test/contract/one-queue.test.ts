import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { native } from '../../lib/native.ts'
import { pairRun, pairScenario } from '../support/pairs.ts'
import { policy, runOptions, scenario, simulator } from '../support/runs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(h|cc|ts)$/.test(name))
    .map((name) => join(folder, name))
}

/** The base of a metric and what callers declare are true times, found by the same formulas; no call waits there. */
const PRICES = new Set(['native/simulator/final_horizon.h', 'native/simulator/true_costs.h'])

/** Without comments. */
function code(file: string): string {
  return readFileSync(join(root, file), 'utf8').replaceAll(/\/\/.*|\/\*[\s\S]*?\*\//g, '')
}

/**
 * A waiting call is one that is ready and not leased. The simulator's containers may hold: leases (engine), calls that
 * are not ready yet (tools), and the calls of one instant on their way into the scheduler.
 */
describe('contract 6: no container of waiting calls outside scheduler/ and the order/ heaps it owns', () => {
  it('finds no queue, key, budget or score of waiting calls in simulator/, binding/ or lib/', () => {
    const offences: string[] = []
    for (const file of [...sources('native/simulator'), ...sources('native/binding'), ...sources('lib')]) {
      const text = code(file)
      for (const word of [
        /order\/(?!registry)/,
        /placement\/(?!(pair_)?registry)/,
        /workflow\/(budget|horizon)/,
        /\bt_?slo\b/i,
      ]) {
        if (word.test(text) && !PRICES.has(file)) offences.push(`${file}: ${word}`)
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
      'native/simulator/links.h: due_',
    ])
  })

  // CONTRACT 12: the planner reads waiting calls as flat columns. The scheduler owns them (scheduler/pairs.h) and hands
  // them over for one plan; the planner keeps indices into them in its frame, which the next plan overwrites.
  it('leaves the planner without calls of its own: the scheduler has the columns', () => {
    const members = (folder: string) =>
      sources(folder).flatMap((file) =>
        [
          ...code(file).matchAll(
            /^\s*(?:(?:const\s+)?(?:laxity::)?)(WaitingCalls|MostUrgent|PairPlanner|DecodePlanner)\s+(\w+_|crowd)\s*(?:;|\{)/gm,
          ),
        ].map((match) => `${file}: ${match[1]} ${match[2]}`),
      )
    assert.deepEqual(members('native').sort(), [
      'native/planner/workbench.h: WaitingCalls calls_',
      'native/scheduler/pairs.h: DecodePlanner decodePlanner_',
      'native/scheduler/pairs.h: MostUrgent crowd',
      'native/scheduler/pairs.h: PairPlanner planner_',
      'native/scheduler/pairs.h: WaitingCalls waiting_',
    ])
    // Nor does the planner know the graph, a queue or the scheduler.
    const includes = sources('native/planner').flatMap((file) =>
      [...code(file).matchAll(/#include "((?:scheduler|order|workflow|simulator|placement)\/[^"]+)"/g)].map(
        (match) => `${file}: ${match[1]}`,
      ),
    )
    assert.deepEqual(includes, [])
    // And who decides includes neither: engines, driver, facade.
    for (const file of [...sources('native/simulator'), ...sources('native/binding')]) {
      if (/planner_bench/.test(file)) continue
      assert.doesNotMatch(code(file), /#include "planner\//, file)
    }
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
  it('and the same on prefill-decode clusters, where KV and transfers are counted too', () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const result = simulator(pairScenario(seed, { caching: seed % 3 === 0 })).run(pairRun(seed), {})
      assert.equal(result.status, 0, `seed ${seed}: ${native.statusReasons[result.status]}`)
    }
  })
})
