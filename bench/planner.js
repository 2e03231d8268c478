// What one plan of the prefill-decode planner costs, with the events of a step before it. Thread CPU time of the
// native side, medians of 41 rounds. Light: KV 40 % committed; tight: 97 %, so that the planned calls exceed it. Rivals: the
// same greedy in JavaScript, and the naive planner of the tests, which recomputes everything at every step.
import { native } from '../dist/native.js'
import { round, spread } from './measure.js'
import { oracle } from './oracles/run.js'
import { planTraffic } from './performance/traffic.js'
import { GreedyPlanner } from './rival/greedy.js'

const GREEDY_SIZES = [2, 4, 8, 16, 64]
const REGIMES = ['light', 'tight']
const ROUND_US = 2000
const LONG_US = 10_000
const DEFAULTS = { seed: 1, tight: 0, scalar: 0, onePass: 0, perInstance: -1 }

/** Plans of one setting: µs over the rounds; rounds of long plans are of one plan, and few. */
export function planSamples(options, rounds) {
  const bench = (plans, repeats) => native.plannerBench({ ...DEFAULTS, ...options, plans, repeats })
  const inUs = (ns) => [...ns].map((each) => each / 1000)
  const { ns: first, entries, vectorised } = bench(1, 6)
  if (first[5] > LONG_US * 1000) return { samples: inUs(first.subarray(1)), entries, vectorised }
  const ns = bench(20, 3).ns[2]
  const plans = Math.max(1, Math.round((ROUND_US * 1000) / ns))
  return { samples: inUs(bench(plans, rounds).ns), entries, vectorised }
}

/** The same plans in JavaScript. Bringing back the state before each plan is not counted. */
function rivalUs(options, rounds) {
  const planners = Array.from({ length: 8 }, (_, seed) => {
    const state = native.plannerState({ ...DEFAULTS, repeats: 1, ...options, plans: 5, seed })
    return new GreedyPlanner(state)
  })
  const times = []
  for (let round = 0; round < 5 * rounds; round += 1) {
    const planner = planners[round % planners.length]
    planner.reset()
    const started = process.hrtime.bigint()
    planner.plan()
    times.push(Number(process.hrtime.bigint() - started) / 1000)
  }
  return times.slice(rounds) // the first warm up
}

export async function run(say, { quick }) {
  const rows = []
  const rounds = quick ? 7 : 41
  const add = (name, options, target) => {
    const { samples, entries, vectorised } = planSamples(options, rounds)
    const note = options.scalar === 1 || !vectorised ? 'scalar' : 'AVX2'
    const traffic = planTraffic(options.calls, options.instances, entries)
    rows.push({ name, unit: 'µs', ...spread(samples), target, traffic, note })
  }
  for (const scalar of [0, 1]) {
    const suffix = scalar === 1 ? ' scalar' : ''
    for (const instances of GREEDY_SIZES) {
      say(`greedy ${instances}x${instances}${suffix} …`)
      for (const [tight, regime] of REGIMES.entries()) {
        const target = [
          [100, 300],
          [400, 550],
        ][scalar][tight]
        add(
          `greedy N=128 ${instances}x${instances} ${regime}${suffix}`,
          { calls: 128, instances, tight, scalar },
          target,
        )
      }
    }
  }
  const times = (name, samples, instances, regime) => {
    const own = rows.find((row) => row.name === `greedy N=128 ${instances}x${instances} ${regime}`).value
    const us = spread(samples)
    rows.push({ name, unit: 'µs', ...us, note: `${round(us.value / own, 2)} times the native one` })
  }
  for (const instances of GREEDY_SIZES) {
    say(`JavaScript ${instances}x${instances} …`)
    for (const [tight, regime] of REGIMES.entries()) {
      const samples = rivalUs({ calls: 128, instances, tight }, rounds)
      times(`the same plans in JavaScript, ${instances}x${instances} ${regime}`, samples, instances, regime)
    }
  }
  for (const instances of quick ? [2, 8] : GREEDY_SIZES) {
    say(`naive ${instances}x${instances} …`)
    for (const [tight, regime] of REGIMES.entries()) {
      const measured = oracle(['naive', 128, instances, tight, quick ? 2 : instances > 16 ? 3 : 9])
      if (measured === undefined) continue
      const samples = measured.ns.map((each) => each / 1000)
      times(`the same plans, naive, ${instances}x${instances} ${regime}`, samples, instances, regime)
    }
  }
  for (const [tight, regime] of REGIMES.entries()) {
    add(`greedy N=32 8x8 ${regime}`, { calls: 32, instances: 8, tight }, [10, 30][tight])
  }
  for (const instances of GREEDY_SIZES) {
    for (const [tight, regime] of REGIMES.entries()) {
      add(
        `onepass N=512 ${instances}x${instances} ${regime}`,
        { calls: 512, instances, tight, onePass: 1 },
        250,
      )
    }
  }
  for (const [tight, regime] of REGIMES.entries()) {
    add(`one call per instance N=20 8x8 ${regime}`, { calls: 20, instances: 8, tight, perInstance: 1 })
  }
  return rows
}
