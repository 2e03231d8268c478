// The live scheduler under load: 64 instances, 10,000 calls waiting, from call() to done(), one thread. CPU time of this
// thread beside wall time: on a shared machine only the first says what the code costs.
import { Scheduler } from '../dist/index.js'
import { quantile, spread } from './measure.js'
import { dispatchTraffic, ringTraffic } from './performance/traffic.js'

const INSTANCES = 64
const WAITING = 10_000
/** Calls between two samples of the speed. */
const SAMPLE = 12_800
/** By policy: calls/s without and with signals, µs of a turn. */
const TARGETS = { 'hexgen-flow': [100_000, 60_000, 5], laxity: [100_000, 60_000, 20] }

/** A call's five events and its promise; a decide for `perDecide` calls. */
const callTraffic = (policy, perDecide, signals = 0) => [
  { crossings: 1 / perDecide, promises: 1, signals },
  ...ringTraffic(5),
  ...dispatchTraffic(INSTANCES, WAITING, policy === 'laxity' ? INSTANCES : 0),
]

function make(policy) {
  const kinds = ['a100', 'l40s'].map((gpu) => ({ gpu, count: INSTANCES / 2, maxSequences: 64 }))
  return new Scheduler({ policy, queueLimit: 0, cluster: { instances: kinds } })
}

/** Keeps WAITING calls waiting until `count` are done; calls `sample(done)` after each batch. */
async function drive(scheduler, count, signals, sample = () => {}) {
  const leases = []
  let opened = 0
  let done = 0
  const open = () => {
    opened += 1
    const workflow = scheduler.workflow(
      signals ? { sloMs: 60_000, signal: new AbortController().signal } : { sloMs: 60_000 },
    )
    workflow.call({ stage: 'a', promptTokens: 2000, outputTokens: 100 }).then(
      (lease) => leases.push({ lease, workflow }),
      () => {},
    )
  }
  for (let i = 0; i < Math.min(count, WAITING + INSTANCES * 2); i += 1) open()
  await null
  while (done < count) {
    const batch = leases.splice(0, 64)
    for (const { lease, workflow } of batch) {
      lease.firstToken()
      lease.done({ outputTokens: 100 })
      workflow.end()
      done += 1
      if (opened < count) open()
    }
    await null
    sample(done)
    if (batch.length === 0) await new Promise(setImmediate)
  }
}

async function measure(policy, count, rows) {
  for (const signals of [false, true]) {
    const scheduler = make(policy)
    const wall = performance.now()
    const heaps = []
    const speeds = []
    let from = 0
    let cpu = process.cpuUsage()
    await drive(scheduler, count, signals, (done) => {
      if (done - from < SAMPLE) return
      const { user, system } = process.cpuUsage(cpu)
      speeds.push((done - from) / ((user + system) / 1e6))
      if (!signals && (speeds.length === count / SAMPLE / 5 || done > count - 2 * SAMPLE)) {
        globalThis.gc?.()
        heaps.push(process.memoryUsage().heapUsed)
      }
      from = done
      cpu = process.cpuUsage()
    })
    const name = `${policy}, ${signals ? 'one AbortSignal per workflow' : 'no signals'}`
    rows.push({
      name,
      unit: 'calls/s of CPU',
      ...spread(speeds.slice(2)), // the first fill the queue
      target: TARGETS[policy][signals ? 1 : 0],
      traffic: callTraffic(policy, 64, signals ? 1 : 0),
      note: `${Math.round(count / ((performance.now() - wall) / 1000))} calls/s of wall time, ${count} calls`,
    })
    if (heaps.length >= 2 && globalThis.gc !== undefined)
      rows.push({
        name: `${policy}, heap from ${count / 5} calls to the end`,
        value: Math.round((heaps.at(-1) - heaps[0]) / 1024),
        unit: 'KiB',
        target: 1024,
      })
    await scheduler.close()
  }
  // One call per turn of the event loop: from done() and call() to the next lease.
  const scheduler = make(policy)
  const leases = []
  const open = () => {
    const workflow = scheduler.workflow({ sloMs: 60_000 })
    workflow.call({ stage: 'a', promptTokens: 2000, outputTokens: 100 }).then(
      (lease) => leases.push({ lease, workflow }),
      () => {},
    )
  }
  for (let i = 0; i < WAITING + INSTANCES * 2; i += 1) open()
  await null
  const times = []
  for (let i = 0; i < Math.min(count, 20_000); i += 1) {
    const { lease, workflow } = leases.shift()
    const started = performance.now()
    lease.firstToken()
    lease.done({ outputTokens: 100 })
    workflow.end()
    open()
    await null
    times.push((performance.now() - started) * 1000)
  }
  rows.push({
    name: `${policy}, one call per turn: a turn`,
    unit: 'µs',
    ...spread(times),
    target: TARGETS[policy][2],
    traffic: callTraffic(policy, 1),
    note: `p99 ${Math.round(quantile(times, 0.99) * 10) / 10} µs, 5 events`,
  })
  await scheduler.close()
}

export async function run(say, { quick }) {
  const rows = []
  const count = SAMPLE * (quick ? 10 : 40)
  for (const policy of Object.keys(TARGETS)) {
    say(policy)
    await measure(policy, count, rows)
  }
  return rows
}
