import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'

/** Threads and processes of their own around the addon, for hazards that would take mocha with them. */

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const PRELUDE = `
const require_ = require('node:module').createRequire(${JSON.stringify(`${ROOT}/package.json`)});
const addon = require_('node-gyp-build')(${JSON.stringify(ROOT)});
const { parentPort, workerData } = require('node:worker_threads');
const simulator = ({ columns, cluster }) => new addon.Simulator(new addon.Trace(columns), cluster);
`

/** A thread that runs `code`, where `addon`, `simulator(scenario)`, `parentPort` and `workerData` are defined. */
export function addonWorker(code: string, workerData: unknown): Worker {
  return new Worker(PRELUDE + code, { eval: true, execArgv: [], workerData })
}

/** What a thread posts first. Rejects where it dies before. */
export function firstMessage(worker: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) => reject(new Error(`exit ${code} without a message`)))
  })
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  out: string
  err: string
}

/** A process with the same prelude; it may `import('./lib/…')` where `typescript` is set. */
export function addonProcess(code: string, options: { typescript?: boolean } = {}): Promise<Ended> {
  const loader = options.typescript ? ['--import=tsx'] : []
  const child = spawn(process.execPath, [...loader, '-e', PRELUDE + code], { cwd: ROOT })
  return ended(child)
}

function ended(child: ChildProcess): Promise<Ended> {
  let out = ''
  let err = ''
  child.stdout!.on('data', (text) => {
    out += text
  })
  child.stderr!.on('data', (text) => {
    err += text
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, out, err }))
  })
}

setFlagsFromString('--expose-gc')
/** Collects everything that can be. */
export const collect: () => void = runInNewContext('gc')

/** Whether `gone()` comes true after some collections; finalizers run between them. */
export async function collected(gone: () => boolean): Promise<boolean> {
  for (let round = 0; round < 20; round += 1) {
    // What a WeakRef gave stays alive until its turn of the event loop is over.
    await new Promise((resolve) => setImmediate(resolve))
    collect()
    await new Promise((resolve) => setImmediate(resolve))
    if (gone()) return true
  }
  return false
}

/** Long forms of tests that are short by default: `npm run hazards:long`. */
export const LONG = process.env.LAXITY_HAZARDS === 'long'
