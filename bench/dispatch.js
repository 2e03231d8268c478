// A whole call in the scheduler core under steady load: workflow opened, call revealed and placed, leased, first token,
// finished, workflow closed. Five events and one decide; thread CPU time of the native side, medians of 11 rounds. Before it
// the choice of an instance with the queue that the call enters.
import { native } from '../dist/native.js'
import { spread } from './measure.js'
import { dispatchTraffic, placementTraffic } from './performance/traffic.js'

export const POLICIES = {
  'hexgen-flow': { order: 'urgency', placement: 'workload-balanced', migrate: 0 },
  'least-work-left': { order: 'workflow-fcfs', placement: 'least-work-left', migrate: 0 },
  laxity: { order: 'ratio', placement: 'eftxp', migrate: 1 },
}
const INSTANCES = [4, 64, 1024, 4096]
/** By instances: the choice alone, a prototype with a tournament tree per GPU type. */
const CHOICE_NS = { 4: 20, 64: 42, 1024: 75 }

/** ns a call, over the rounds. `laxity` scores every instance. */
export function dispatchRow(policy, instances, waiting, turns, repeats) {
  return {
    name: `${policy}, ${instances} instances, ${waiting} calls waiting`,
    unit: 'ns a call',
    ...spread(native.dispatchBench({ ...POLICIES[policy], instances, waiting, turns, repeats, seed: 1 })),
    traffic: dispatchTraffic(instances, waiting, policy === 'laxity' ? instances : 0),
  }
}

export async function run(say, { quick }) {
  const rows = []
  const repeats = quick ? 3 : 11
  for (const instances of INSTANCES) {
    const sizes = { instances, operations: quick ? 20_000 : 100_000, repeats: 2 * repeats + 1, seed: 1 }
    rows.push({
      name: `choice of an instance and the queue it enters, workload-balanced, ${instances} instances`,
      unit: 'ns',
      ...spread(native.placementBench({ ...sizes, leave: 0 })),
      target: CHOICE_NS[instances],
      traffic: placementTraffic(instances, 1),
    })
    rows.push({
      name: `  the same, and another call leaves a queue, ${instances} instances`,
      unit: 'ns',
      ...spread(native.placementBench({ ...sizes, leave: 1 })),
      traffic: placementTraffic(instances, 2),
    })
  }
  const add = (policy, instances, waiting, turns) => {
    say(`${policy}, ${instances} instances, ${waiting} waiting …`)
    rows.push(dispatchRow(policy, instances, waiting, quick ? Math.ceil(turns / 10) : turns, repeats))
  }
  for (const instances of INSTANCES) add('hexgen-flow', instances, 10_000, 20_000)
  for (const instances of INSTANCES) add('least-work-left', instances, 10_000, 20_000)
  for (const instances of INSTANCES) add('laxity', instances, 10_000, instances > 64 ? 100 : 500)
  for (const waiting of [100, 100_000]) add('hexgen-flow', 64, waiting, 20_000)
  add('laxity', 64, 100, 500)
  return rows
}
