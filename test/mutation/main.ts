/**
 * Would the tests notice? `npm run mutate -- [--lines 240] [--seeds 1,2,3] [--work folder] [--only id,id|survivors] [--out page]
 * [--prepare]`.
 *
 * Samples lines of the core, breaks each in one way (operators.ts), and runs the native test cases that pass it, the cheapest first,
 * until one fails. Survivors are printed with their lines; those argued in equivalent.json count as equivalent. Results so far are kept
 * in the work folder, so a run that was stopped goes on; a line that changed is a new mutant. `--prepare`
 * only builds.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { killer, record } from './cases.ts'
import { type Equivalent, page, summary } from './report.ts'
import { Results, Verdicts } from './results.ts'
import { candidates, type Mutant, sample } from './sample.ts'
import { build, copyTree, refusals, writeMutants } from './tree.ts'

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
const waiting = mutants.filter((m) =>
  again === undefined ? results.of(m) === undefined : again.includes(m.id),
)
const of = waiting.length
const cases = of > 0 ? record(work) : []
if (of > 0)
  console.log(
    `${cases.length} test cases, ${cases.reduce((sum, c) => sum + c.seconds, 0).toFixed(0)} s without a mutant`,
  )
await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let m = waiting.shift(); m !== undefined; m = waiting.shift()) {
      const start = performance.now()
      const by = (await killer(work, cases, m.id)) ?? null
      results.add(m, by)
      const seconds = ((performance.now() - start) / 1000).toFixed(1)
      const how =
        by === null
          ? cases.some((c) => c.passes.has(m.id))
            ? 'SURVIVED'
            : 'SURVIVED: no case passes it'
          : `${by.notice}: ${by.name}`
      console.log(`${of - waiting.length}/${of} ${m.id} ${m.file}:${m.line} ${seconds} s ${how}`)
    }
  }),
)

const judged = mutants.filter((m) => results.of(m) !== undefined)
const outcome = summary(judged, (m) => results.of(m) ?? null, equivalents)
console.log(outcome.text)
if (values.out !== undefined)
  writeFileSync(values.out, page({ outcome, lines, seeds, candidates: all.length, refused }))
process.exitCode = outcome.open.length > judged.length * 0.05 ? 1 : 0
