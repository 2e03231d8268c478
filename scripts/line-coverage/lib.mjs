// Line coverage of lib/ by V8's counters over the mocha tests, their workers and their child processes.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readCounters } from './counters.mjs'
import { tally } from './lines.mjs'
import { linesThatRan } from './remap.mjs'

/** Runs in a browser, out of reach of Node's counters. */
export const CLIENT = 'lib/report/html/client/'

/** Runs the tests (all, or these files) and returns the lines of every file below lib/ but the client's. */
export function libCoverage(root, tests = []) {
  const folder = join(root, 'coverage')
  rmSync(folder, { recursive: true, force: true })
  const mocha = createRequire(import.meta.url).resolve('mocha/lib/cli/cli.js')
  // mocha in this very process, without its parent: a parent that mocha starts for node's options answers an interrupt
  // with exit code 0. Tests that are imported have one copy of each module; those that are required have a second one of
  // what is imported later.
  const run = spawnSync(
    process.execPath,
    [
      '--import=tsx',
      '--no-experimental-require-module',
      mocha,
      // Counters take time.
      '--timeout=120000',
      ...(tests.length > 0 ? ['--no-config', ...tests] : []),
    ],
    { cwd: root, stdio: 'inherit', env: { ...process.env, NODE_V8_COVERAGE: folder } },
  )
  if (run.status !== 0) throw new Error(`the tests ${run.signal === null ? 'fail' : `end by ${run.signal}`}`)
  return countedLines(root, folder)
}

/** The lines of lib/ by the counters in a folder. */
export function countedLines(root, folder) {
  const url = (name) => pathToFileURL(join(root, name)).href
  const counters = readCounters(
    folder,
    (address) => address.startsWith(url('lib/')) && address.endsWith('.ts'),
  )
  const files = new Map()
  for (const name of libFiles(root))
    files.set(name, linesThatRan(readFileSync(join(root, name), 'utf8'), counters.get(url(name)) ?? []))
  return tally(files)
}

function libFiles(root) {
  return readdirSync(join(root, 'lib'), { recursive: true })
    .map((name) => `lib/${name.split(sep).join('/')}`)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts') && !name.startsWith(CLIENT))
}
