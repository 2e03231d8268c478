// The live scheduler under load: 64 instances, 10,000 calls waiting, from call() to done(), one thread. CPU time of this
// thread beside wall time: on a shared machine only the first says what the code costs.
import { Scheduler } from '../dist/index.js'

const INSTANCES = 64
const WAITING = 10_000
const calls = Number(process.env.LIVE_CALLS ?? 1_000_000)

function make(policy) {
  const kinds = ['a100', 'l40s'].map((gpu) => ({ gpu, count: INSTANCES / 2, maxSequences: 64 }))
  return new Scheduler({ policy, queueLimit: 0, cluster: { instances: kinds } })
}

/** Keeps WAITING calls waiting until `count` are done; calls `sample(done)` now and then. */
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
    if (done % 64 === 0) sample(done)
    if (batch.length === 0) await new Promise(setImmediate)
  }
}

function quantile(sorted, q) {
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)]
}

async function measure(policy, count, rows) {
  for (const signals of [false, true]) {
    const scheduler = make(policy)
    const wall = performance.now()
    const cpu = process.cpuUsage()
    const heaps = []
    await drive(scheduler, count, signals, (done) => {
      if (globalThis.gc === undefined || signals) return
      if (done === 200_000 || done === Math.min(count, 1_000_000) - 64 * 200) {
        globalThis.gc()
        heaps.push(process.memoryUsage().heapUsed)
      }
    })
    const { user, system } = process.cpuUsage(cpu)
    const name = `${policy}, ${signals ? 'one AbortSignal per workflow' : 'no signals'}`
    rows.push({
      name,
      value: Math.round(count / ((user + system) / 1e6)),
      unit: 'calls/s of CPU',
      note: `${Math.round(count / ((performance.now() - wall) / 1000))} calls/s of wall time, ${count} calls`,
    })
    if (heaps.length === 2)
      rows.push({
        name: `${policy}, heap from 200,000 calls to the end`,
        value: Math.round((heaps[1] - heaps[0]) / 1024),
        unit: 'KiB',
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
  times.sort((a, b) => a - b)
  rows.push({
    name: `${policy}, one call per turn: a turn`,
    value: Math.round(quantile(times, 0.5) * 10) / 10,
    unit: 'µs p50',
    note: `p99 ${Math.round(quantile(times, 0.99) * 10) / 10} µs, 5 events`,
  })
  await scheduler.close()
}

export async function run() {
  const rows = []
  await measure('hexgen-flow', calls, rows)
  await measure('laxity', calls, rows)
  return rows
}
