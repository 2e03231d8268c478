import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, code, instances, LATENCY, virtual, watch } from '../support/live.ts'
import { random } from '../support/runs.ts'

describe('the live log', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-live-'))
  })
  after(() => rm(folder, { recursive: true }))

  async function load(
    scheduler: Scheduler,
    clock: { advance(ms: number): Promise<void> },
    seed: number,
  ): Promise<Lease[]> {
    const next = random(seed)
    const leases: Lease[] = []
    for (let step = 0; step < 400; step += 1) {
      const workflow = scheduler.workflow({
        id: `w${Math.floor(next() * 20)}`,
        tenant: `t${step % 3}`,
        sloMs: 5_000,
      })
      void workflow
        .call({ id: `c${step}`, stage: `s${step % 4}`, promptTokens: 1 + Math.floor(next() * 500) })
        .then(
          (lease) => leases.push(lease),
          () => {},
        )
      if (step === 50)
        scheduler.addInstance({ id: 'late', latency: { ...LATENCY, decodeBaseMs: 3 }, kvTokens: 9_000 })
      if (step === 90) scheduler.addInstance({ url: 'http://plain:1' })
      if (step === 120) scheduler.setPolicy('hexgen-flow')
      if (step === 150) scheduler.failInstance('m0')
      if (step === 200) scheduler.restoreInstance('m0')
      if (step === 220) scheduler.setParameters({ alpha: 0.7, queueTimeoutMs: 900 })
      if (next() < 0.1) scheduler.telemetry('m1', { running: Math.floor(next() * 9) })
      while (leases.length > 6) {
        const lease = leases.splice(Math.floor(next() * leases.length), 1)[0]!
        lease.firstToken()
        if (next() < 0.15)
          void lease.failed({ status: 502 }).then(
            (again) => again !== null && leases.push(again),
            () => {},
          )
        else lease.done({ outputTokens: 1 + Math.floor(next() * 60) })
      }
      if (next() < 0.05) workflow.end()
      await clock.advance(next() * 40)
    }
    return leases
  }

  it('replays byte for byte, whatever happened', async () => {
    for (let seed = 1; seed <= 8; seed += 1) {
      const log = join(folder, `replay-${seed}.jsonl`)
      const { clock, scheduler } = virtual({
        cluster: instances(3),
        log,
        tieSeed: seed,
        parameters: { breakerOpenMs: 200 },
      })
      await load(scheduler, clock, seed)
      await scheduler.close()
      const result = await replayLog(log)
      assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
      assert.ok(result.decisions > 200, `${result.decisions}`)
    }
  })

  it('refuses to overwrite a log, and says so', async () => {
    const log = join(folder, 'once.jsonl')
    const { scheduler } = virtual({ log })
    assert.equal(await code(() => virtual({ log })), 'ERR_LAXITY_FILE')
    assert.equal(await code(() => virtual({ durable: true })), 'ERR_LAXITY_OPTION')
    await scheduler.close()
  })

  it('restores every lease, cancels what waited, and goes on', async () => {
    const log = join(folder, 'restore.jsonl')
    const options = { cluster: instances(3), log, parameters: { breakerOpenMs: 200, retryBackoffMs: 0 } }
    const first = virtual(options)
    const leases = await load(first.scheduler, first.clock, 11)
    await first.clock.advance(0)
    const open = leases.filter(({ closed }) => !closed)
    assert.ok(open.length > 3)
    await new Promise((resolve) => setTimeout(resolve, 50)) // the log is written
    // Half an instant and half a line more: nobody was told.
    await appendFile(log, '{"t":99999999999999,"kind":"timer"}\n{"t":1,"ki')

    const { clock } = virtual()
    const scheduler = await Scheduler.restore({ ...options, clock })
    const names = (list: { workflow: string; call: string; epoch: number }[]) =>
      list.map(({ workflow, call, epoch }) => `${workflow} ${call} ${epoch}`).sort()
    const detached = names(scheduler.detached)
    for (const { workflowId, id, epoch } of open)
      assert.ok(detached.includes(`${workflowId} ${id} ${epoch}`), id)
    assert.equal(scheduler.snapshot().queued, 0)
    assert.ok(scheduler.audit())
    for (const lease of open) {
      const mine = scheduler.attach(lease.id, lease.workflowId)
      assert.equal(mine.instance, lease.instance)
      assert.equal(await code(() => scheduler.attach(lease.id, lease.workflowId)), 'ERR_LAXITY_UNKNOWN')
      mine.done({ outputTokens: 3 })
    }
    // The rest is lost after its TTL; new work goes on meanwhile, under names that are still known.
    const again = watch(scheduler.workflow({ id: 'w1' }).call({ id: 'new', promptTokens: 10, parents: [] }))
    await clock.advance(0)
    again.value!.done()
    await clock.advance(600_001)
    await clock.advance(600_001)
    assert.equal(scheduler.detached.length, 0)
    for (const { workflowId } of open) scheduler.workflow({ id: workflowId }).end()
    await clock.advance(0)
    await scheduler.close()
    assertEmpty(scheduler)
    const result = await replayLog(log)
    assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
    assert.equal(
      await code(Scheduler.restore({ ...options, cluster: instances(2), clock })),
      'ERR_LAXITY_LOG',
    )
  })

  it('durable: after kill -9 at random points under load, every lease that was handed out is there again, once', async function () {
    this.timeout(300_000)
    const script = fileURLToPath(new URL('../support/durable-child.ts', import.meta.url))
    let restored = 0
    // At least 50 kills; on a slow machine more, until enough leases were open at a kill.
    for (let round = 0; round < 50 || (restored <= 100 && round < 200); round += 1) {
      const log = join(folder, `kill-${round}.jsonl`)
      const child = spawn(process.execPath, ['--import', 'tsx', script, log], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let text = ''
      child.stdout.on('data', (data: Buffer) => {
        text += data.toString()
      })
      const started = new Promise<void>((resolve) => child.stdout.once('data', () => resolve()))
      const exited = new Promise((resolve) => child.once('close', resolve))
      await started
      await new Promise((resolve) => setTimeout(resolve, 5 + ((round * 37) % 150)))
      child.kill('SIGKILL')
      await exited
      const open = new Map<string, string>()
      for (const line of text.split('\n').slice(0, -1)) {
        const [what, name, epoch] = line.split(' ')
        if (what === 'lease') {
          assert.ok(!open.has(`${name} ${epoch}`), 'at most one lease per call and epoch')
          open.set(`${name} ${epoch}`, name!)
        } else if (what === 'done') {
          open.delete(`${name} ${epoch}`)
        }
      }
      const scheduler = await Scheduler.restore({ cluster: instances(3), log, durable: true })
      const detached = new Set(scheduler.detached.map(({ call, epoch }) => `${call} ${epoch}`))
      for (const [key, name] of open) {
        assert.ok(detached.has(key), `round ${round}: ${key} is gone`)
        scheduler.attach(name).cancel()
        restored += 1
      }
      assert.ok(scheduler.audit())
      await scheduler.close()
      const result = await replayLog(log)
      assert.equal(result.matched, result.decisions)
      await rm(log)
    }
    assert.ok(restored > 100, `${restored}`)
  })

  it('is plain text with the names in it', async () => {
    const log = join(folder, 'plain.jsonl')
    const { scheduler } = virtual({ log })
    const workflow = scheduler.workflow({ id: 'chat', tenant: 'acme' })
    const cachedTokens = { m1: 4, m0: 3 }
    ;(await workflow.call({ id: 'first', stage: 'plan', promptTokens: 10, cachedTokens })).done()
    await scheduler.close()
    const lines = (await readFile(log, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(lines[0].laxity, 'log')
    const reveal = lines.find(({ kind }) => kind === 'reveal')
    assert.deepEqual([reveal.id, reveal.stageName, reveal.promptTokens], ['first', 'plan', 10])
    const caches = [0, 1].map((i) =>
      [`cachedOn${i}`, `cachedTokens${i}`, `cachedLoadUs${i}`].map((f) => reveal[f]),
    )
    assert.deepEqual(caches.sort(), [
      [0, 3, 0],
      [1, 4, 0],
    ])
  })
})
