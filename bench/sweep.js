// The α sweep and the simulator's speed. Thread CPU time of the native runs, medians of 20.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bindCluster } from '../dist/cluster/bind.js'
import { loadCluster } from '../dist/cluster/load.js'
import { modeFields } from '../dist/cluster/modes.js'
import { chessTrace, readTrace } from '../dist/index.js'
import { native } from '../dist/native.js'

const TRACE_3 = fileURLToPath(
  new URL('../../shared/data/hexgen-flow/input_file_trace3.json', import.meta.url),
)
const ALPHAS = Array.from({ length: 11 }, (_, i) => i / 10)

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

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

async function simulator(table, mode = {}) {
  const cluster = bindCluster(await loadCluster('hexgen-hetero-2'), table)
  for (const instance of cluster.instances) Object.assign(instance, mode)
  return new native.Simulator(new native.Trace(table.columns), cluster)
}

function cpuOf(sim, overrides) {
  const result = sim.run({ ...RUN, ...overrides }, {})
  if (result.status !== 0) throw new Error(native.statusReasons[result.status])
  return result
}

function sweepMs(sim, replications) {
  const sweeps = []
  for (let i = 0; i < 21; i += 1) {
    let cpu = 0
    for (const alpha of ALPHAS) {
      for (let replication = 0; replication < replications; replication += 1) {
        cpu += cpuOf(sim, { parameters: { alpha }, replication }).cpuMs
      }
    }
    if (i > 0) sweeps.push(cpu) // the first warms up
  }
  return median(sweeps)
}

/** Load 1.0 = workflows / makespan of 500 workflows that are all there at t = 0. */
function saturation(sim, workflows) {
  const { makespanMs } = cpuOf(sim, {
    order: 'workflow-fcfs',
    placement: 'least-work-left',
    arrivals: 'fixed',
    rate: 1e9,
  })
  return (workflows / makespanMs) * 1000
}

const round = (value, digits = 3) => Number(value.toPrecision(digits))

export async function run(say) {
  const real = existsSync(TRACE_3)
  const table = real ? await readTrace(TRACE_3) : await chessTrace({ workflows: 110, preset: 3, seed: 1 })
  const name = real ? 'trace 3' : 'chess:3 (trace 3 is not there)'
  const sim = await simulator(table)
  const rows = []
  for (const replications of [1, 16]) {
    const ms = sweepMs(sim, replications)
    const limit = replications === 1 ? 10 : 160
    rows.push({
      name: `11 alphas x ${replications} replications, ${name}, hexgen-hetero-2`,
      value: round(ms),
      unit: 'ms',
      limit,
    })
    const calls = table.calls * ALPHAS.length * replications
    rows.push({
      name: `  the same, calls per second`,
      value: Math.round(calls / ms) * 1000,
      unit: 'calls/s',
      limit: 2_500_000,
    })
  }

  for (const mode of [modeFields('chunked'), modeFields('decode-share')]) {
    const detail = mode.mode === 'chunked' ? `${mode.chunkTokens} tokens` : `${mode.decodeShare / 1000}`
    rows.push({
      name: `11 alphas, ${mode.mode} (${detail}), ${name}`,
      value: round(sweepMs(await simulator(table, mode), 1)),
      unit: 'ms',
      limit: 60,
    })
  }

  const rate =
    0.7 * saturation(await simulator(await chessTrace({ workflows: 500, preset: 3, seed: 1 })), 500)
  for (const workflows of [1_000, 10_000, 100_000, 1_000_000]) {
    say(`load 0.7, ${workflows} workflows …`)
    const child = spawnSync(
      process.execPath,
      [fileURLToPath(import.meta.url), String(workflows), String(rate)],
      { encoding: 'utf8' },
    )
    if (child.status !== 0) throw new Error(child.stderr)
    const { calls, cpuMs, rssGB } = JSON.parse(child.stdout)
    rows.push({
      name: `load 0.7, ${workflows} workflows, cost per call`,
      value: round((cpuMs / calls) * 1e6),
      unit: 'ns',
    })
    if (workflows === 1_000_000) {
      rows.push({ name: `  calls simulated`, value: calls, unit: 'calls' })
      rows.push({ name: `  peak memory of its process`, value: round(rssGB), unit: 'GB', limit: 1.5 })
    }
  }
  return rows
}

// As its own process: one long run, whose peak memory is that of the process.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [workflows, rate] = process.argv.slice(2).map(Number)
  const sim = await simulator(await chessTrace({ workflows, preset: 3, seed: 1 }))
  const runs = Array.from({ length: workflows > 20_000 ? 1 : 5 }, () => cpuOf(sim, { rate }))
  const calls = runs[0].calls
  const cpuMs = median(runs.map((result) => result.cpuMs))
  console.log(JSON.stringify({ calls, cpuMs, rssGB: (process.resourceUsage().maxRSS * 1024) / 1e9 }))
}
