// The α sweep: all its runs one after the other. Thread CPU time of the native runs, medians of 20 sweeps.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { modeFields } from '../dist/cluster/modes.js'
import { readTrace } from '../dist/index.js'
import { spread } from './measure.js'
import { simulationTraffic, times } from './performance/traffic.js'
import { chess, simulated, simulatorOf } from './simulations.js'

const TRACE_3 = fileURLToPath(
  new URL('../../shared/data/hexgen-flow/input_file_trace3.json', import.meta.url),
)
const ALPHAS = Array.from({ length: 11 }, (_, i) => i / 10)

function sweepMs(sim, replications, count) {
  const sweeps = []
  for (let i = 0; i <= count; i += 1) {
    let cpu = 0
    for (const alpha of ALPHAS) {
      for (let replication = 0; replication < replications; replication += 1) {
        cpu += simulated(sim, { parameters: { alpha }, replication }).cpuMs
      }
    }
    if (i > 0) sweeps.push(cpu) // the first warms up
  }
  return sweeps
}

export async function run(say, { quick }) {
  const real = existsSync(TRACE_3)
  const table = real ? await readTrace(TRACE_3) : await chess(110)
  const name = real ? 'trace 3' : 'chess:3 (trace 3 is not there)'
  const sim = await simulatorOf(table)
  const rows = []
  const add = (name, samples, runs, target) =>
    rows.push({
      name,
      unit: 'ms',
      ...spread(samples),
      target,
      traffic: simulationTraffic(table.calls, 4, table.calls * runs),
    })
  for (const replications of [1, 16]) {
    say(`${replications} replications …`)
    const samples = sweepMs(sim, replications, quick ? 3 : 20)
    const runs = ALPHAS.length * replications
    const what = `${ALPHAS.length} alphas x ${replications} replications, ${name}, hexgen-hetero-2`
    add(what, samples, runs, replications === 1 ? 10 : 160)
    rows.push({
      name: '  the same, calls per second',
      unit: 'calls/s',
      ...spread(samples, (ms) => (1000 * table.calls * runs) / ms),
      target: 2_500_000,
      traffic: times(1 / table.calls, simulationTraffic(table.calls, 4)),
    })
  }
  for (const mode of [modeFields('chunked'), modeFields('decode-share')]) {
    const detail = mode.mode === 'chunked' ? `${mode.chunkTokens} tokens` : `${mode.decodeShare / 1000}`
    const samples = sweepMs(await simulatorOf(table, { mode }), 1, quick ? 3 : 20)
    add(`${ALPHAS.length} alphas, ${mode.mode} (${detail}), ${name}`, samples, ALPHAS.length, 60)
  }
  return rows
}
