// What is compared, on what, how fast. Times are the latency model's unless they are called real.

import { SATURATION_POLICY, SATURATION_WORKFLOWS, saturationRate } from '../../dist/compare/saturation.js'
import { chessTrace, simulate } from '../../dist/index.js'
import { random } from '../quality/random.js'

/** Two fast instances and two slow ones. */
export const CLUSTER = 'hexgen-hetero-1'
export const GPUS = ['a100', 'a6000', 'a100', 'a6000']
/** Statistics of HexGen-Flow's trace 3. */
export const PRESET = 3
export const LOAD = 0.8
/** So many seconds of the latency model pass in a real one, in engines, router and agents alike. */
export const COMPRESSION = 7
/** Tokens per server-sent event, as vLLM's --stream-interval; the first comes alone. */
export const STREAM_INTERVAL = 16

/**
 * What the router is given. The baselines send at once, as such routers do; `simulated` is the same in the simulator. Least
 * connections counts what is sent and not answered: with pass-through that is what is assigned.
 */
export const POLICIES = {
  laxity: { router: { policy: 'laxity' }, simulated: { policy: 'laxity' } },
  'round-robin': passThrough('round-robin'),
  'least-connections': passThrough('least-loaded'),
}

function passThrough(placement) {
  const policy = { order: 'fcfs', placement }
  return { router: { policy, passThrough: true }, simulated: { policy, lookahead: 1000 } }
}

const SATURATION_SEED = 0
const ARRIVAL_SEED = 7_000_000

/** Workflows per second at load 1.0: the definition of `laxity compare`. */
export async function saturation() {
  const workflows = SATURATION_WORKFLOWS
  const trace = await chessTrace({ workflows, preset: PRESET, seed: SATURATION_SEED })
  const { latencyMs } = await simulate({
    trace: withArrivals(trace, new Float64Array(workflows)),
    cluster: CLUSTER,
    policy: SATURATION_POLICY.unified,
    knowledge: 'online',
    arrivals: 'trace',
  })
  return saturationRate(latencyMs)
}

/** Workflows with Poisson arrivals; the same for every policy. */
export async function workload(seed, workflows, rate) {
  const trace = await chessTrace({ workflows, preset: PRESET, seed })
  const next = random(ARRIVAL_SEED + seed)
  let at = 0
  const gaps = Float64Array.from({ length: workflows }, () => {
    at -= (1000 / rate) * Math.log(1 - next.uniform(0, 1))
    return at
  })
  return withArrivals(trace, gaps)
}

function withArrivals(trace, times) {
  const arrivalMs = new Float64Array(new SharedArrayBuffer(times.byteLength))
  arrivalMs.set(times)
  return { ...trace, columns: { ...trace.columns, arrivalMs } }
}

/**
 * The same workflows and arrivals in the simulator, under what a router learns. `gapMs` lies between a call and those that follow
 * it: what is between processes, without which they would always join the iteration that begins as it ends.
 */
export function simulated(name, trace, gapMs) {
  const toolGapMs = new Float64Array(new SharedArrayBuffer(8 * trace.calls)).fill(gapMs)
  return simulate({
    trace: { ...trace, columns: { ...trace.columns, toolGapMs } },
    cluster: CLUSTER,
    ...POLICIES[name].simulated,
    knowledge: 'online',
    feedback: 'lease',
    arrivals: 'trace',
    sloBase: 'template',
  })
}
