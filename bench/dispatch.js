// A whole call in the scheduler core under steady load: workflow opened, call revealed and placed, leased, first token,
// finished, workflow closed. Five events and one decide; thread CPU time of the native side, medians of 11 rounds.
import { native } from '../dist/native.js'
import { median, round } from './measure.js'

const POLICIES = {
  'hexgen-flow': { order: 'urgency', placement: 'workload-balanced', migrate: 0 },
  'least-work-left': { order: 'workflow-fcfs', placement: 'least-work-left', migrate: 0 },
  laxity: { order: 'ratio', placement: 'eftxp', migrate: 1 },
}
const INSTANCES = [4, 64, 1024, 4096]
const WAITING = [100, 10_000, 100_000]

function ns(policy, instances, waiting, turns) {
  return median([
    ...native.dispatchBench({ ...POLICIES[policy], instances, waiting, turns, repeats: 11, seed: 1 }),
  ])
}

export async function run(say) {
  const rows = []
  const add = (policy, instances, waiting, turns) => {
    say(`${policy}, ${instances} instances, ${waiting} waiting …`)
    rows.push({
      name: `${policy}, ${instances} instances, ${waiting} calls waiting`,
      value: round(ns(policy, instances, waiting, turns)),
      unit: 'ns a call',
      policy,
      instances,
      waiting,
    })
  }
  for (const instances of INSTANCES) add('hexgen-flow', instances, 10_000, 20_000)
  for (const instances of INSTANCES) add('least-work-left', instances, 10_000, 20_000)
  for (const instances of INSTANCES) add('laxity', instances, 10_000, instances > 64 ? 200 : 2000)
  for (const waiting of WAITING) if (waiting !== 10_000) add('hexgen-flow', 64, waiting, 20_000)
  for (const waiting of WAITING) if (waiting !== 10_000) add('laxity', 64, waiting, 500)
  return rows
}
