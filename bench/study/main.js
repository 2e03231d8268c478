// A study on workers over a real Redis: the same bytes for any number of them, what it costs, and workers killed at random.
// `npm run study-check [-- --runs N --workers 1,2,4]`; exits with 1 where a check fails. Without 4 workers nobody is killed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { cpuOf, hasRedis, startRedis, startWorker, stop, study, waitedOf } from './processes.js'

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '10000' }, workers: { type: 'string', default: '1,2,4' } },
})
const COUNTS = values.workers.split(',').map(Number)
const SEEDS = Math.max(1, Math.round(Number(values.runs) / 40))
const KILL_MS = 3000
const LOCK_MS = 5000
const MOST_OVERHEAD = 0.1
const MOST_SLOWDOWN = 5

if (!hasRedis()) {
  console.log('redis-server is missing: nothing was checked (Debian: apt-get install redis-server)')
  process.exit(1)
}

const folder = mkdtempSync(join(tmpdir(), 'laxity-study-'))
const file = join(folder, 'study.json')
writeFileSync(
  file,
  JSON.stringify({
    name: 'check',
    clusters: ['hexgen-hetero-1', 'hexgen-hetero-2'],
    workloads: ['chess:3', 'chess:2'],
    rates: [0.3, 0.5],
    policies: ['hexgen-flow'],
    parameters: { alpha: [0, 0.2, 0.4, 0.6, 0.8] },
    seeds: `1:${SEEDS}:1`,
  }),
)
const runs = 40 * SEEDS
const failures = []
const check = (ok, text) => {
  console.log(`${ok ? 'ok  ' : 'FAIL'} ${text}`)
  if (!ok) failures.push(text)
}
const percent = (share) => `${(100 * share).toFixed(1)} %`
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`

const redis = await startRedis(folder)
let workers = []
try {
  console.log(`${runs} runs, ${cpus().length} cores`)
  let reference
  let undisturbedMs
  for (const count of COUNTS) {
    workers = await Promise.all(Array.from({ length: count }, () => startWorker(redis.url, LOCK_MS)))
    const before = workers.map(({ pid }) => cpuOf(pid) ?? Number.NaN)
    const out = join(folder, `workers-${count}`)
    const { timing, doneRuns } = await study(file, out, redis.url).ended
    const used = workers.reduce((sum, { pid }, i) => sum + (cpuOf(pid) ?? Number.NaN) - before[i], 0)
    const waited = workers.reduce((sum, { pid }) => sum + waitedOf(pid), 0)
    await Promise.all(workers.map((worker) => stop(worker)))
    workers = []
    const bytes = readFileSync(join(out, 'runs.csv'), 'utf8')
    reference ??= bytes
    // The first is what counts. Where other programs use the machine, or workers outnumber cores, the second says more.
    const raw = (count * timing.wallMs - timing.cpuMs) / timing.cpuMs
    const overhead = raw - waited / timing.cpuMs
    console.log(
      `${count} worker${count > 1 ? 's' : ''}: ${seconds(timing.wallMs)} for ${seconds(timing.cpuMs)} of native CPU in ${timing.chunks} chunks; ` +
        `overhead ${percent(raw)} by wall time, ${percent(overhead)} without waiting for a core, ${percent(used / timing.cpuMs - 1)} by the workers' CPU time`,
    )
    check(doneRuns === runs && rowsOf(out).every((n) => n === 1), `${count}: every run once`)
    check(bytes === reference, `${count}: the same bytes`)
    if (count === 1) check(raw <= MOST_OVERHEAD, `1: overhead at most ${percent(MOST_OVERHEAD)}`)
    if (count === 4) undisturbedMs = timing.wallMs
  }

  if (undisturbedMs !== undefined) await kill(undisturbedMs, reference)
} finally {
  await Promise.all(workers.map((worker) => stop(worker, 'SIGKILL')))
  await stop(redis.child)
  rmSync(folder, { recursive: true })
}
console.log(failures.length === 0 ? 'all checks passed' : `${failures.length} checks failed`)
process.exit(failures.length === 0 ? 0 : 1)

/** The study again, while a random one of four workers is killed every KILL_MS and another started in its place. */
async function kill(undisturbedMs, reference) {
  workers = await Promise.all(Array.from({ length: 4 }, () => startWorker(redis.url, LOCK_MS)))
  const out = join(folder, 'killed')
  const running = study(file, out, redis.url)
  let kills = 0
  // Only workers that serve are killed, and each is replaced by one: there are never more than four.
  const starting = new Set()
  let over = false
  const killer = setInterval(() => {
    if (workers.length === 0) return
    const [victim] = workers.splice(Math.floor(Math.random() * workers.length), 1)
    victim.kill('SIGKILL')
    kills++
    const start = startWorker(redis.url, LOCK_MS).then(async (worker) => {
      starting.delete(start)
      if (over) await stop(worker, 'SIGKILL')
      else workers.push(worker)
    })
    starting.add(start)
  }, KILL_MS)
  const { timing, doneRuns } = await running.ended.finally(async () => {
    over = true
    clearInterval(killer)
    await Promise.all(starting)
  })
  const slowdown = timing.wallMs / undisturbedMs
  console.log(
    `4 workers, one killed every ${seconds(KILL_MS)} (${kills} kills): ${seconds(timing.wallMs)}, ${slowdown.toFixed(2)} × undisturbed`,
  )
  check(kills > 0, 'killed: at least one')
  check(doneRuns === runs && rowsOf(out).every((n) => n === 1), 'killed: nothing lost, nothing repeated')
  check(readFileSync(join(out, 'runs.csv'), 'utf8') === reference, 'killed: the same bytes')
  check(slowdown <= MOST_SLOWDOWN, `killed: within ${MOST_SLOWDOWN} × the undisturbed time`)
}

/** How often the results file holds each run. */
function rowsOf(out) {
  const times = new Array(runs).fill(0)
  for (const line of readFileSync(join(out, 'results.jsonl'), 'utf8').trimEnd().split('\n')) {
    const { done } = JSON.parse(line).record
    if (done !== undefined) for (let run = done[0]; run < done[1]; run++) times[run]++
  }
  return times
}
