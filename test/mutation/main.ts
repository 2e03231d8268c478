/**
 * Would the tests notice? `npm run mutate -- [--lines 240] [--seeds 1,2,3] [--work folder] [--only id,id]`.
 *
 * Samples lines of the core, breaks each in one way (operators.ts), and runs the native suites that pass it until one fails.
 * Survivors are printed with their lines; those argued in equivalent.json count as equivalent. Results so far are kept in the work folder,
 * so a run that was stopped goes on.
 */
import { appendFileSync, existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { OPERATORS } from './operators.ts'
import { candidates, type Mutant, sample } from './sample.ts'
import { killer, record } from './suites.ts'
import { build, copyTree, writeMutants } from './tree.ts'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '240' },
    seeds: { type: 'string', default: '1,2,3' },
    work: { type: 'string' },
    only: { type: 'string' },
  },
})
const lines = Number(values.lines)
const seeds = values.seeds.split(',').map(Number)
const work = values.work ?? mkdtempSync(join(tmpdir(), 'laxity-mutation-'))

interface Equivalent {
  file: string
  mutant: string
  why: string
}
const equivalents = JSON.parse(
  readFileSync(join(root, 'test/mutation/equivalent.json'), 'utf8'),
) as Equivalent[]
const argued = (m: Mutant) => equivalents.some((e) => e.file === m.file && e.mutant === m.variant.shown)

const all = candidates(root)
// A fifth more than asked: some mutants do not compile.
let mutants = sample(all, seeds, Math.ceil(lines * 1.2))
copyTree(root, work)
const touched = new Set<string>()
let refusals = 0
for (;;) {
  writeMutants(root, work, mutants, touched)
  const refused = new Set(build(work, mutants))
  if (refused.size === 0) break
  refusals += refused.size
  mutants = mutants.filter((m) => !refused.has(m))
  console.log(`${refused.size} do not compile`)
}
mutants = mutants.slice(0, lines)
console.log(
  `${mutants.length} mutants on ${all.length.toLocaleString('en-US')} lines, seeds ${seeds}; ${refusals} others do not compile; in ${work}`,
)

const suites = record(work)
console.log(
  `${suites.length} suites, ${suites.reduce((sum, s) => sum + s.seconds, 0).toFixed(0)} s without a mutant`,
)

const results = join(work, 'results.jsonl')
const known = new Map<number, string | null>(
  existsSync(results)
    ? readFileSync(results, 'utf8')
        .trim()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as [number, string | null])
    : [],
)
const asked = values.only?.split(',').map(Number)
const waiting = mutants.filter((m) => (asked === undefined ? !known.has(m.id) : asked.includes(m.id)))
await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let m = waiting.shift(); m !== undefined; m = waiting.shift()) {
      const by = (await killer(work, suites, m.id)) ?? null
      known.set(m.id, by)
      appendFileSync(results, `${JSON.stringify([m.id, by])}\n`)
    }
  }),
)

const judged = mutants.filter((m) => known.has(m.id))
const survivors = judged.filter((m) => known.get(m.id) === null)
const open = survivors.filter((m) => !argued(m))
for (const operator of OPERATORS) {
  const own = judged.filter((m) => m.variant.operator === operator)
  const dead = own.filter((m) => known.get(m.id) !== null).length
  console.log(`${operator.padEnd(20)} ${dead} of ${own.length}`)
}
for (const m of open) {
  const reached = suites.some((s) => s.passes.has(m.id))
  console.log(`\n${m.id} ${m.file}:${m.line} ${m.variant.operator}${reached ? '' : ' (no suite passes it)'}`)
  console.log(`  - ${m.original.trim()}\n  + ${m.variant.shown}`)
}
const killed = judged.length - survivors.length
console.log(
  `\n${killed} of ${judged.length} killed (${((100 * killed) / judged.length).toFixed(1)} %), ${survivors.length - open.length} argued equivalent, ${open.length} open`,
)
process.exitCode = open.length > judged.length * 0.05 ? 1 : 0
