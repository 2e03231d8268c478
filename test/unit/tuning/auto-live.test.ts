import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ManualClock } from '../../../lib/scheduler/clock.ts'
import type { SchedulerOptions } from '../../../lib/scheduler/options.ts'
import { replayLog } from '../../../lib/scheduler/replay.ts'
import { Scheduler } from '../../../lib/scheduler/scheduler.ts'
import type { TuningEvent } from '../../../lib/tuning/auto-events.ts'
import { code, LATENCY, virtual } from '../../support/live.ts'
import { pairCluster } from '../../support/pair.ts'
import { random } from '../../support/runs.ts'

/** One fast instance and one at six times its times: with alpha 0 calls go where the queue is short. */
const CLUSTER = [
  { id: 'fast', latency: LATENCY, kvTokens: 100_000, maxSequences: 64 },
  {
    id: 'slow',
    latency: { kind: 'constants', prefillPerTokenMs: 0.6, decodeBaseMs: 60 },
    kvTokens: 100_000,
    maxSequences: 64,
  },
] as const

/** Workflows of two calls every 2 s or so, served as fast as their instance is, or `slower`. */
async function serveFor(
  scheduler: Scheduler,
  clock: ManualClock,
  seconds: number,
  seed: number,
  slower = () => 1,
): Promise<number> {
  const next = random(seed)
  let served = 0
  const later = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms))
  const one = async () => {
    const workflow = scheduler.workflow({ sloMs: 60_000 })
    for (let step = 0; step < 2; step += 1) {
      const outputTokens = 40 + Math.floor(next() * 40)
      const lease = await workflow.call({ promptTokens: 200, outputTokens })
      const factor = (lease.instance === 'fast' ? 1 : 6) * slower()
      await later(200 * 0.1 * factor)
      lease.firstToken()
      await later((outputTokens - 1) * 10 * factor)
      lease.done({ outputTokens })
    }
    workflow.end()
    served += 1
  }
  const until = clock.now() + seconds * 1000
  const all: Promise<void>[] = []
  while (clock.now() < until) {
    all.push(one())
    await clock.advance(500 + next() * 3000)
  }
  for (let i = 0; i < 200; i += 1) await clock.advance(1_000)
  await Promise.all(all)
  return served
}

/** Sweeps and files take real time while virtual time stands still. */
async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2_000 && !condition(); i += 1) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.ok(condition(), `never came true: ${condition}`)
}

describe('auto-tuning a live scheduler', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-tuned-'))
  })
  after(() => rm(folder, { recursive: true }))

  const start = (more: Partial<SchedulerOptions> = {}) => {
    const events: TuningEvent[] = []
    const warnings: Error[] = []
    const { clock, scheduler } = virtual({
      cluster: CLUSTER,
      policy: 'hexgen-flow',
      parameters: { alpha: 0 },
      autoTune: { replications: 4, calibrationRuns: 2 },
      ...more,
    })
    scheduler.on('tuned', (event) => events.push(event))
    scheduler.on('warning', (warning) => warnings.push(warning))
    return { clock, scheduler, events, warnings }
  }

  it('applies a better value as an event of the log, which replays', async () => {
    const log = join(folder, 'tuned.jsonl')
    const { clock, scheduler, events, warnings } = start({ log })
    await serveFor(scheduler, clock, 130, 1)
    await until(() => events.some(({ kind }) => kind !== 'trigger'))
    const applied = events.find(({ kind }) => kind === 'applied')
    assert.ok(applied !== undefined, JSON.stringify(events))
    assert.equal(applied.from, 0)
    assert.ok(applied.to > 0 && applied.gain >= 0.02 && applied.p <= 0.005)
    await serveFor(scheduler, clock, 30, 2)
    await scheduler.close({ drainMs: 1000 })
    assert.deepEqual(warnings, [])
    const result = await replayLog(log)
    assert.ok(result.decisions > 100)
    assert.equal(result.matched, result.decisions)
  })

  it('notices engines that became slower than predicted', async () => {
    const { clock, scheduler, events, warnings } = start({ parameters: { alpha: 0.5 } })
    await serveFor(scheduler, clock, 150, 3)
    const before = clock.now()
    assert.ok(!events.some(({ reason }) => reason === 'service-up'))
    await serveFor(scheduler, clock, 150, 4, () => 2)
    const alarm = events.find(({ reason }) => reason === 'service-up')
    assert.ok(alarm !== undefined, JSON.stringify(events))
    assert.ok(alarm.kind === 'trigger' && alarm.statistic > alarm.threshold)
    assert.ok(alarm.atMs <= before + 200_000)
    await scheduler.close()
    assert.deepEqual(warnings, [])
  })

  it('learned speeds and instances that are added do not stop it', async () => {
    const { clock, scheduler, events, warnings } = start({ cluster: [{ id: 'fast', url: 'http://a:1' }] })
    await serveFor(scheduler, clock, 60, 5)
    scheduler.addInstance({ id: 'slow', url: 'http://b:1' })
    await serveFor(scheduler, clock, 200, 6)
    await until(() => events.some(({ kind }) => kind !== 'trigger'))
    assert.ok(events.some(({ reason, instance }) => reason === 'instance' && instance === 1))
    await scheduler.close()
    assert.deepEqual(warnings, [])
  })

  it('continues after a restart: window, detectors, thresholds, value', async () => {
    const log = join(folder, 'restored.jsonl')
    const more = { log, parameters: { alpha: 0, leaseTtlMs: 600_000, retryBackoffMs: 0 } }
    const first = start(more)
    let served = await serveFor(first.scheduler, first.clock, 130, 1)
    await until(() => first.events.some(({ kind }) => kind === 'applied'))
    served += await serveFor(first.scheduler, first.clock, 60, 2)
    // A log that ends before its leases do would leave the engines with calls that nobody finishes.
    await until(() => readFileSync(log, 'utf8').split('"closeWorkflow"').length - 1 === served)
    const results = first.events.filter(({ kind }) => kind !== 'trigger').length
    await until(() => readFileSync(`${log}.tuner`, 'utf8').split('\n').length - 1 >= results)
    const alpha = first.events.findLast(({ kind }) => kind === 'applied')!.to
    // The process ends here: nothing is closed, and a line of the log is torn.
    const saved = join(folder, 'saved.jsonl')
    copyFileSync(log, saved)
    copyFileSync(`${log}.tuner`, `${saved}.tuner`)
    appendFileSync(saved, '{"kind":"open')
    const whole = readFileSync(`${saved}.tuner`, 'utf8')
    appendFileSync(`${saved}.tuner`, '{"after":1e9,"ns":5,"numbers":[]}\n{"af')

    const clock = new ManualClock(first.clock.now())
    const events: TuningEvent[] = []
    const warnings: Error[] = []
    const options = { cluster: CLUSTER, policy: 'hexgen-flow' as const, ...more, log: saved, clock }
    const autoTune = { replications: 4, calibrationRuns: 2 }
    const second = await Scheduler.restore({ ...options, autoTune })
    second.on('tuned', (event) => events.push(event))
    second.on('warning', (warning) => warnings.push(warning))
    assert.deepEqual(events, [], 'what was told before is not told again')
    // Engines get slower: the detector knows from before what they were like.
    await serveFor(second, clock, 150, 4, () => 2)
    const alarm = events.find(({ reason }) => reason === 'service-up')
    assert.ok(alarm !== undefined, JSON.stringify(events))
    assert.equal((alarm as TuningEvent).from, alpha, 'the value in force')
    assert.ok(!events.some(({ reason }) => reason === 'initial'), 'no second beginning')
    await until(() => events.some(({ kind }) => kind !== 'trigger'))
    await second.close({ drainMs: 1000 })
    assert.deepEqual(warnings, [])
    const now = readFileSync(`${saved}.tuner`, 'utf8')
    assert.ok(now.startsWith(whole) && now.length > whole.length && !now.includes('"after":1000000000'))
    const replayed = await replayLog(saved)
    assert.equal(replayed.matched, replayed.decisions)
    await first.scheduler.close()

    // And once more, from what the second one left.
    const third = await Scheduler.restore({ ...options, clock: new ManualClock(clock.now()), autoTune })
    await third.close()
  })

  it('tunes prefill-decode instances', async () => {
    const { clock, scheduler, events, warnings } = start({
      cluster: pairCluster(2, 2),
      policy: 'hexagent',
      parameters: {},
      autoTune: { parameter: 'ageingMs', values: [0, 1000], replications: 4, calibrationRuns: 2 },
    })
    const next = random(7)
    const later = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms))
    const one = async (slower: number) => {
      const workflow = scheduler.workflow({ sloMs: 60_000 })
      for (let step = 0; step < 2; step += 1) {
        const lease = await workflow.call({ promptTokens: 2000, outputTokens: 60 })
        await lease.admitted()
        await later(200)
        lease.firstToken()
        lease.transferDone()
        await later(59 * 10 * slower)
        lease.done({ outputTokens: 60 })
      }
      workflow.end()
    }
    const load = async (seconds: number, slower: number) => {
      const all: Promise<void>[] = []
      for (const end = clock.now() + seconds * 1000; clock.now() < end; ) {
        all.push(one(slower))
        await clock.advance(500 + next() * 2000)
      }
      for (let i = 0; i < 100; i += 1) await clock.advance(1_000)
      await Promise.all(all)
    }
    await load(140, 1)
    await until(() => events.some(({ kind }) => kind !== 'trigger'))
    assert.ok(!events.some(({ reason }) => reason.startsWith('service')), JSON.stringify(events))
    await load(140, 2)
    const alarm = events.find(({ reason }) => reason === 'service-up')
    assert.ok(alarm !== undefined && alarm.instance! >= 2, 'the decode instances are slower')
    await scheduler.close()
    assert.deepEqual(warnings, [])
  })

  it('declines options that make no sense', async () => {
    assert.equal(await code(() => start({ autoTune: { parameter: 'alhpa' } })), 'ERR_LAXITY_OPTION')
    assert.equal(await code(() => start({ autoTune: { replications: 1 } })), 'ERR_LAXITY_OPTION')
    assert.equal(await code(() => start({ autoTune: 3 as never })), 'ERR_LAXITY_OPTION')
  })
})
