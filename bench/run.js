// Runs suites, each in its own process, and gives one document: the machine, what it charges, all rows with their limits.
import { spawnSync } from 'node:child_process'
import { cpus, loadavg, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { costsOf, withLimits } from './performance/limits.js'

const SUITE = fileURLToPath(new URL('./suite.js', import.meta.url))

function machineFacts() {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    v8: process.versions.v8,
    load1: Math.round(loadavg()[0] * 100) / 100,
  }
}

function runSuite(name, settings, quiet) {
  const child = spawnSync(process.execPath, ['--expose-gc', SUITE, name, JSON.stringify(settings)], {
    stdio: ['ignore', 'pipe', quiet ? 'ignore' : 'inherit'],
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
  })
  if (child.status !== 0) throw new Error(`The suite ${name} failed`)
  return JSON.parse(child.stdout)
}

/** `say(suite)` hears of each suite that ended, with its limits. */
export function runSuites(names, { quick, quiet = false }, say = () => {}) {
  const started = new Date()
  const machine = machineFacts()
  const measured = runSuite('machine', { quick }, quiet)
  const costs = costsOf(measured.rows)
  const suites = []
  for (const name of names) {
    const suite = name === 'machine' ? measured : runSuite(name, { quick }, quiet)
    suite.rows = suite.rows.map((row) => withLimits(row, costs))
    suites.push(suite)
    say(suite)
  }
  const seconds = Math.round((Date.now() - started.getTime()) / 1000)
  return { quick, startedAt: started.toISOString(), seconds, machine, costs, suites }
}
