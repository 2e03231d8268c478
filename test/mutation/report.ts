/** The outcome, for the terminal and as a page. */
import type { Killer, Notice } from './cases.ts'
import { OPERATORS } from './operators.ts'
import type { Mutant } from './sample.ts'

/** A survivor that no test can notice, and why. */
export interface Equivalent {
  readonly file: string
  readonly line: string
  readonly mutant: string
  readonly why: string
}

/** The entry that argues for this mutant. */
export function argument(m: Mutant, equivalents: readonly Equivalent[]): Equivalent | undefined {
  return equivalents.find(
    (e) => e.file === m.file && e.line === m.original.trim() && e.mutant === m.variant.shown,
  )
}

export interface Outcome {
  readonly text: string
  readonly judged: number
  readonly killed: number
  readonly argued: readonly [Mutant, string][]
  readonly open: readonly Mutant[]
  readonly rows: readonly (readonly string[])[]
}

const NOTICES: readonly Notice[] = ['check', 'crash', 'time']

export function summary(
  judged: readonly Mutant[],
  by: (m: Mutant) => Killer | null,
  equivalents: readonly Equivalent[],
): Outcome {
  const survivors = judged.filter((m) => by(m) === null)
  const why = (m: Mutant) => argument(m, equivalents)?.why
  const argued = survivors.flatMap((m): [Mutant, string][] => {
    const reason = why(m)
    return reason === undefined ? [] : [[m, reason]]
  })
  const open = survivors.filter((m) => why(m) === undefined)
  const row = (name: string, own: readonly Mutant[]) => {
    const dead = own.filter((m) => by(m) !== null)
    return [
      name,
      own.length,
      dead.length,
      ...NOTICES.map((notice) => dead.filter((m) => by(m)!.notice === notice).length),
      argued.filter(([m]) => own.includes(m)).length,
      open.filter((m) => own.includes(m)).length,
    ].map(String)
  }
  const rows = [
    ...OPERATORS.map((operator) =>
      row(
        operator,
        judged.filter((m) => m.variant.operator === operator),
      ),
    ),
    row('all', judged),
  ]
  const killed = judged.length - survivors.length
  const idle = equivalents.filter((e) => !argued.some(([m]) => argument(m, [e]) !== undefined))
  const text = [
    ...open.map(
      (m) =>
        `\n${m.id} ${m.file}:${m.line} ${m.variant.operator}\n  - ${m.original.trim()}\n  + ${m.variant.shown}`,
    ),
    ...idle.map((e) => `\nargued, but no survivor: ${e.file} ${e.mutant}`),
    '',
    ['', 'mutants', 'killed', ...NOTICES, 'equivalent', 'open'].map(cell).join(''),
    ...rows.map((r) => r.map(cell).join('')),
    `\n${killed} of ${judged.length} killed (${percent(killed, judged.length)}), ${argued.length} argued equivalent, ${open.length} open`,
  ].join('\n')
  return { text, judged: judged.length, killed, argued, open, rows }
}

const cell = (text: string, column: number) => (column === 0 ? text.padEnd(20) : text.padStart(11))
const percent = (part: number, whole: number) => `${((100 * part) / whole).toFixed(1)} %`

export function page({
  outcome: { judged, killed, argued, open, rows },
  lines,
  seeds,
  candidates,
  refused,
}: {
  outcome: Outcome
  lines: number
  seeds: readonly number[]
  candidates: number
  refused: number
}): string {
  const shown = (m: Mutant, why: string) =>
    `* \`${m.file}\`, ${m.variant.operator}:\n  \`${m.original.trim()}\` → \`${m.variant.shown}\`.\n  ${why}`
  return `# Would the tests notice?

Written by \`npm run mutate -- --seeds ${seeds.join(',')} --lines ${lines} --out docs/mutation.md\`. Lines of \`native/{scheduler,planner,order,placement,
simulator,cluster,workflow}\` are drawn by the seeds and broken, each in one way, by the operators of \`test/mutation/operators.ts\`; the
native test cases that pass the line run, the cheapest first, until one notices; for a mutant that is argued equivalent those of at most
a second. Only the native tests count: what the JavaScript
tests would notice besides is not asked.

**${killed} of ${judged} killed (${percent(killed, judged)})**, ${argued.length} argued equivalent, ${open.length} open; with the equivalent ones left out
${percent(killed, judged - argued.length)}. Drawn from ${candidates.toLocaleString('en-US')} lines that an operator can break; seeds ${seeds.join(', ')}; ${refused} further
mutants do not compile and are not counted. "check": a check of a test failed; "crash": an assertion, a law or the memory protection
ended the run; "time": the case took more than five times its processor time and two seconds.

| operator | mutants | killed | by check | by crash | by time | equivalent | open |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.map((r) => `| ${r.join(' | ')} |`).join('\n')}

## Argued equivalent

${argued.map(([m, why]) => shown(m, why)).join('\n')}
${open.length === 0 ? '' : `\n## Open\n\n${open.map((m) => shown(m, 'No test notices it.')).join('\n')}\n`}`
}
