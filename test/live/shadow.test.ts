import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { simulate } from '../../lib/index.ts'
import { native } from '../../lib/native.ts'
import { readLog, writeLog } from '../../lib/scheduler/log.ts'
import { loggedWorkload } from '../../lib/scheduler/logged-workload.ts'
import { shadowLog } from '../../lib/scheduler/shadow.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { code, instances, LATENCY, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'
import { random } from '../support/runs.ts'
import { laxity } from '../unit/cli/shared.ts'

describe('shadow runs of a live log', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-shadow-'))
  })
  after(() => rm(folder, { recursive: true }))

  it('read the work from the log: arrivals, graph, true lengths, tool gaps, the last deadline', async () => {
    const log = join(folder, 'work.jsonl')
    const { clock, scheduler } = virtual({ cluster: instances(2), log })
    await clock.advance(100)
    const workflow = scheduler.workflow({ tenant: 'a', sloMs: 5_000 })
    await clock.advance(7)
    const root = await workflow.call({ promptTokens: 50, outputTokens: 10 })
    root.firstToken()
    await clock.advance(40)
    root.done({ outputTokens: 23 })
    await clock.advance(30) // two tools
    const [left, right] = await Promise.all([
      workflow.call({ promptTokens: 60, outputTokens: 5 }),
      workflow.call({ promptTokens: 70, outputTokens: 5, parents: [root] }),
    ])
    // Revealed before its parents are over.
    const join_ = workflow.call({ promptTokens: 80, outputTokens: 9, parents: [left!, right!] })
    await clock.advance(10)
    left!.done({ outputTokens: 4 })
    await clock.advance(10)
    right!.done() // tells no length
    workflow.update({ sloMs: 9_000 })
    const last = await join_
    last.done({ outputTokens: 8 })
    workflow.end()
    const other = scheduler.workflow()
    const cancelled = await other.call({ promptTokens: 30, outputTokens: 6 })
    cancelled.cancel()
    scheduler.drainInstance('m1')
    await clock.advance(0)
    await scheduler.close()
    const { columns, assumed, recordedMs, deadlineMs, cluster } = loggedWorkload(await readLog(log), log)
    assert.deepEqual([...columns.firstCall], [0, 4, 5])
    assert.deepEqual([...columns.arrivalMs!], [0, 97])
    assert.deepEqual([...columns.promptTokens], [50, 60, 70, 80, 30])
    assert.deepEqual([...columns.outputTokens], [23, 4, 5, 8, 6])
    assert.deepEqual([...columns.predictedTokens!], [10, 5, 5, 9, 6])
    assert.deepEqual([...columns.toolGapMs!], [7, 30, 30, 0, 0])
    assert.deepEqual([...columns.parentOffset], [0, 0, 1, 2, 4, 4])
    assert.deepEqual([...columns.parents], [0, 0, 1, 2])
    assert.deepEqual([...recordedMs], [97, Number.NaN])
    assert.deepEqual([...deadlineMs], [9_097, Number.NaN])
    assert.deepEqual(assumed, { lengths: 2, instanceChanges: 1, deadlineChanges: 1, parallelSamples: 0 })
    assert.equal(cluster.instances.length, 2)
  })

  it('run it under its own policy and another one, and say what is simulated', async () => {
    const log = join(folder, 'policies.jsonl')
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1, latency: LATENCY }),
      lookahead: 0,
      policy: { order: 'fcfs', placement: 'round-robin' },
      log,
    })
    const next = random(3)
    // An engine of its own: serves one lease after the other, at the latency that the scheduler believes in.
    const engine = async (
      workflow: import('../../lib/index.ts').Workflow,
      promptTokens: number,
      output: number,
    ) => {
      const lease = await workflow.call({ promptTokens, outputTokens: output })
      await new Promise<void>((resolve) => clock.setTimer(resolve, promptTokens / 10))
      lease.firstToken()
      await new Promise<void>((resolve) => clock.setTimer(resolve, (output - 1) * 10))
      lease.done({ outputTokens: output })
      workflow.end()
    }
    const all: Promise<void>[] = []
    for (let i = 0; i < 120; i += 1) {
      const tight = i % 4 === 0
      const workflow = scheduler.workflow({ sloMs: tight ? 1_500 : 30_000 })
      all.push(engine(workflow, 100 + Math.floor(next() * 400), tight ? 5 : 40))
      await clock.advance(next() * 560)
    }
    for (let i = 0; i < 400; i += 1) await clock.advance(100)
    await Promise.all(all)
    await scheduler.close()
    const result = await shadowLog(log, { order: 'edf', placement: 'round-robin' })
    const { recorded, own, other } = result
    assert.deepEqual([recorded.simulated, own.simulated, other.simulated], [false, true, true])
    assert.equal(recorded.completed, 120)
    assert.equal(own.policy, 'fcfs x round-robin x at-reveal')
    // The recorded engine kept to the latency model, so its simulation under the same policy is the recording.
    for (const name of ['meanMs', 'p50Ms', 'p95Ms', 'p99Ms', 'attainment'] as const)
      assert.ok(
        Math.abs(own[name] - recorded[name]) <= 1e-3 * recorded[name],
        `${name}: ${own[name]} ${recorded[name]}`,
      )
    assert.ok(other.attainment > own.attainment + 0.05, `${other.attainment} ${own.attainment}`)
    assert.match(result.fromLog, /tool gaps/)
    assert.match(result.fromSimulator, /all times/)
    assert.equal(result.assumed.lengths, 0)
    // Twice the same.
    assert.deepEqual(await shadowLog(log, { order: 'edf', placement: 'round-robin' }), result)
  })

  it('run prefill-decode logs on both roles, with the links between them', async () => {
    const log = join(folder, 'pairs.jsonl')
    const { clock, scheduler } = virtual({
      cluster: pairCluster(1, 1, { d: { maxSequences: 1 } }),
      lookahead: 0,
      policy: { order: 'fcfs', placement: 'least-loaded' },
      log,
    })
    const next = random(5)
    const after = (ms: number) => new Promise<void>((resolve) => clock.setTimer(resolve, ms))
    // Engines that keep to the latency model: p serves one prompt after the other, d one call after the other.
    const serve = async (workflow: import('../../lib/index.ts').Workflow, prompt: number, output: number) => {
      const lease = await workflow.call({ promptTokens: prompt, outputTokens: output })
      await after(prompt / 10)
      lease.firstToken()
      await lease.admitted()
      await after(prompt / 1_000)
      lease.transferDone()
      await after((output - 1) * 10)
      lease.done({ outputTokens: output })
      workflow.end()
    }
    const all: Promise<void>[] = []
    for (let i = 0; i < 120; i += 1) {
      const tight = i % 4 === 0
      const workflow = scheduler.workflow({ sloMs: tight ? 1_500 : 30_000 })
      all.push(serve(workflow, 100 + Math.floor(next() * 400), tight ? 5 : 40))
      await clock.advance(next() * 500)
    }
    for (let i = 0; i < 400; i += 1) await clock.advance(100)
    await Promise.all(all)
    await scheduler.close()
    const { recorded, own, other, assumed } = await shadowLog(log, {
      order: 'edf',
      placement: 'least-loaded',
    })
    assert.deepEqual([recorded.completed, own.completed, other.completed], [120, 120, 120])
    for (const name of ['meanMs', 'p50Ms', 'p95Ms', 'p99Ms', 'attainment'] as const)
      assert.ok(
        Math.abs(own[name] - recorded[name]) <= 1e-3 * recorded[name],
        `${name}: ${own[name]} ${recorded[name]}`,
      )
    assert.ok(other.attainment > own.attainment + 0.05, `${other.attainment} ${own.attainment}`)
    assert.equal(assumed.lengths, 0)
    // Every policy of pairs, by name and by parts; none of the unified ones.
    for (const policy of ['laxity', 'hexagent'] as const)
      assert.equal((await shadowLog(log, policy)).other.completed, 120)
    for (const placement of native.pairPlacements)
      assert.equal((await shadowLog(log, { order: 'srpt', placement })).other.completed, 120)
    assert.equal(await code(shadowLog(log, 'hexgen-flow')), 'ERR_LAXITY_OPTION')
    const { status, stdout } = await laxity('replay', log, '--policy', 'edf/least-loaded')
    assert.equal(status, 0)
    assert.match(stdout, /edf x least-loaded x at-reveal +simulated +120\/120/)
  })

  it('are a command', async () => {
    const log = join(folder, 'policies.jsonl')
    const { status, stdout } = await laxity('replay', log, '--policy', 'edf/round-robin')
    assert.equal(status, 0)
    const lines = stdout.split('\n')
    assert.match(lines[1]!, /^fcfs x round-robin x at-reveal +recorded +120\/120/)
    assert.match(lines[2]!, /^fcfs x round-robin x at-reveal +simulated +120\/120/)
    assert.match(lines[3]!, /^edf x round-robin x at-reveal +simulated +120\/120/)
    assert.match(stdout, /From the log: arrivals.*\nSimulated: engines/)
    const json = JSON.parse((await laxity('replay', log, '--policy', 'hexgen-flow', '--json')).stdout)
    assert.deepEqual([json.command, json.policy, json.other.simulated], ['replay', 'hexgen-flow', true])
    const wrong = await laxity('replay', log, '--policy', 'best')
    assert.notEqual(wrong.status, 0)
    assert.match(wrong.stderr, /Unknown policy "best"/)
  })

  it('refuse other logs and policies that are none', async () => {
    const trace = await chessTrace({ preset: 1, workflows: 5, seed: 1 })
    const result = await simulate({ trace, cluster: 'hexgen-hetero-1', rate: 1, log: true })
    const path = join(folder, 'simulated.jsonl')
    await writeLog(path, result.logHeader!, result.log!)
    assert.equal(await code(shadowLog(path, 'vllm')), 'ERR_LAXITY_LOG')
    const live = join(folder, 'empty.jsonl')
    const { scheduler } = virtual({ log: live })
    await scheduler.close()
    assert.equal(await code(shadowLog(live, 'vllm')), 'ERR_LAXITY_EMPTY')
    assert.equal(await code(shadowLog(live, 'none')), 'ERR_LAXITY_OPTION')
    assert.equal(await code(shadowLog(join(folder, 'missing'), 'vllm')), 'ERR_LAXITY_FILE')
  })
})
