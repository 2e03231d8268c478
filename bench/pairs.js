// Simulated calls per second with the pair planner: hexagent on 8 + 8 instances at load 0.9. Thread CPU time, best of 5.
import { speed } from './hexagent/speed.js'

export async function run(say) {
  const rows = []
  for (const [workload, workflows] of [
    ['bfcl', 4000],
    ['lats', 300],
  ]) {
    say(workload)
    const { calls, cpuMs, perSecond } = await speed(workload, workflows)
    rows.push({
      name: `${workload}, ${workflows} workflows, hexagent-hetero-1, load 0.9`,
      value: Math.round(perSecond / 1000) * 1000,
      unit: 'calls/s',
      limit: 100_000,
      note: `${calls} calls in ${cpuMs.toFixed(0)} ms`,
    })
  }
  return rows
}
