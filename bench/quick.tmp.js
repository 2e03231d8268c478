import { bindCluster } from '../dist/cluster/bind.js'
import { loadCluster } from '../dist/cluster/load.js'
import { chessTrace, readTrace } from '../dist/index.js'
import { native } from '../dist/native.js'

const table = await readTrace('/work/shared/data/hexgen-flow/input_file_trace3.json')
const sim = new native.Simulator(
  new native.Trace(table.columns),
  bindCluster(await loadCluster('hexgen-hetero-2'), table),
)
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
const t = []
for (let i = 0; i < 21; i++) {
  let c = 0
  for (let a = 0; a <= 10; a++) c += sim.run({ ...RUN, parameters: { alpha: a / 10 } }, {}).cpuMs
  t.push(c)
}
console.log(t.sort((a, b) => a - b)[10].toFixed(2), t[0].toFixed(2))
