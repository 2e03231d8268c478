// What crossing into native code costs: events through the ring, one decide per batch. Wall time by benchmark.js.
import Benchmark from 'benchmark'
import { RingScheduler } from '../dist/scheduler/ring.js'

function scheduler() {
  const ring = new RingScheduler({
    latencies: [
      {
        kind: 'constants',
        prefillBaseMs: 0,
        prefillPerTokenMs: 0.03,
        decodeBaseMs: 40,
        decodePerSequenceMs: 0.1,
        decodePerContextMs: 0,
      },
    ],
    templates: [],
    order: 'urgency',
    placement: 'workload-balanced',
    binding: 'at-reveal',
    feedback: 'lease',
    lookahead: 1,
    knowledge: 'online',
    parameters: {},
    tieSeed: 0,
    compat: 'none',
  })
  for (let instance = 0; instance < 8; instance += 1) {
    ring.push({
      t: 0,
      kind: 'instance',
      instance,
      change: 0,
      role: 0,
      mode: 0,
      model: 0,
      latency: 0,
      maxSequences: 256,
      kvTokens: 1_000_000,
    })
  }
  ring.decide()
  return ring
}

/** One whole call: workflow opened, call revealed, leased, first token, finished, workflow closed. */
function lifecycle(ring, generation, t) {
  const call = { call: 0, callGeneration: generation, epoch: 0 }
  const workflow = { workflow: 0, workflowGeneration: generation }
  ring.push({
    t,
    kind: 'openWorkflow',
    ...workflow,
    tenant: 0,
    stageTemplate: -1,
    deadline: t + 1e10,
    remaining: -1,
  })
  ring.push({
    t,
    kind: 'reveal',
    call: 0,
    callGeneration: generation,
    ...workflow,
    stage: 0,
    model: 0,
    sequences: 1,
    frontier: 0,
    toolPending: 0,
    silent: 0,
    promptTokens: 1000,
    predictedTokens: 100,
    predictedHigh: 100,
    cachedOn0: 0xffffffff,
    cachedTokens0: 0,
    cachedOn1: 0xffffffff,
    cachedTokens1: 0,
    remaining: -1,
    parents: [],
  })
  ring.decide()
  ring.push({ t, kind: 'firstToken', ...call })
  ring.push({ t, kind: 'finished', ...call, outputTokens: 100 })
  ring.push({ t, kind: 'closeWorkflow', ...workflow })
  ring.decide()
}

export async function run() {
  const rows = []
  const suite = new Benchmark.Suite()
  const timerRing = scheduler()
  let timerT = 1
  const lifeRing = scheduler()
  let generation = 1
  suite.add('timer event + decide', () => {
    timerRing.push({ t: timerT, kind: 'timer' })
    timerRing.decide()
    timerT += 1
  })
  suite.add('one call from openWorkflow to closeWorkflow (5 events, 2 decides)', () => {
    lifecycle(lifeRing, generation, generation)
    generation += 1
  })
  suite.on('cycle', ({ target }) => {
    rows.push({
      name: target.name,
      value: Math.round(1e9 / target.hz),
      unit: 'ns',
      note: `±${target.stats.rme.toFixed(1)} %`,
    })
  })
  suite.run()
  return rows
}
