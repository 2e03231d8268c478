// Line coverage of the core without its binding, by gcov over the native tests.
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { tally } from './lines.mjs'

/** Builds the native tests with counters and runs them; returns the lines of every file below native/ but binding/. */
export function nativeCoverage(root) {
  const build = process.env.BUILD ?? join(root, 'build/coverage')
  // Counts of an earlier program would be added to.
  for (const file of filesBelow(build, '.gcda')) rmSync(file)
  const tests = spawnSync('bash', ['scripts/native-test.sh'], {
    cwd: root,
    stdio: 'inherit',
    // Where a function of a header is emitted into several objects the linker takes the first, the core's.
    env: { ...process.env, BUILD: build, CORE_FLAGS: '-O1 -fno-inline --coverage', LDFLAGS: '--coverage' },
  })
  if (tests.status !== 0) throw new Error('the native tests fail')
  return readCounts(root, build)
}

export function readCounts(root, build) {
  const files = new Map()
  for (const counts of filesBelow(join(build, 'native'), '.gcda')) {
    const json = execFileSync('gcov', ['--json-format', '--stdout', counts], {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 1 << 30,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    for (const unit of json.split('\n').filter((line) => line !== ''))
      for (const { file, lines } of JSON.parse(unit).files) {
        const name = relative(root, join(root, file))
        if (!name.startsWith('native/') || name.startsWith('native/binding/')) continue
        if (!files.has(name)) files.set(name, new Map())
        const known = files.get(name)
        // A line of a header is compiled into many units and instances of its template: one that ran is enough.
        for (const { line_number: line, count } of lines) known.set(line, (known.get(line) ?? 0) + count)
      }
  }
  return tally(files)
}

function filesBelow(folder, ending) {
  let entries
  try {
    entries = readdirSync(folder, { recursive: true })
  } catch {
    return []
  }
  return entries.filter((name) => name.endsWith(ending)).map((name) => join(folder, name))
}
