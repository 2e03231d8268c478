// Line coverage of lib/ by V8's counters (c8) over the mocha tests, their workers and their child processes.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, relative, sep } from 'node:path'
import { tally } from './lines.mjs'
import { statementLines } from './statements.mjs'

/** Runs in a browser, out of reach of Node's counters. */
export const CLIENT = 'lib/report/html/client/'

/** Runs the tests (all, or these files) and returns the lines of every file below lib/ but the client's. */
export function libCoverage(root, tests = []) {
  const folder = join(root, 'coverage')
  rmSync(folder, { recursive: true, force: true })
  const require = createRequire(import.meta.url)
  const c8 = require.resolve('c8/bin/c8.js')
  const mocha = require.resolve('mocha/bin/mocha.js')
  const own = ['--no-config', '--node-option', 'import=tsx', '--timeout', '120000', ...tests]
  const settings = [`--exclude=${CLIENT}**`, '--include=lib/**', '--all', '--src=lib', '--reporter=json']
  const run = spawnSync(
    process.execPath,
    [c8, ...settings, '--extension=.ts', process.execPath, mocha, ...(tests.length > 0 ? own : [])],
    { cwd: root, stdio: 'inherit' },
  )
  if (run.status !== 0) throw new Error('the tests fail')

  const found = JSON.parse(readFileSync(join(folder, 'coverage-final.json'), 'utf8'))
  const counts = new Map()
  for (const { path, statementMap, s } of Object.values(found)) {
    const byLine = new Map()
    for (const [id, { start }] of Object.entries(statementMap)) byLine.set(start.line, s[id])
    counts.set(relative(root, path).split(sep).join('/'), byLine)
  }
  const files = new Map()
  for (const name of libFiles(root)) {
    const lines = statementLines(readFileSync(join(root, name), 'utf8'))
    const byLine = counts.get(name)
    files.set(name, new Map([...lines].map((line) => [line, byLine?.get(line) ?? 0])))
  }
  return tally(files)
}

function libFiles(root) {
  return readdirSync(join(root, 'lib'), { recursive: true })
    .map((name) => `lib/${name.split(sep).join('/')}`)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts') && !name.startsWith(CLIENT))
}
