import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { maxRate } from '../../../lib/capacity/max-rate.ts'
import { runStudy, type StudyProgress } from '../../../lib/study/run.ts'
import { runCount, type Study } from '../../../lib/study/study.ts'
import { runWorker } from '../../../lib/study/worker.ts'
import { ended, heard, type RedisServer, skipWithoutRedis, startRedis } from '../../support/redis.ts'
import { openSmall, SMALL, studyOf, temporaryFolder } from '../../support/study.ts'
import { laxity, start } from '../../unit/cli/shared.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const LOCK_MS = 1000

/** A worker as a process of its own. */
async function startWorker(url: string): Promise<ChildProcess> {
  const args = ['--import=tsx', 'lib/cli/main.ts', 'worker', '--redis', url, '--lock-ms', String(LOCK_MS)]
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] })
  await heard(child, child.stderr!, /serves redis:/)
  child.stderr!.resume()
  return child
}

/** Each run in the results file, and how often. */
function timesOf(out: string, runs: number): number[] {
  const times = new Array<number>(runs).fill(0)
  for (const line of readFileSync(join(out, 'results.jsonl'), 'utf8').trimEnd().split('\n')) {
    const { done } = JSON.parse(line).record as { done?: [number, number] }
    if (done !== undefined) for (let run = done[0]; run < done[1]; run++) times[run]!++
  }
  return times
}

describe('a study on workers over Redis', function () {
  this.timeout(120_000)
  const folder = temporaryFolder()
  let redis: RedisServer
  let study: Study
  let local: string
  let size: number
  const stops: (() => Promise<void>)[] = []

  before(async function () {
    skipWithoutRedis(this)
    redis = await startRedis(folder())
    study = await studyOf({ ...SMALL, workloads: ['chess:40', 'mac-sql:30'], seeds: '1:80:1' })
    size = runCount(study)
    const out = join(folder(), 'local')
    await runStudy(study, { out, workers: 2 })
    local = read(out)
  })
  afterEach(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()))
  })
  after(async () => {
    await redis?.kill()
  })

  const read = (out: string) =>
    ['runs.csv', 'tenants.csv'].map((name) => readFileSync(join(out, name), 'utf8')).join('\n')

  function identical(out: string): void {
    assert.equal(read(out), local)
    assert(timesOf(out, size).every((times) => times === 1))
  }

  /** A worker in this process. */
  function serve(url = redis.url, concurrency = 1): Promise<void> {
    const controller = new AbortController()
    return new Promise((ready, failed) => {
      const options = { url, concurrency, lockMs: LOCK_MS, signal: controller.signal, onReady: ready }
      const running = runWorker(options)
      running.catch(failed)
      stops.push(async () => {
        controller.abort()
        await running
      })
    })
  }

  it('gives the bytes of a local run, with any number of workers, and leaves nothing behind', async () => {
    for (const concurrency of [1, 2]) {
      await serve(redis.url, concurrency)
      const out = join(folder(), `workers-${concurrency}`)
      const progress: StudyProgress[] = []
      const result = await runStudy(study, { out, redis: redis.url, onProgress: (one) => progress.push(one) })
      assert.deepEqual([result.doneRuns, result.timing.workers, result.aside], [size, 0, []])
      identical(out)
      assert.equal(progress.at(-1)!.doneRuns, size)
      assert.equal(progress.at(-1)!.remainingMs, 0)
      assert(progress.some(({ remainingMs }) => remainingMs !== undefined && remainingMs > 0))
    }
    const client = new Redis(redis.url)
    const left = (await client.keys('laxity:*')).filter((key) =>
      /result:|:study:|study-.*:[0-9a-f]{16}/.test(key),
    )
    client.disconnect()
    assert.deepEqual(left, [])
  })

  it('survives workers that are killed and others that come', async () => {
    const workers = await Promise.all([startWorker(redis.url), startWorker(redis.url)])
    stops.push(async () => {
      await Promise.all(workers.map((worker) => ended(worker, 'SIGKILL')))
    })
    const out = join(folder(), 'killed')
    let kills = 0
    let replacing: Promise<void> = Promise.resolve()
    const onProgress = ({ doneRuns }: StudyProgress) => {
      // After a chunk, so that the victim is at work on the next.
      if (doneRuns === 0 || kills >= 2) return
      const victim = workers[kills++ % 2]!
      replacing = replacing.then(async () => {
        await ended(victim, 'SIGKILL')
        workers[workers.indexOf(victim)] = await startWorker(redis.url)
      })
    }
    const result = await runStudy(study, { out, redis: redis.url, onProgress })
    await replacing
    assert.equal(kills, 2)
    assert.equal(result.doneRuns, size)
    identical(out)
  })

  it('goes on after a restart of Redis that has lost everything', async () => {
    const own = await startRedis(folder())
    let current = own
    stops.push(() => current.kill())
    await serve(own.url)
    const out = join(folder(), 'restarted')
    const notices: string[] = []
    let restarting: Promise<void> | undefined
    const onProgress = ({ doneRuns }: StudyProgress) => {
      if (doneRuns === 0) return
      restarting ??= own.kill().then(async () => {
        await new Promise((resolve) => setTimeout(resolve, 300))
        current = await startRedis(folder(), { port: own.port })
      })
    }
    const result = await runStudy(study, {
      out,
      redis: own.url,
      onProgress,
      onNotice: (text) => notices.push(text),
    })
    await restarting
    assert.equal(result.doneRuns, size)
    identical(out)
    assert.match(notices.join('\n'), /is lost: waiting for it.*is back/s)
    // Before its Redis goes.
    await stops.pop()!()
  })

  it('sets a poisoned run aside after three attempts, and keeps the others', async () => {
    await serve()
    const [good, bad] = study.clusters
    const { cluster } = bad!
    const latencies = cluster.latencies.map((latency) => ({ ...latency, prefillPerTokenMs: -1 }))
    const poisoned = {
      ...study,
      id: 'poisoned',
      clusters: [good!, { label: 'bad', cluster: { ...cluster, latencies } as typeof cluster }],
      workloads: study.workloads.slice(0, 1),
      rates: [0.3],
      policies: study.policies.slice(0, 1),
      parameters: [],
      seeds: [1, 2],
    }
    const result = await runStudy(poisoned, { out: join(folder(), 'poisoned'), redis: redis.url })
    assert.deepEqual([result.runs, result.doneRuns], [4, 2])
    assert.deepEqual(
      result.aside.map(({ from, to, attempts }) => [from, to, attempts]),
      [
        [2, 3, 3],
        [3, 4, 3],
      ],
    )
    for (const { error } of result.aside) assert.match(error, /\w/)
  })

  it('is left resumable by Ctrl-C, of which workers take no harm', async () => {
    const file = join(folder(), 'interrupted.json')
    const content = {
      clusters: ['hexgen-hetero-1', 'hexgen-hetero-2'],
      workloads: ['chess:3'],
      rates: [0.3, 0.5],
      seeds: '1:300:1',
    }
    writeFileSync(file, JSON.stringify(content))
    await serve()
    const out = join(folder(), 'interrupted')
    const args = ['study', file, '--redis', redis.url, '--out', out, '--json']
    const { child, outcome } = start(args)
    const journal = join(out, 'results.jsonl')
    while (!existsSync(journal) || !readFileSync(journal, 'utf8').includes('"done"')) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    child.kill('SIGINT')
    const stopped = await outcome
    assert.equal(stopped.status, 130)
    assert.equal(stopped.stdout, '')
    assert.match(stopped.stderr, /the same command continues/)
    const { stdout } = await laxity(...args)
    const result = JSON.parse(stdout)
    assert.equal(result.doneRuns, 1200)
    assert(result.resumedRuns > 0 && result.resumedRuns < 1200)
    assert(timesOf(out, 1200).every((times) => times === 1))
  })

  it('answers capacity questions with the numbers of this machine', async () => {
    await serve()
    const trace = await openSmall('chess:20')
    const options = {
      trace,
      cluster: 'hexgen-homo',
      seeds: 2,
      sloScale: 1.5,
      attainment: 0.6,
      tolerance: 0.5,
    }
    assert.deepEqual(await maxRate({ ...options, redis: redis.url }), await maxRate(options))
  })

  it('refuses a wrong password, or none, without repeating it', async () => {
    const own = await startRedis(folder(), { password: 'right' })
    stops.push(() => own.kill())
    const file = join(folder(), 'password.json')
    writeFileSync(file, JSON.stringify({ clusters: ['hexgen-homo'], workloads: ['chess:3:5'] }))
    for (const url of [own.url.replace('//', '//:s3cret@'), own.url]) {
      for (const args of [
        ['study', file, '--redis', url],
        ['worker', '--redis', url],
      ]) {
        const { status, stdout, stderr } = await laxity(...args)
        assert.match(stderr, /^laxity: [^\n]*Refuses the password or user[^\n]* \[ERR_LAXITY_REDIS\]\n$/)
        assert(!stderr.includes('s3cret'))
        assert.deepEqual([status, stdout], [2, ''])
      }
    }
    await serve(own.url.replace('//', '//:right@'))
  })

  it('lets a worker end whose Redis is away', async () => {
    const own = await startRedis(folder())
    const worker = await startWorker(own.url)
    stops.push(() => ended(worker, 'SIGKILL'))
    await own.kill()
    await ended(worker, 'SIGTERM')
    assert.deepEqual([worker.exitCode, worker.signalCode], [0, null])
  })

  it('says that no worker is there, and goes on when one comes', async () => {
    const own = await startRedis(folder())
    stops.push(() => own.kill())
    let come: (() => void) | undefined
    const asked = new Promise<void>((resolve) => {
      come = resolve
    })
    const small = await studyOf(SMALL)
    const running = runStudy(small, {
      out: join(folder(), 'alone'),
      redis: own.url,
      onNotice: (text) => {
        if (/no worker is connected: start `laxity worker --redis redis:/.test(text)) come!()
      },
    })
    await asked
    await serve(own.url)
    assert.equal((await running).doneRuns, runCount(small))
    await stops.pop()!()
  })
})
