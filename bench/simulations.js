// Set-ups that suites of the simulator share: HexGen-Flow's second heterogeneous cluster, CHESS-like workflows.
import { bindCluster } from '../dist/cluster/bind.js'
import { loadCluster } from '../dist/cluster/load.js'
import { chessTrace } from '../dist/index.js'
import { native } from '../dist/native.js'

const RUN = {
  order: 'urgency',
  placement: 'workload-balanced',
  binding: 'at-reveal',
  feedback: 'boundary',
  lookahead: 0,
  knowledge: 'template',
  parameters: {},
  arrivals: 'poisson',
  rate: 0.5,
  seed: 1,
  replication: 0,
  tieSeed: 0,
  sloScale: 5,
  sloBase: 'template',
  compat: 'none',
  laws: false,
}
export const LAXITY = { order: 'ratio', placement: 'eftxp', migrate: true }

/** `copies` times the four instances of hexgen-hetero-2. */
export async function simulatorOf(table, { mode = {}, copies = 1 } = {}) {
  const cluster = bindCluster(await loadCluster('hexgen-hetero-2'), table)
  const instances = cluster.instances.map((instance) => ({ ...instance, ...mode }))
  const all = Array.from({ length: copies }, () => instances).flat()
  return new native.Simulator(new native.Trace(table.columns), { ...cluster, instances: all })
}

/** A run's result; `cpuMs` is thread CPU time. */
export function simulated(sim, overrides) {
  const result = sim.run({ ...RUN, ...overrides }, {})
  if (result.status !== 0) throw new Error(native.statusReasons[result.status])
  return result
}

export const chess = (workflows) => chessTrace({ workflows, preset: 3, seed: 1 })

/** Arrivals per second at `load`: 1.0 = workflows / makespan of 500 workflows that are all there at t = 0, on one copy. */
export async function rateAt(load, copies = 1) {
  const { makespanMs } = simulated(await simulatorOf(await chess(500)), {
    order: 'workflow-fcfs',
    placement: 'least-work-left',
    arrivals: 'fixed',
    rate: 1e9,
  })
  return load * copies * (500 / makespanMs) * 1000
}
