// Simulated calls per second with the pair planner: hexagent on 8 + 8 instances at load 0.9. Thread CPU time of 5 runs.

import { speed } from './hexagent/speed.js'
import { spread } from './measure.js'
import { planTraffic, simulationTraffic, times } from './performance/traffic.js'

export async function run(say, { quick }) {
  const rows = []
  for (const [workload, workflows] of [
    ['bfcl', quick ? 500 : 4000],
    ['lats', quick ? 50 : 300],
  ]) {
    say(workload)
    const { calls, samples } = await speed(workload, workflows, quick ? 3 : 5)
    rows.push({
      name: `${workload}, ${workflows} workflows, hexagent-hetero-1, load 0.9`,
      unit: 'calls/s',
      ...spread(samples, (cpuMs) => (1000 * calls) / cpuMs),
      target: 100_000,
      // At least one plan a call, with that call in it.
      traffic: [...times(1 / calls, simulationTraffic(calls, 16)), ...planTraffic(1, 8)],
      note: `${calls} calls`,
    })
  }
  return rows
}
