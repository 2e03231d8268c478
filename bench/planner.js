// What one plan of the prefill-decode planner costs, with the events of a step before it. Thread CPU time of the
// native side, medians of 41 rounds. Light: KV 40 % committed; tight: 97 %, so that the planned calls exceed it.
import { native } from '../dist/native.js'

const GREEDY_SIZES = [2, 4, 8, 16, 64]
const ROUNDS = 41
const ROUND_US = 2000

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

function measure(options) {
  const run = (plans, repeats) =>
    native.plannerBench({ seed: 1, scalar: 0, onePass: 0, perInstance: -1, ...options, plans, repeats })
  const { ns, vectorised } = run(20, 3)
  const plans = Math.max(1, Math.round((ROUND_US * 1000) / ns[2]))
  return { us: median([...run(plans, ROUNDS).ns]) / 1000, vectorised }
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
