// A gate that is not noise: how many instructions the hot paths take, counted by callgrind, against those recorded here.
// `npm run gate` compares, `npm run gate -- --record` records, `npm run gate -- dispatch-64` runs some of them.
//
// Counts depend on the compiler and the machine's instruction set, so both are recorded; elsewhere nothing is compared, and that is said.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A path may take so much more than recorded: other inlining around an unrelated change moves it by about 1 %. */
const MARGIN = 0.03

const here = fileURLToPath(new URL('.', import.meta.url))
const root = join(here, '../..')
const record = join(here, 'instructions.json')
const args = process.argv.slice(2)
const asked = args.filter((arg) => !arg.startsWith('--'))

function output(command, ...rest) {
  return execFileSync(command, rest, { encoding: 'utf8', cwd: root }).trim()
}

if (spawnSync('valgrind', ['--version']).status !== 0) {
  console.log('gate skipped: valgrind is not installed')
  process.exit(0)
}
const compiler = `g++ ${output('g++', '-dumpfullversion')} ${output('g++', '-dumpmachine')}`
const vectors = /\bavx2\b/.test(readFileSync('/proc/cpuinfo', 'utf8')) ? 'avx2' : 'none'
const folder = join(root, 'build/gate')
const program = join(folder, 'hot-paths')
const settings = ['CXX=g++', 'CXXFLAGS=-O2 -g', 'LAWS=', `BUILD=${folder}`, `-j${availableParallelism()}`]
execFileSync('make', ['--no-print-directory', '-s', '-f', 'scripts/native.mk', ...settings, program], {
  cwd: root,
  stdio: 'inherit',
})
const paths = output(program).split('\n')
for (const name of asked) if (!paths.includes(name)) throw new Error(`no path "${name}": ${paths.join(', ')}`)

function count(name) {
  const scratch = mkdtempSync(join(tmpdir(), 'laxity-gate-'))
  try {
    const run = spawnSync(
      'valgrind',
      [
        '--tool=callgrind',
        '--collect-atstart=no',
        '--toggle-collect=measured',
        `--callgrind-out-file=${join(scratch, 'out')}`,
        program,
        name,
      ],
      { encoding: 'utf8' },
    )
    const total = /^(?:summary|totals): (\d+)/m.exec(readFileSync(join(scratch, 'out'), 'utf8'))
    if (run.status !== 0 || total === null) throw new Error(`${name}: ${run.stderr}`)
    return Number(total[1])
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

const known = JSON.parse(readFileSync(record, 'utf8'))
const same = known.compiler === compiler && known.vectors === vectors
if (!same && !args.includes('--record'))
  console.log(
    `recorded with ${known.compiler}, vectors ${known.vectors}; this is ${compiler}, ${vectors}: nothing is compared`,
  )
const counts = {}
let slower = 0
for (const name of asked.length > 0 ? asked : paths) {
  const instructions = count(name)
  counts[name] = instructions
  const before = known.instructions[name]
  const change = before === undefined ? undefined : instructions / before - 1
  const bad = same && (change === undefined || change > MARGIN)
  if (bad) slower += 1
  console.log(
    `${name.padEnd(22)} ${instructions.toLocaleString('en-US').padStart(14)} instructions` +
      `${change === undefined ? '   not recorded' : `   ${change >= 0 ? '+' : ''}${(100 * change).toFixed(1)} %`}${bad ? '   SLOWER' : ''}`,
  )
}
if (args.includes('--record')) {
  const instructions = { ...(same ? known.instructions : {}), ...counts }
  writeFileSync(record, `${JSON.stringify({ compiler, vectors, instructions }, null, 2)}\n`)
} else if (slower > 0) {
  console.log(`${slower} paths take more than ${100 * MARGIN} % more instructions than recorded`)
  process.exit(1)
}
