// What one plan of the prefill-decode planner costs, with the events of a step before it. Thread CPU time of the
// native side, medians of 41 rounds. Light: KV 40 % committed; tight: 97 %, so that the planned calls exceed it.
import { native } from '../dist/native.js'
import { median } from './measure.js'
import { GreedyPlanner } from './rival/greedy.js'

const GREEDY_SIZES = [2, 4, 8, 16, 64]
const ROUNDS = 41
const ROUND_US = 2000

function measure(options) {
  const run = (plans, repeats) =>
    native.plannerBench({ seed: 1, scalar: 0, onePass: 0, perInstance: -1, ...options, plans, repeats })
  const { ns, vectorised } = run(20, 3)
  const plans = Math.max(1, Math.round((ROUND_US * 1000) / ns[2]))
  return { us: median([...run(plans, ROUNDS).ns]) / 1000, vectorised }
}

/** The same plans in JavaScript. Bringing back the state before each plan is not counted. */
function rivalUs(options) {
  const planners = Array.from({ length: 8 }, (_, seed) => {
    const state = native.plannerState({
      scalar: 0,
      onePass: 0,
      perInstance: -1,
      repeats: 1,
      ...options,
      plans: 5,
      seed,
    })
    return new GreedyPlanner(state)
  })
  const times = []
  for (let round = 0; round < 5 * ROUNDS; round += 1) {
    const planner = planners[round % planners.length]
    planner.reset()
    const started = process.hrtime.bigint()
    planner.plan()
    times.push(Number(process.hrtime.bigint() - started) / 1000)
  }
  return median(times.slice(ROUNDS)) // the first warm up
}

export async function run(say) {
  const rows = []
  const add = (name, options, limit) => {
    const { us, vectorised } = measure(options)
    const note = options.scalar === 1 || !vectorised ? 'scalar' : 'AVX2'
    rows.push({ name, value: Number(us.toPrecision(3)), unit: 'us', limit, note })
  }
  for (const scalar of [0, 1]) {
    const suffix = scalar === 1 ? ' scalar' : ''
    for (const instances of GREEDY_SIZES) {
      say(`greedy ${instances}x${instances}${suffix} …`)
      for (const [tight, regime] of ['light', 'tight'].entries()) {
        const limit = [
          [100, 300],
          [400, 550],
        ][scalar][tight]
        add(
          `greedy N=128 ${instances}x${instances} ${regime}${suffix}`,
          { calls: 128, instances, tight, scalar },
          limit,
        )
      }
    }
  }
  for (const instances of GREEDY_SIZES) {
    say(`JavaScript ${instances}x${instances} …`)
    for (const [tight, regime] of ['light', 'tight'].entries()) {
      const own = rows.find((row) => row.name === `greedy N=128 ${instances}x${instances} ${regime}`).value
      const us = rivalUs({ calls: 128, instances, tight })
      rows.push({
        name: `the same plans in JavaScript, ${instances}x${instances} ${regime}`,
        value: Number(us.toPrecision(3)),
        unit: 'us',
        note: `${(us / own).toFixed(1)} times the native one`,
      })
    }
  }
  for (const [tight, regime] of ['light', 'tight'].entries()) {
    add(`greedy N=32 8x8 ${regime}`, { calls: 32, instances: 8, tight }, [10, 30][tight])
  }
  for (const instances of GREEDY_SIZES) {
    for (const [tight, regime] of ['light', 'tight'].entries()) {
      add(
        `onepass N=512 ${instances}x${instances} ${regime}`,
        { calls: 512, instances, tight, onePass: 1 },
        250,
      )
    }
  }
  for (const [tight, regime] of ['light', 'tight'].entries()) {
    add(`one call per instance N=20 8x8 ${regime}`, { calls: 20, instances: 8, tight, perInstance: 1 })
  }
  return rows
}
