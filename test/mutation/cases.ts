/** The native test cases: what each costs, which mutants it passes, and whether it notices one. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Named {
  /** Its place in the program, from 1. */
  readonly place: number
  readonly name: string
  readonly suite: string
}
export interface Case extends Named {
  /** Of a processor. */
  readonly seconds: number
  readonly passes: ReadonlySet<number>
}

/** How a case noticed: a failed check, an abort or a crash, or no end in time. */
export type Notice = 'check' | 'crash' | 'time'
export interface Killer {
  readonly suite: string
  readonly name: string
  readonly notice: Notice
}

/** A mutant that allocates without end must not take the machine with it. */
const MOST_KIB = 6 << 20
/** Processor seconds: a busy machine must not look like a mutant that does not end. */
const limit = (seconds: number) => Math.ceil(2 + 5 * seconds)
const binary = (work: string) => join(work, 'build/native-test')
/** What a shell says of a program that SIGXCPU (24) ended. */
const BY_LIMIT = 128 + 24
const TEST_CASE = /<TestCase name="([^"]*)"(?: testsuite="([^"]*)")?/g
const alone = (place: number) => [`--first=${place}`, `--last=${place}`]

/** The cases of the program, in its order. */
export function list(work: string): Named[] {
  const listed = spawnSync(binary(work), ['--list-test-cases', '--reporters=xml'], { encoding: 'utf8' })
  return [...listed.stdout.matchAll(TEST_CASE)].map(([, name, suite], i) => ({
    place: i + 1,
    name: name!,
    suite: suite ?? '',
  }))
}

/**
 * Runs a case without a mutant, in a process of its own. Undefined where it takes more than `most` processor seconds, all of them
 * whole. Throws where it fails.
 */
export function measure(work: string, test: Named, most: number): Case | undefined {
  const file = join(work, 'passed')
  const run = spawnSync(
    'bash',
    [
      '-c',
      'ulimit -S -t "$1"; shift; "$@"; status=$?; times >&2; exit $status',
      'bash',
      String(most),
      binary(work),
      ...alone(test.place),
      '--reporters=xml',
      '--no-skipped-summary',
    ],
    { cwd: work, encoding: 'utf8', env: { ...process.env, LAXITY_MUTANT_RECORD: file } },
  )
  if (run.status === BY_LIMIT) return undefined
  const ran = [...run.stdout.matchAll(TEST_CASE)].map(([, one]) => one)
  if (run.status !== 0 || ran.length !== 1 || ran[0] !== test.name)
    throw new Error(`case "${test.name}" fails without a mutant:\n${run.stdout.slice(-3000)}`)
  const passes = new Set<number>()
  for (const [id, passed] of readFileSync(file).entries()) if (passed !== 0) passes.add(id)
  return { ...test, seconds: processorSeconds(run.stderr), passes }
}

/** Of the children, from the second line of the shell's `times`. */
function processorSeconds(times: string): number {
  const line = times.trim().split('\n').at(-1)!
  return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + 60 * Number(minutes) + Number(seconds),
    0,
  )
}

/** The first case that notices the mutant, or undefined. */
export async function killer(work: string, cases: readonly Case[], id: number): Promise<Killer | undefined> {
  for (const test of cases) {
    if (!test.passes.has(id)) continue
    const notice = await run(work, test, id)
    if (notice !== undefined) return { suite: test.suite, name: test.name, notice }
  }
  return undefined
}

function run(work: string, { place, seconds }: Case, id: number): Promise<Notice | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn(
      'bash',
      [
        '-c',
        'ulimit -c 0 -v "$1" -t "$2"; shift 2; exec "$@"',
        'bash',
        String(MOST_KIB),
        String(limit(seconds)),
        binary(work),
        ...alone(place),
        '--abort-after=1',
      ],
      {
        cwd: work,
        stdio: 'ignore',
        env: { ...process.env, LAXITY_MUTANT: String(id) },
        // What sleeps for ever uses no processor.
        timeout: Math.ceil(60_000 + seconds * 60_000),
        killSignal: 'SIGKILL',
      },
    )
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      if (code === 0) resolve(undefined)
      else if (signal === 'SIGXCPU' || signal === 'SIGKILL') resolve('time')
      else resolve(signal === null ? 'check' : 'crash')
    })
  })
}
