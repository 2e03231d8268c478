// Simulated calls per second, over instances and workflows at load 0.7: leaping, in the addon; and stepping, by the oracle of the
// native tests, which visits every iteration, beside the leaping engine in the same program on the same runs. Thread CPU time.
import { affordable, round, spread } from './measure.js'
import { oracle } from './oracles/run.js'
import { simulationTraffic, times } from './performance/traffic.js'
import { chess, LAXITY, rateAt, simulated, simulatorOf } from './simulations.js'

const POLICIES = { 'hexgen-flow': {}, laxity: LAXITY }
const COPIES = [1, 16, 256]
/** Static keys only: what migration projects grows with the instances too. */
const MANY = 1024
const WORKFLOWS = [100, 1000, 10_000, 50_000]

const perSecond = (calls) => (ms) => (1000 * calls) / ms

export async function run(say, { quick }) {
  const rows = []
  const limitS = quick ? 1 : 5
  const tables = new Map()
  for (const workflows of quick ? WORKFLOWS.slice(0, 3) : WORKFLOWS)
    tables.set(workflows, await chess(workflows))
  for (const [policy, overrides] of Object.entries(POLICIES)) {
    const all = policy === 'laxity' ? COPIES : [...COPIES, MANY]
    for (const copies of quick ? COPIES.slice(0, 2) : all) {
      const rate = await rateAt(0.7, copies)
      await affordable(
        // Fewer workflows than instances would leave most of these idle.
        [...tables.keys()].filter((workflows) => workflows >= 4 * copies),
        limitS,
        async (workflows) => {
          const table = tables.get(workflows)
          say(`${policy}, ${4 * copies} instances, ${workflows} workflows …`)
          const sim = await simulatorOf(table, { copies })
          const runs = []
          const until = performance.now() + (quick ? 200 : 600)
          do runs.push(simulated(sim, { ...overrides, rate }).cpuMs)
          while (runs.length < 3 || (runs.length < 9 && performance.now() < until))
          rows.push({
            name: `${policy}, ${4 * copies} instances, ${workflows} workflows`,
            unit: 'calls/s',
            ...spread(runs.slice(1), perSecond(table.calls)),
            traffic: times(1 / table.calls, simulationTraffic(table.calls, 4 * copies)),
            grid: { policy, instances: 4 * copies, workflows },
          })
        },
        (workflows, s) => say(`${workflows} workflows left out: about ${Math.ceil(s)} s`),
      )
    }
  }
  for (const [instances, workflows] of quick
    ? [[4, 50]]
    : [
        [4, 100],
        [4, 1000],
        [16, 400],
      ]) {
    say(`stepping, ${instances} instances, ${workflows} workflows …`)
    const measured = oracle(['stepping', instances, workflows, quick ? 1 : 3])
    if (measured === undefined) break
    const { calls, iterations, stepping, leaping } = measured
    const leap = spread(leaping, (ns) => (1e9 * calls) / ns)
    const step = spread(stepping, (ns) => (1e9 * calls) / ns)
    const what = `${instances} instances, ${workflows} workflows`
    rows.push(
      {
        name: `stepping, ${what}`,
        unit: 'calls/s',
        ...step,
        note: `${round(iterations / calls)} iterations a call; leaping is ${round(leap.value / step.value)} times as fast`,
      },
      { name: `  leaping in the same program, without link-time optimisation`, unit: 'calls/s', ...leap },
    )
  }
  return rows
}
