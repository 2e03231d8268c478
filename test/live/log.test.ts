import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
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

  it('is needed for a restore, with a TTL for its leases, and must be one of a live scheduler', async () => {
    const refused = async (options: object, code: string, place: string, message: RegExp) =>
      assert.rejects(Scheduler.restore({ cluster: instances(1), ...options } as never), {
        code,
        place,
        message,
      })
    await refused({}, 'ERR_LAXITY_OPTION', 'options', /Expected a `log`/)
    await refused(
      { log: join(folder, 'x'), leaseTtlMs: 0 },
      'ERR_LAXITY_OPTION',
      'options',
      /`leaseTtlMs` above 0/,
    )
    await refused({ log: folder }, 'ERR_LAXITY_FILE', folder, /EISDIR/)
    const log = join(folder, 'header.log')
    await new Scheduler({ cluster: instances(1), log }).close()
    const [first, ...rest] = (await readFile(log, 'utf8')).split('\n')
    const header = JSON.parse(first!)
    for (const [change, message] of [
      [{ live: undefined }, /Not the log of a live scheduler/],
      [{ live: null }, /Not the log of a live scheduler/],
      [{ live: { ...header.live, wallMs: '5' } }, /Not the log of a live scheduler/],
      [{ version: 2 }, /Expected a log of version 1/],
    ] as const) {
      await writeFile(log, [JSON.stringify({ ...header, ...change }), ...rest].join('\n'))
      await refused({ log }, 'ERR_LAXITY_LOG', `${log}:1`, message)
    }
    await writeFile(log, `${first}\n[1]\n`)
    await refused({ log }, 'ERR_LAXITY_SYNTAX', `${log}:2`, /Expected one JSON object/)
    await writeFile(log, [first, ...rest].join('\n'))
    await mkdir(`${log}.tuner`)
    await refused({ log, autoTune: true }, 'ERR_LAXITY_FILE', `${log}.tuner`, /Cannot read/)
    await (await Scheduler.restore({ cluster: instances(1), log })).close()
  })

  it('begins anew where the process died before its first instant was on disk, and only there', async () => {
    const log = join(folder, 'early.jsonl')
    const options = { cluster: instances(3), log, parameters: { retryBackoffMs: 0 } }
    const first = virtual(options)
    await first.scheduler.close()
    const [header] = (await readFile(log, 'utf8')).split('\n')
    for (const left of [
      '',
      header!.slice(0, 9),
      header!.slice(0, 100),
      `${header}\n`,
      `${header}\n{"t":0,"ki`,
    ]) {
      await writeFile(log, left)
      const { clock } = virtual()
      const scheduler = await Scheduler.restore({ ...options, clock })
      assert.deepEqual(scheduler.detached, [])
      const granted = watch(scheduler.workflow().call({ promptTokens: 10 }))
      await clock.advance(0)
      granted.value!.done()
      await scheduler.close()
      const result = await replayLog(log)
      assert.deepEqual(result, { decisions: 1, matched: 1 })
    }
    for (const other of ['notes', '{"laxity":"report"', '{}\n']) {
      await writeFile(log, other)
      assert.equal(await code(Scheduler.restore({ ...options, clock: virtual().clock })), 'ERR_LAXITY_LOG')
      assert.equal(await readFile(log, 'utf8'), other)
    }
  })

  it('durable: after kill -9 at random points under load, every lease that was handed out is there again, once', async function () {
    this.timeout(600_000)
    const script = fileURLToPath(new URL('../support/durable-child.ts', import.meta.url))
    const next = random(9)
    let restored = 0
    let resubmitted = 0
    // At least 50 kills; on a slow machine more, until enough leases were open at a kill.
    for (let round = 0; round < 50 || (restored <= 100 && round < 200); round += 1) {
      const log = join(folder, `kill-${round}.jsonl`)
      const child = spawn(process.execPath, ['--import', 'tsx', script, log], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      // Every fourth from the first call on, perhaps before anything is on disk; the others once leases are handed out.
      const sign = round % 4 === 0 ? 'call' : 'lease'
      let text = ''
      const started = new Promise<void>((resolve) =>
        child.stdout.on('data', (data: Buffer) => {
          text += data.toString()
          if (text.includes(sign)) resolve()
        }),
      )
      const exited = new Promise((resolve) => child.once('close', resolve))
      await started
      await new Promise((resolve) => setTimeout(resolve, next() * 160))
      child.kill('SIGKILL')
      await exited

      // What the process was told until it died.
      const handedOut = new Set<string>()
      const open = new Set<string>()
      const unresolved = new Set<string>()
      for (const line of text.split('\n').slice(0, -1)) {
        const [what, workflow, call, epoch] = line.split(' ')
        const lease = `${workflow} ${call} ${epoch}`
        if (what === 'call') unresolved.add(`${workflow} ${call}`)
        if (what === 'lease') {
          assert.ok(!handedOut.has(lease), `round ${round}: ${lease} was handed out twice`)
          handedOut.add(lease)
          open.add(lease)
          unresolved.delete(`${workflow} ${call}`)
        }
        if (what === 'done') open.delete(lease)
      }

      const scheduler = await Scheduler.restore({ cluster: instances(3), log, durable: true })
      const detached = new Set(
        scheduler.detached.map(({ workflow, call, epoch }) => `${workflow} ${call} ${epoch}`),
      )
      assert.equal(detached.size, scheduler.detached.length)
      // Every resolved lease is back.
      for (const lease of open) {
        assert.ok(detached.has(lease), `round ${round}: ${lease} is gone`)
        const [workflow, call] = lease.split(' ')
        scheduler.attach(call!, workflow).cancel()
        restored += 1
      }
      // Calls whose promise had not resolved are submitted again, under their ids: none is refused, and none gets what was
      // handed out before.
      const again = [...unresolved].map(async (name) => {
        const [workflow, call] = name.split(' ')
        const lease = await scheduler.workflow({ id: workflow! }).call({ id: call!, promptTokens: 100 })
        const key = `${name} ${lease.epoch}`
        assert.ok(!handedOut.has(key), `round ${round}: ${key} was handed out twice`)
        handedOut.add(key)
        assert.equal(await code(() => scheduler.attach(call!, workflow)), 'ERR_LAXITY_UNKNOWN')
        lease.done({ outputTokens: 5 })
        resubmitted += 1
      })
      // What is left was closed, or handed out, by words that did not get out: it would hold its room until its TTL.
      for (const { workflow, call } of scheduler.detached) scheduler.attach(call, workflow).cancel()
      await Promise.all(again)
      assert.ok(scheduler.audit())
      await scheduler.close()
      const result = await replayLog(log)
      assert.equal(result.matched, result.decisions)
      await rm(log)
    }
    assert.ok(restored > 100, `${restored}`)
    assert.ok(resubmitted > 20, `${resubmitted}`)
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
