/**
 * Would the tests notice? `npm run mutate -- [--lines 240] [--seeds 1,2,3] [--work folder] [--only id,id|survivors] [--out page]
 * [--prepare]`.
 *
 * Samples lines of the core, breaks each in one way (operators.ts), and runs the native test cases that pass it, the cheapest first,
 * until one fails. Survivors are printed with their lines; those argued in equivalent.json count as equivalent, and only the cheapest
 * cases, of at most a second, may contradict. Results so far are kept
 * in the work folder, so a run that was stopped goes on; a line that changed is a new mutant. `--prepare`
 * only builds.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Case, killer, list, measure } from './cases.ts'
import { argument, type Equivalent, page, summary } from './report.ts'
import { Costs, Results, Verdicts } from './results.ts'
import { candidates, type Mutant, sample } from './sample.ts'
import { build, copyTree, refusals, writeMutants } from './tree.ts'

/** Seconds of a processor. */
const CHEAP = 1

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '240' },
    seeds: { type: 'string', default: '1,2,3' },
    work: { type: 'string' },
    only: { type: 'string' },
    out: { type: 'string' },
    prepare: { type: 'boolean', default: false },
  },
})
const lines = Number(values.lines)
const seeds = values.seeds.split(',').map(Number)
const work = values.work ?? mkdtempSync(join(tmpdir(), 'laxity-mutation-'))
const equivalents = JSON.parse(
  readFileSync(join(root, 'test/mutation/equivalent.json'), 'utf8'),
) as Equivalent[]

function refuse(these: readonly Mutant[]): void {
  for (const m of mutants) verdicts.set(m, !these.includes(m))
  verdicts.save()
  mutants = mutants.filter((m) => !these.includes(m))
  if (these.length > 0) console.log(`${these.length} do not compile`)
}

const all = candidates(root)
// A fifth more than asked: some mutants do not compile.
let mutants = sample(all, seeds, Math.ceil(lines * 1.2))
const mutable = new Set(all.map((c) => c.file))
copyTree(root, work, mutable)
const drawn = mutants.length
const verdicts = new Verdicts(join(work, 'verdicts.json'))
mutants = mutants.filter((m) => verdicts.of(m) !== false)
writeMutants(root, work, mutants, mutable)
refuse(
  refusals(
    work,
    mutants.filter((m) => verdicts.of(m) === undefined),
  ),
)
for (;;) {
  writeMutants(root, work, mutants, mutable)
  const refused = build(work, mutants)
  if (refused.length === 0) break
  refuse(refused)
}
verdicts.save()
const refused = drawn - mutants.length
if (values.prepare) process.exit()
mutants = mutants.slice(0, lines)
console.log(
  `${mutants.length} mutants on ${all.length.toLocaleString('en-US')} lines, seeds ${seeds}; ${refused} others do not compile; in ${work}`,
)

const results = new Results(join(work, 'results.jsonl'))
const again =
  values.only === 'survivors'
    ? mutants.filter((m) => results.of(m) === null).map((m) => m.id)
    : values.only?.split(',').map(Number)
let alive = mutants.filter((m) => (again === undefined ? results.of(m) === undefined : again.includes(m.id)))
// What is dear is run for those alone that the cheap cases leave alive and nobody has argued for.
const costs = new Costs(
  join(work, 'cases.jsonl'),
  createHash('sha256')
    .update(readFileSync(join(work, 'build/native-test')))
    .digest('hex'),
)
const cases = alive.length > 0 ? list(work) : []
const met = new Set<number>()
for (const most of [CHEAP, 10, 3600]) {
  if (most > CHEAP) {
    const argued = alive.filter((m) => argument(m, equivalents) !== undefined)
    for (const m of argued) results.add(m, null)
    alive = alive.filter((m) => !argued.includes(m))
  }
  const now: Case[] = []
  for (const test of cases) {
    if (alive.length === 0 || met.has(test.place)) continue
    const known = costs.of(test.place)
    const cost = known ?? measure(work, test, most)
    if (cost === undefined || (known !== undefined && known.seconds > most)) continue
    if (known === undefined) costs.add(cost)
    met.add(test.place)
    now.push(cost)
  }
  now.sort((a, b) => a.seconds - b.seconds)
  const seconds = now.reduce((sum, c) => sum + c.seconds, 0).toFixed(0)
  console.log(`${alive.length} mutants meet ${now.length} cases of at most ${most} s, ${seconds} s in all`)
  alive = await meet(alive, now)
}
for (const m of alive) results.add(m, null)

/** Those that no case notices. */
async function meet(these: readonly Mutant[], tests: readonly Case[]): Promise<Mutant[]> {
  const waiting = [...these]
  const left: Mutant[] = []
  await Promise.all(
    Array.from({ length: availableParallelism() }, async () => {
      for (let m = waiting.shift(); m !== undefined; m = waiting.shift()) {
        const by = await killer(work, tests, m.id)
        if (by === undefined) left.push(m)
        else results.add(m, by)
        const how = by === undefined ? 'lives' : `${by.notice}: ${by.name}`
        console.log(`${these.length - waiting.length} ${m.id} ${m.file}:${m.line} ${how}`)
      }
    }),
  )
  return left
}

const judged = mutants.filter((m) => results.of(m) !== undefined)
const outcome = summary(judged, (m) => results.of(m) ?? null, equivalents)
console.log(outcome.text)
if (values.out !== undefined)
  writeFileSync(values.out, page({ outcome, lines, seeds, candidates: all.length, refused }))
process.exitCode = outcome.open.length > judged.length * 0.05 ? 1 : 0
