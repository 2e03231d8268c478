// A gate that is not noise: how many instructions the hot paths take, counted by callgrind, against those recorded here.
//
//   npm run gate                      compares; fails where a path takes more than the margin, and names its suite
//   npm run gate -- dispatch-64 …     some paths, or all of some suites (dispatch)
//   npm run gate -- --record          after a wanted change
//   BUILD=build/native-test npm run gate    with the objects of the native tests (native-program.js)
//
// Counts depend on the compiler and the machine's instruction set, so both are recorded; elsewhere nothing is compared, and that is said.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { buildProgram } from '../native-program.js'

/** A path may take so much more than recorded: other inlining around an unrelated change moves it by about 1 %. */
const MARGIN = 0.03

const record = fileURLToPath(new URL('instructions.json', import.meta.url))
const args = process.argv.slice(2)
const asked = args.filter((arg) => !arg.startsWith('--'))
const recording = args.includes('--record')

const output = (command, ...rest) => execFileSync(command, rest, { encoding: 'utf8' }).trim()

for (const tool of ['valgrind', 'g++', 'make']) {
  if (spawnSync(tool, ['--version']).status === 0) continue
  console.log(`gate skipped: ${tool} is not installed`)
  process.exit(0)
}
const compiler = `g++ ${output('g++', '-dumpfullversion')} ${output('g++', '-dumpmachine')}`
const vectors = /\bavx2\b/.test(readFileSync('/proc/cpuinfo', 'utf8')) ? 'avx2' : 'none'
const known = JSON.parse(readFileSync(record, 'utf8'))
const same = known.compiler === compiler && known.vectors === vectors
if (!same && !recording)
  console.log(
    `recorded with ${known.compiler}, vectors ${known.vectors}; this is ${compiler}, ${vectors}: nothing is compared`,
  )

const { program, seconds } = buildProgram('hot-paths')
const all = output(program)
  .split('\n')
  .map((line) => line.split(' '))
  .map(([suite, name]) => ({ suite, name }))
for (const word of asked)
  if (!all.some(({ suite, name }) => word === suite || word === name))
    throw new Error(
      `no path or suite "${word}": ${all.map(({ suite, name }) => `${name} (${suite})`).join(', ')}`,
    )
const paths = all.filter(
  ({ suite, name }) => asked.length === 0 || asked.includes(suite) || asked.includes(name),
)

async function count(name) {
  const scratch = mkdtempSync(join(tmpdir(), 'laxity-gate-'))
  try {
    const file = join(scratch, 'out')
    const counting = ['--collect-atstart=no', '--toggle-collect=measured', `--callgrind-out-file=${file}`]
    const { stderr } = await promisify(execFile)('valgrind', ['--tool=callgrind', ...counting, program, name])
    const total = /^(?:summary|totals): (\d+)/m.exec(readFileSync(file, 'utf8'))
    if (total === null) throw new Error(`${name}: ${stderr}`)
    return Number(total[1])
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

// Instructions do not depend on what else runs: as many at once as there are cores.
const started = performance.now()
const counts = {}
const left = paths.map(({ name }) => name)
await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) counts[name] = await count(name)
  }),
)

const slower = []
for (const { suite, name } of paths) {
  const before = known.instructions[name]
  const change = before === undefined ? undefined : counts[name] / before - 1
  const bad = same && !recording && (change === undefined || change > MARGIN)
  if (bad) slower.push(`${suite}: ${name}`)
  const verdict =
    change === undefined ? 'not recorded' : `${change >= 0 ? '+' : ''}${(100 * change).toFixed(1)} %`
  console.log(
    `${suite.padEnd(11)} ${name.padEnd(22)} ${counts[name].toLocaleString('en-US').padStart(14)} instructions   ${verdict}${bad ? '   SLOWER' : ''}`,
  )
}
const took = (performance.now() - started) / 1000
console.log(`built in ${seconds.toFixed(0)} s, counted in ${took.toFixed(0)} s`)
if (recording) {
  const merged = { ...(same ? known.instructions : {}), ...counts }
  const instructions = Object.fromEntries(
    all.filter(({ name }) => name in merged).map(({ name }) => [name, merged[name]]),
  )
  writeFileSync(record, `${JSON.stringify({ compiler, vectors, instructions }, null, 2)}\n`)
} else if (slower.length > 0) {
  console.log(`more than ${100 * MARGIN} % more instructions than recorded: ${slower.join(', ')}`)
  process.exit(1)
}
