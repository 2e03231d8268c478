// The scripted scenario: what a cluster may see in one afternoon. Instances 0 and 1 are A100, 2 an A6000, 3 an L40S.
import { generateWorkload } from '../../dist/index.js'
import { random } from '../quality/random.js'
import { streamOf } from './seeds.js'

export const CLUSTER = 'hexgen-hetero-2'
export const POLICY = { order: 'urgency', placement: 'workload-balanced' }

/** `state`: steps in front of the phase's first arrival, which a replay of the phase alone begins with. */
export const PHASES = [
  { name: 'night', seconds: 900, rate: 0.3, workload: 'chess:1', steps: [] },
  { name: 'day', seconds: 1200, rate: 0.8, workload: 'chess:1', steps: [] },
  { name: 'burst', seconds: 300, rate: 1.3, workload: 'chess:1', steps: [] },
  { name: 'evening', seconds: 900, rate: 0.5, workload: 'chess:1', steps: [] },
  {
    name: 'instance lost',
    seconds: 900,
    rate: 0.5,
    workload: 'chess:1',
    steps: [{ instance: 0, kind: 'down' }],
    state: [{ instance: 0, kind: 'down' }],
  },
  {
    name: 'returned, other mix',
    seconds: 1200,
    rate: 0.6,
    workload: 'chess:3',
    steps: [{ instance: 0, kind: 'up' }],
  },
  {
    name: 'one slowed down',
    seconds: 900,
    rate: 0.4,
    workload: 'chess:1',
    steps: [{ instance: 1, kind: 'speed', factor: 2 }],
    state: [{ instance: 1, kind: 'speed', factor: 2 }],
  },
]

function shared(Kind, values) {
  const column = new Kind(new SharedArrayBuffer(values.length * Kind.BYTES_PER_ELEMENT))
  column.set(values)
  return column
}

/** Poisson arrivals of one phase, ms from its beginning. */
function arrivals({ seconds, rate }, seed) {
  const r = random(seed)
  const times = []
  const gap = () => -Math.log(1 - r.uniform(0, 1)) / rate
  for (let t = gap(); t < seconds; t += gap()) times.push(t * 1000)
  return times
}

/** The phases one after the other, with recorded arrivals, and the script; the streams of the first are number `first`. */
export async function build(phases, seed, first = 0) {
  const columns = {
    firstCall: [0],
    parentOffset: [0],
    parents: [],
    stage: [],
    promptTokens: [],
    outputTokens: [],
  }
  const arrivalMs = []
  const phaseOf = []
  const script = []
  let shape
  let startMs = 0
  for (const [p, phase] of phases.entries()) {
    const times = arrivals(phase, streamOf(seed, first + p))
    const table = await generateWorkload(phase.workload, {
      workflows: times.length,
      seed: streamOf(seed, first + p),
    })
    shape ??= table
    const calls = columns.stage.length
    const edges = columns.parents.length
    for (const call of table.columns.firstCall.subarray(1)) columns.firstCall.push(calls + call)
    for (const edge of table.columns.parentOffset.subarray(1)) columns.parentOffset.push(edges + edge)
    for (const name of ['parents', 'stage', 'promptTokens', 'outputTokens'])
      for (const value of table.columns[name]) columns[name].push(value)
    for (const t of times) {
      arrivalMs.push(startMs + t)
      phaseOf.push(p)
    }
    for (const step of phase.steps) script.push({ atMs: startMs, ...step })
    startMs += phase.seconds * 1000
  }
  const trace = {
    ...shape,
    source: 'scenario',
    workflows: arrivalMs.length,
    calls: columns.stage.length,
    columns: {
      firstCall: shared(Uint32Array, columns.firstCall),
      parentOffset: shared(Uint32Array, columns.parentOffset),
      parents: shared(Uint32Array, columns.parents),
      stage: shared(Uint16Array, columns.stage),
      promptTokens: shared(Uint32Array, columns.promptTokens),
      outputTokens: shared(Uint32Array, columns.outputTokens),
      arrivalMs: shared(Float64Array, arrivalMs),
    },
  }
  return { trace, phaseOf, script, endMs: startMs }
}

/** Where each phase begins, ms. */
export function starts(phases) {
  let startMs = 0
  return phases.map(({ seconds }) => {
    const at = startMs
    startMs += seconds * 1000
    return at
  })
}
