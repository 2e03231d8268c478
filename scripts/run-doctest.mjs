// Runs a doctest program file by file, as many files at a time as there are cores, and prints what failed and the sums.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'

const [program] = process.argv.slice(2)
const waiting = readdirSync(new URL('../test/native', import.meta.url)).filter((name) =>
  name.endsWith('_test.cc'),
)
const sums = { cases: [0, 0, 0, 0], assertions: [0, 0, 0] }
let broken = 0

function run(name) {
  return new Promise((resolve) => {
    const child = spawn(program, [`--source-file=*/${name}`], { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
    child.once('close', (code, signal) => resolve({ name, said, code, signal }))
  })
}

/** The numbers of one of the program's last lines: all, passed, failed and, of cases, skipped by filters. */
function numbers(said, what) {
  const line = said.match(new RegExp(`^\\[doctest\\] ${what}: (.*)$`, 'm'))
  return line === null ? undefined : line[1].match(/\d+/g).map(Number)
}

function add({ name, said, code, signal }) {
  const cases = numbers(said, 'test cases')
  const assertions = numbers(said, 'assertions')
  if (cases === undefined || assertions === undefined) {
    broken += 1
    console.log(`${said}\n== ${name} ended without a result: ${signal ?? `exit code ${code}`}`)
    return
  }
  for (const [sum, one] of [
    [sums.cases, cases],
    [sums.assertions, assertions],
  ])
    for (let i = 0; i < sum.length; i += 1) sum[i] += one[i] ?? 0
  if (code !== 0) console.log(said)
}

await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) add(await run(name))
  }),
)

const [, passed, failed] = sums.cases
console.log(
  `[doctest] test cases: ${passed + failed + broken} | ${passed} passed | ${failed + broken} failed | 0 skipped\n` +
    `[doctest] assertions: ${sums.assertions.map((n) => n.toLocaleString('en-US')).join(' | ')} (all, passed, failed)`,
)
process.exitCode = failed + broken === 0 ? 0 : 1
