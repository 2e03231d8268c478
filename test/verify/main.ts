/**
 * Everything that proves something, one after the other, and a page of what was proved:
 * `npm run verify [-- --quick] [--only name,name] [--json file]`.
 *
 * Each step is a command of its own (steps.ts); its output is kept in build/verify-logs. --quick: within ten minutes on two
 * cores; a step that would not fit into what is left of them is left out, and the page says so. Exit code 1 where a step fails.
 */
import { execFileSync, spawn } from 'node:child_process'
import { createWriteStream, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { judge } from './judge.ts'
import { type Outcome, page } from './page.ts'
import { type Form, found, STEPS, type Step } from './steps.ts'

const QUICK_SECONDS = 600

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, only: { type: 'string' }, json: { type: 'string' } },
})
const quick = values.quick
const asked = values.only?.split(',')
for (const name of asked ?? [])
  if (!STEPS.some((step) => step.name === name)) {
    console.error(`Unknown step "${name}". Steps: ${STEPS.map((step) => step.name).join(', ')}`)
    process.exit(2)
  }
const logs = join(root, 'build/verify-logs')
mkdirSync(logs, { recursive: true })

const begin = performance.now()
const elapsed = (since = begin) => (performance.now() - since) / 1000
const expected = (form: Form) =>
  form.built !== undefined && !existsSync(join(root, form.built)) ? (form.cold ?? form.seconds) : form.seconds

async function take(step: Step): Promise<Outcome> {
  const form = quick ? step.quick : step.full
  const about = { name: step.name, proves: step.proves }
  const skip = (command: string, why: string): Outcome => ({
    ...about,
    command,
    state: 'skipped',
    why,
    seconds: 0,
  })
  if (typeof form === 'string') return skip(step.full.command, form)
  if (step.needs !== undefined && !found(step.needs)) return skip(form.command, `${step.needs} is missing`)
  const left = QUICK_SECONDS - elapsed()
  if (quick && asked === undefined && expected(form) > left)
    return skip(
      form.command,
      `it may take ${expected(form)} s, and ${Math.max(0, Math.round(left))} s of ten minutes are left`,
    )
  console.log(`\n== ${step.name}: ${form.command}`)
  const start = performance.now()
  const log = join(logs, `${step.name.replaceAll(/\W+/g, '-')}.log`)
  const status = await run(form.command, log)
  return {
    ...about,
    command: form.command,
    seconds: elapsed(start),
    ...judge(status, step.counts(readFileSync(log, 'utf8'))),
  }
}

/** Runs a command; what it prints goes to the terminal and to the log. */
function run(command: string, log: string): Promise<number> {
  const out = createWriteStream(log)
  return new Promise((done, reject) => {
    const child = spawn('bash', ['-c', command], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const [stream, shown] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ] as const)
      stream.on('data', (data: Buffer) => {
        out.write(data)
        shown.write(data)
      })
    child.on('error', reject)
    child.on('close', (code) => out.end(() => done(code ?? 1)))
  })
}

const outcomes: Outcome[] = []
for (const step of STEPS) if (asked?.includes(step.name) ?? true) outcomes.push(await take(step))

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
const about = {
  quick,
  date: new Date().toISOString().slice(0, 10),
  commit: existsSync(join(root, '.git'))
    ? `commit ${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '--untracked-files=no') === '' ? '' : ' with changes'}`
    : 'no repository',
  machine: `${cpus().length} cores, Node ${process.version}`,
}
if (values.json !== undefined)
  writeFileSync(values.json, `${JSON.stringify({ ...about, outcomes }, null, 2)}\n`)
console.log(`\n${page(outcomes, about)}`)
process.exitCode = outcomes.some((o) => o.state === 'failed') ? 1 : 0
