// A scenario is a cluster, a workload, a load and an SLO scale, all drawn from one seed.
//
// Load 1.0 is the rate N / makespan of 500 CHESS-like workflows that are all there at t = 0, under workflow-fcfs and
// least-work-left on the scenario's own cluster. KV is free (the presets' capacity), half of what the busiest instance
// holds at the scenario's rate when it is free, or 1.2 times the largest call.
import { loadCluster } from '../../dist/cluster/load.js'
import { chessTrace, simulate } from '../../dist/index.js'
import { random } from './random.js'

const GPUS = ['a100', 'a6000', 'l40s']
const WORKFLOWS = 200
const CALIBRATION_WORKFLOWS = 500
const CHUNK_TOKENS = 512

/** What the seed says, before anything is measured. */
export function draw(seed) {
  const r = random(seed)
  const gpus = Array.from({ length: 3 + r.below(8) }, () => r.pick(GPUS))
  return {
    seed,
    gpus,
    preset: 1 + r.below(3),
    kv: r.pick(['free', 'half', 'tight']),
    load: r.uniform(0.4, 1.2),
    error: r.pick([0, 0.4]),
    mode: r.pick(['prefill-first', 'chunked']),
    sloScale: r.pick([3, 5, 8]),
  }
}

function clusterOf(scenario, kvTokens) {
  const mode =
    scenario.mode === 'chunked' ? { mode: 'chunked', chunkTokens: CHUNK_TOKENS } : { mode: scenario.mode }
  return {
    name: `quality-${scenario.seed}`,
    instances: scenario.gpus.map((gpu) => ({ gpu, ...mode, ...(kvTokens !== undefined && { kvTokens }) })),
  }
}

const CALIBRATION = { order: 'workflow-fcfs', placement: 'least-work-left', knowledge: 'online' }

/** Workflows per second at load 1.0. */
async function saturation(scenario, cluster) {
  const trace = await chessTrace({
    workflows: CALIBRATION_WORKFLOWS,
    preset: scenario.preset,
    seed: scenario.seed,
  })
  const { metrics } = await simulate({ trace, cluster, ...CALIBRATION, arrivals: 'fixed', rate: 1e6 })
  return CALIBRATION_WORKFLOWS / (metrics.makespanMs / 1000)
}

/** The most KV that leases hold at once on any instance, tokens. */
async function peakKv(trace, cluster, rate) {
  const { perCall } = await simulate({ trace, cluster, ...CALIBRATION, rate, perCall: true })
  const { promptTokens, outputTokens } = trace.columns
  const changes = []
  for (let call = 0; call < trace.calls; call += 1) {
    const tokens = promptTokens[call] + outputTokens[call]
    const instance = perCall.instance[call]
    changes.push({ at: perCall.leasedMs[call], instance, tokens })
    changes.push({ at: perCall.finishedMs[call], instance, tokens: -tokens })
  }
  changes.sort((a, b) => a.at - b.at || a.tokens - b.tokens)
  const held = cluster.instances.map(() => 0)
  let peak = 0
  for (const { instance, tokens } of changes) {
    held[instance] += tokens
    peak = Math.max(peak, held[instance])
  }
  return peak
}

function largestCall({ columns, calls }) {
  let largest = 0
  for (let call = 0; call < calls; call += 1) {
    largest = Math.max(largest, columns.promptTokens[call] + columns.outputTokens[call])
  }
  return largest
}

/** t_comp of the mean call on the mean instance, s: what beta is a multiple of the square of. */
async function meanService(trace, cluster) {
  const { latencies, instances } = await loadCluster(cluster)
  let sum = 0
  for (const { latency } of instances) {
    const model = latencies[latency]
    for (let call = 0; call < trace.calls; call += 1) {
      const prompt = trace.columns.promptTokens[call]
      const steps = trace.columns.outputTokens[call] - 1
      sum += (model.prefillBaseMs ?? 0) + model.prefillPerTokenMs * prompt + model.decodeBaseMs * steps
      sum += (model.decodePerContextMs ?? 0) * steps * (prompt + 1 + (steps - 1) / 2)
    }
  }
  return sum / (instances.length * trace.calls) / 1000
}

/** The scenario with everything that a run needs: `run` holds the options of `simulate` and `sweep`. */
export async function build(seed) {
  const scenario = draw(seed)
  const trace = await chessTrace({ workflows: WORKFLOWS, preset: scenario.preset, seed })
  const free = clusterOf(scenario)
  // With an error a call may be expected to be larger than it is.
  const tight = Math.ceil(1.2 * largestCall(trace) * (scenario.error > 0 ? 1.25 : 1))
  let kvTokens
  if (scenario.kv === 'half') {
    const rate = scenario.load * (await saturation(scenario, free))
    kvTokens = Math.max(tight, Math.ceil((await peakKv(trace, free, rate)) / 2))
  } else if (scenario.kv === 'tight') {
    kvTokens = tight
  }
  const cluster = clusterOf(scenario, kvTokens)
  const rate = scenario.load * (await saturation(scenario, cluster))
  return {
    ...scenario,
    kvTokens,
    rate,
    meanServiceS: await meanService(trace, cluster),
    run: {
      trace,
      cluster,
      rate,
      sloScale: scenario.sloScale,
      sloBase: 'exclusive',
      seed,
      ...(scenario.error > 0 && { error: `length=lognormal:${scenario.error}` }),
    },
  }
}
