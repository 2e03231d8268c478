// Simulated calls per second of thread CPU time with the planner, and what overload costs.
import { compare, generateWorkload, simulate } from '../../dist/index.js'
import { MODELS } from './settings.js'

const CLUSTER = 'hexagent-hetero-1'
const MIB = 2 ** 20

async function rateAt(workload, load) {
  // Workflows count for nothing here: what load 1.0 is does not depend on them.
  const { saturation } = await compare({
    workload,
    cluster: CLUSTER,
    model: MODELS.llama,
    policy: 'hexagent',
    workflows: 1,
    seeds: 1,
    workers: 0,
  })
  return load * saturation[0].ratePerS
}

async function run(workload, rate, workflows, options = {}) {
  const trace = await generateWorkload(workload, { workflows, seed: 1 })
  return simulate({
    trace,
    cluster: CLUSTER,
    model: MODELS.llama,
    policy: 'hexagent',
    knowledge: 'online',
    arrivals: 'poisson',
    rate,
    workers: 0,
    ...options,
  })
}

/** The fastest of a few runs: other work on the machine only ever adds. */
export async function speed(workload, workflows, repeats = 5) {
  const rate = await rateAt(workload, 0.9)
  const samples = []
  let calls = 0
  for (let i = 0; i < repeats; i += 1) {
    const { timing, counts } = await run(workload, rate, workflows)
    samples.push(timing.cpuMs)
    calls = counts.calls
  }
  const best = Math.min(...samples)
  return { calls, cpuMs: best, perSecond: (1000 * calls) / best, samples }
}

/** LATS at a load that no cluster sustains. */
export async function overload(workflows, load = 2.5) {
  const rate = await rateAt('lats', load)
  const before = performance.now()
  const { counts, timing, pairs } = await run('lats', rate, workflows, { timePlans: true })
  return {
    workflows,
    completed: counts.completed,
    calls: counts.calls,
    cpuS: timing.cpuMs / 1000,
    wallS: (performance.now() - before) / 1000,
    peakMiB: (process.resourceUsage().maxRSS * 1024) / MIB,
    plans: pairs.planning.plans,
    waiting: pairs.planning.plannedCalls / pairs.planning.plans,
    planUs: pairs.planning.planUs,
  }
}
