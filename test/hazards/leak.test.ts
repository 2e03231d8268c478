import assert from 'node:assert/strict'
import { type NativeSimulator, native } from '../../lib/native.ts'
import type { PlacementFunction } from '../../lib/scheduler/placement.ts'
import { collect, LONG } from '../support/addon.ts'
import { assertEmpty, instances, virtual } from '../support/live.ts'
import { policy, runOptions, scenario, simulator } from '../support/runs.ts'

/** Fifths of the work: memory may grow in the first, while tables find their size, and not from then on. */
const FIFTHS = 5
/** What the allocators of V8 and libc keep, over any length of run. */
const SLACK = 12 * 2 ** 20

/** Garbage is collected so often per fifth: when V8 itself comes to it varies by tens of megabytes. */
const COLLECTIONS = LONG ? 50 : 8

/** Node ends native objects that were collected only between turns of the event loop. */
async function collectAll(): Promise<void> {
  collect()
  await new Promise((resolve) => setImmediate(resolve))
}

async function flat(units: number, work: (unit: number) => void | Promise<void>): Promise<void> {
  const levels: number[] = []
  for (let fifth = 0; fifth < FIFTHS; fifth += 1) {
    for (let unit = 0; unit < units / FIFTHS; unit += 1) {
      await work(unit)
      if (unit % Math.ceil(units / FIFTHS / COLLECTIONS) === 0) await collectAll()
    }
    for (let i = 0; i < 3; i += 1) await collectAll()
    levels.push(process.memoryUsage().rss)
  }
  const growth = levels[FIFTHS - 1]! - levels[0]!
  const megabytes = levels.map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(', ')
  if (LONG) console.log(`      RSS in MiB after each fifth: ${megabytes}`)
  assert.ok(growth < SLACK, `RSS in MiB after each fifth: ${megabytes}`)
}

/** RSS stays where it is over 10^7 calls of each kind (`npm run hazards:long`); here over fewer. */
describe('hazard: leaks', function () {
  this.timeout(LONG ? 0 : 240_000)

  it('of scheduled calls, from `call` to `done`', async () => {
    const total = LONG ? 10_000_000 : 100_000
    const { clock, scheduler } = virtual({ cluster: instances(4, { maxSequences: 32 }) })
    await flat(total / 50, async (unit) => {
      const workflow = scheduler.workflow({ id: `w${unit}`, tenant: `t${unit % 3}`, sloMs: 1e5 })
      const calls = Array.from({ length: 50 }, async (_, i) => {
        const options = { id: `c${i}`, stage: `s${i % 4}`, promptTokens: 10 + i, parents: [] }
        const lease = await workflow.call(options)
        lease.firstToken()
        lease.done({ outputTokens: 3 })
      })
      await Promise.all(calls)
      workflow.end()
      await clock.advance(1)
    })
    assertEmpty(scheduler)
  })

  it('of simulated calls', async () => {
    const calls = LONG ? 10_000_000 : 400_000
    const built = Array.from({ length: 20 }, (_, seed) => simulator(scenario(seed + 1)))
    const perRound = built.reduce((sum, one) => sum + one.run(runOptions(), {}).calls, 0)
    await flat(calls / perRound, (round) => {
      for (const [seed, one] of built.entries()) one.run(runOptions(policy(round + seed)), {})
    })
  })

  it('of simulators, traces and logs that are dropped', async () => {
    const rounds = LONG ? 50_000 : 1_500
    await flat(rounds, (round) => {
      const one: NativeSimulator = simulator(scenario((round % 40) + 1))
      one.record(runOptions(policy(round)), {})
    })
  })

  it('of schedulers that are dropped in mid-work', async () => {
    const { run, cluster, log } = (() => {
      const run = runOptions({ ...policy(2), feedback: 'lease' })
      const input = scenario(2)
      return { run, cluster: input.cluster, log: simulator(input).record(run, {}).log }
    })()
    const { latencies, templates } = cluster
    const { recordBytes } = native.eventLayout
    const half = log.subarray(0, Math.floor(log.length / recordBytes / 2) * recordBytes)
    await flat(LONG ? 100_000 : 3_000, () => {
      const ring = new Uint8Array(new SharedArrayBuffer(2 * recordBytes))
      const one = new native.Scheduler({ ...run, latencies, templates }, ring)
      one.setLogging(true)
      one.applyLog(half)
    })
  })

  it('of calls of a placement, and of its failures', async () => {
    const calls = LONG ? 10_000_000 : 100_000
    const input = scenario(8)
    const built = simulator(input)
    const total = input.columns.promptTokens.length
    await flat(calls / total, (round) => {
      let asked = 0
      const placement: PlacementFunction = ({ candidates }) => {
        asked += 1
        if (round % 10 === 0 && asked === 5) throw new Error('now and then')
        return candidates[0]!.instance
      }
      built.run(runOptions({ placement }), {})
    })
  })

  it('of refused input', async () => {
    const { columns, cluster } = scenario(1)
    const bad = { ...columns, promptTokens: new Uint32Array(columns.promptTokens.length) }
    await flat(LONG ? 2_000_000 : 40_000, () => {
      assert.notEqual(new native.Trace(bad).status, 0)
      assert.throws(() => new native.Trace({} as never))
      assert.throws(
        () => new native.Simulator(new native.Trace(columns), { ...cluster, instances: 5 } as never),
      )
    })
  })
})
