// Deciding while a tuning sweep keeps a pool of threads busy: 200 calls wait on 10 + 10 instances of three kinds, policy
// `laxity` (HexAGenT's rule). Every turn is a first token that gives an instance credit: two or three events, a plan over all that wait,
// its leases handed out. A turn is decide and all around it, so an upper bound of decide. 1 ms apart, as in a server that sleeps in
// between; engines in virtual time; 5,000 turns a row. In the background: what pools beside a live scheduler do.
import { availableParallelism } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { chessTrace, Scheduler, sweep } from '../dist/index.js'
import { native } from '../dist/native.js'
import { planTraffic, ringTraffic } from './performance/traffic.js'

const WAITING = 200
const PROMPTS = [500, 1000, 2000, 4000]
const OUTPUTS = [40, 80, 160, 320]
const TARGET_MS = 1

/** About Llama-3.1-70B on A100, H100 and H200 (those of bench/planner.js). */
const KINDS = {
  a100: [0.165, 25.6, 0.16, 5.5e-6, 160_000, 3],
  h100: [0.062, 14.9, 0.09, 3.2e-6, 160_000, 4],
  h200: [0.059, 12.1, 0.07, 2.3e-6, 240_000, 3],
}
const CLUSTER = {
  latencies: Object.fromEntries(
    Object.entries(KINDS).map(
      ([name, [prefillPerTokenMs, decodeBaseMs, decodePerSequenceMs, decodePerContextMs]]) => [
        name,
        { kind: 'constants', prefillPerTokenMs, decodeBaseMs, decodePerSequenceMs, decodePerContextMs },
      ],
    ),
  ),
  instances: ['prefill', 'decode'].flatMap((role) =>
    Object.entries(KINDS).map(([latency, [, , , , kvTokens, count]]) => ({
      latency,
      role,
      count,
      kvTokens,
      kvBytesPerToken: 327_680,
    })),
  ),
}

/** The scheduler was closed. */
const ended = () => {}

/** A scheduler whose engines are a list of what happens next: prefills end one after the other, outputs in their own time. */
class Load {
  #nowMs = 0
  #calls = 0
  /** What happens, latest first. */
  #next = []
  #prefillFree = new Map()
  scheduler = new Scheduler({
    cluster: CLUSTER,
    clock: { now: () => this.#nowMs, setTimer: () => {}, clearTimer: () => {} },
  })

  reveal() {
    const i = this.#calls++
    const workflow = this.scheduler.workflow()
    const promptTokens = PROMPTS[i % PROMPTS.length]
    const outputTokens = OUTPUTS[(i >> 2) % OUTPUTS.length]
    const granted = (lease) => {
      const from = Math.max(this.#nowMs, this.#prefillFree.get(lease.prefill) ?? 0)
      const until = from + promptTokens * 0.1
      this.#prefillFree.set(lease.prefill, until)
      this.#at(until, () => {
        lease.firstToken()
        lease.admitted().then(admitted, ended)
        return true
      })
      const admitted = () => {
        lease.transferDone()
        this.#at(this.#nowMs + outputTokens * 20, () => {
          lease.done({ outputTokens })
          workflow.end()
          return false
        })
      }
    }
    workflow.call({ promptTokens, outputTokens }).then(granted, ended)
  }

  #at(ms, happen) {
    let i = this.#next.length
    while (i > 0 && this.#next[i - 1].ms <= ms) i -= 1
    this.#next.splice(i, 0, { ms, happen })
  }

  /** The next event; true where it was a first token. */
  happen() {
    const { ms, happen } = this.#next.pop()
    this.#nowMs = ms
    return happen()
  }

  get waiting() {
    return this.scheduler.snapshot().queued
  }
}

async function measure(turns) {
  const load = new Load()
  for (let i = 0; i < WAITING; i += 1) load.reveal()
  await null
  const wall = []
  const cpu = []
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  while (wall.length < turns) {
    while (load.waiting < WAITING) load.reveal()
    await null
    await new Promise((resolve) => setTimeout(resolve, 1))
    const started = performance.now()
    const cpuStarted = native.threadCpuMs()
    const plans = load.happen()
    await null
    const cpuMs = native.threadCpuMs() - cpuStarted
    const wallMs = performance.now() - started
    if (!plans) continue
    cpu.push(cpuMs)
    wall.push(wallMs)
  }
  delay.disable()
  // A turn without a lease would have had nothing to plan.
  const { leasesGranted } = load.scheduler.snapshot()
  if (leasesGranted < turns) throw new Error(`${leasesGranted} leases in ${turns} turns`)
  await load.scheduler.close()
  return { wall: wall.sort(ascending), cpu: cpu.sort(ascending), delay }
}

/** Keeps `workers` threads in sweeps while it works. */
async function underSweep(workers, background, work) {
  if (workers === 0) return work()
  const trace = await chessTrace({ workflows: 500, preset: 3, seed: 1 })
  const stop = new AbortController()
  let begun
  const busy = new Promise((resolve) => {
    begun = resolve
  })
  const sweeping = (async () => {
    while (!stop.signal.aborted)
      await sweep({
        trace,
        cluster: 'hexgen-hetero-2',
        replications: 500,
        workers,
        background,
        signal: stop.signal,
        onProgress: begun,
      })
  })().catch((error) => {
    if (!stop.signal.aborted) throw error
  })
  await Promise.race([busy, sweeping])
  const result = await work()
  stop.abort()
  await sweeping
  return result
}

const ascending = (a, b) => a - b
const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)]
const us = (ms) => Math.round(ms * 1000)

export async function run(say, { quick }) {
  const turns = quick ? 500 : 5_000
  const cores = availableParallelism()
  const rows = []
  const traffic = [{ crossings: 1, promises: 1 }, ...ringTraffic(3), ...planTraffic(WAITING, 10, 3)]
  await measure(500) // warms up
  for (const [workers, background] of [
    [0, true],
    [cores - 1, true],
    [cores - 1, false],
    [cores, true],
    [cores, false],
  ]) {
    const priority = background ? 'in the background' : 'at equal priority'
    const beside = workers === 0 ? 'no sweep' : `sweep on ${workers} of ${cores} cores ${priority}`
    say(`${beside} …`)
    const { wall, cpu, delay } = await underSweep(workers, background, () => measure(turns))
    const spread = (sorted) =>
      `p50 ${us(quantile(sorted, 0.5))}, p99.9 ${us(quantile(sorted, 0.999))}, max ${us(sorted.at(-1))} µs`
    rows.push(
      {
        name: `${beside}: turn, wall`,
        value: us(quantile(wall, 0.99)),
        unit: 'µs p99',
        ...(workers < cores && { target: TARGET_MS * 1000 }),
        traffic,
        note: spread(wall),
      },
      {
        name: `${beside}: turn, thread CPU`,
        value: us(quantile(cpu, 0.99)),
        unit: 'µs p99',
        target: TARGET_MS * 1000,
        traffic,
        note: spread(cpu),
      },
      {
        name: `${beside}: event-loop delay`,
        value: us(delay.percentile(99) / 1e6 - 1),
        unit: 'µs p99',
        note: `beyond its 1 ms timer; p50 ${us(delay.percentile(50) / 1e6 - 1)}, max ${us(delay.max / 1e6 - 1)} µs`,
      },
    )
  }
  return rows
}
