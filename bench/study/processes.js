// Real processes: a redis-server of our own, workers, the coordinator.
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export function hasRedis() {
  return spawnSync('redis-server', ['--version']).status === 0
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

export async function startRedis(folder) {
  const port = await freePort()
  const options = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    folder,
  ]
  const child = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] })
  await heard(child.stdout, /Ready to accept connections/)
  child.stdout.resume()
  return { child, url: `redis://127.0.0.1:${port}` }
}

export async function startWorker(url, lockMs) {
  const args = [cli, 'worker', '--redis', url, ...(lockMs === undefined ? [] : ['--lock-ms', String(lockMs)])]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const ready = heard(child.stderr, /serves redis:/)
  // One that is killed before it is ready never says so.
  await Promise.race([ready, new Promise((resolve) => child.once('exit', resolve))])
  child.stderr.resume()
  return child
}

export function study(file, out, url) {
  const args = [cli, 'study', file, '--out', out, '--yes', '--json', '--redis', url]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (data) => {
    text += data
  })
  const ended = new Promise((resolve, reject) => {
    child.on('close', (status) => {
      if (status === 0) resolve(JSON.parse(text))
      else reject(new Error(`laxity study ended with ${status}`))
    })
  })
  return { child, ended }
}

/** User and system CPU time of a live process, ms (Linux; undefined elsewhere). */
export function cpuOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return undefined
  }
}

/**
 * How long the busiest thread of a process has waited, able to run, for a core, ms: what other programs on the machine
 * took from it (Linux; 0 elsewhere).
 */
export function waitedOf(pid) {
  let most = [0, 0]
  try {
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      const [ran, waited] = readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ').map(Number)
      if (ran > most[0]) most = [ran, waited]
    }
  } catch {
    // A thread that ended meanwhile.
  }
  return most[1] / 1e6
}

export async function stop(child, signal = 'SIGTERM') {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await gone
}

function heard(stream, pattern) {
  return new Promise((resolve, reject) => {
    let text = ''
    const listen = (data) => {
      text += data
      if (!pattern.test(text)) return
      stream.off('data', listen)
      resolve()
    }
    stream.on('data', listen)
    stream.once('close', () => reject(new Error(`ended without ${pattern}: ${text}`)))
  })
}
