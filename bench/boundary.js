// What crossing into native code costs: empty calls, objects, columns; events through the ring, one decide per batch. Wall time
// by benchmark.js.
import Benchmark from 'benchmark'
import { native } from '../dist/native.js'
import { RingScheduler } from '../dist/scheduler/ring.js'
import { spread } from './measure.js'
import { dispatchTraffic, ringTraffic } from './performance/traffic.js'

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
      decodeShare: 0,
      maxSequences: 256,
      chunkTokens: 0,
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
  if (ring.refusals.length > 0) throw new Error('The scheduler refused an event')
}

export async function run(say, { quick }) {
  const rows = []
  const suite = new Benchmark.Suite()
  const options = { maxTime: quick ? 0.2 : 2 }
  const traffics = new Map()
  const add = (name, traffic, work) => {
    traffics.set(name, traffic)
    suite.add(name, work, options)
  }
  const { empty, sixIn, columnIn, eightOut } = native.crossings
  const column = new Float64Array(6)
  let n = 0
  const bump = (x) => x + 1
  add('a call in JavaScript', undefined, () => {
    n = bump(n)
  })
  add('empty call into native code', undefined, () => empty())
  add('an object of six numbers in', [{ crossings: 1, sixes: 1 }], () =>
    sixIn({ a: ++n, b: 2, c: 3, d: 4, e: 5, f: 6 }),
  )
  add('six numbers in a Float64Array in', [{ crossings: 1, sixes: 1 }], () => {
    column[0] = ++n
    return columnIn(column)
  })
  add('an object of eight numbers out', [{ crossings: 1, bytes: 64 }], () => eightOut())
  const timerRing = scheduler()
  let timerT = 1
  add('timer event + decide', [{ crossings: 1 }, ...ringTraffic(1)], () => {
    timerRing.push({ t: timerT, kind: 'timer' })
    timerRing.decide()
    timerT += 1
  })
  const batchRing = scheduler()
  let batchT = 1
  add('64 timer events + decide', [{ crossings: 1 }, ...ringTraffic(64)], () => {
    for (let i = 0; i < 64; i += 1) batchRing.push({ t: batchT, kind: 'timer' })
    batchRing.decide()
    batchT += 1
  })
  const lifeRing = scheduler()
  let generation = 1
  add(
    'one call from openWorkflow to closeWorkflow (5 events, 2 decides)',
    [{ crossings: 2 }, ...ringTraffic(5), ...dispatchTraffic(8, 0)],
    () => {
      lifecycle(lifeRing, generation, generation)
      generation += 1
    },
  )
  suite.on('cycle', ({ target }) => {
    if (target.error) throw target.error
    say(target.name)
    rows.push({
      name: target.name,
      unit: 'ns',
      ...spread(target.stats.sample, (s) => s * 1e9),
      traffic: traffics.get(target.name),
    })
  })
  suite.run()
  return rows
}
