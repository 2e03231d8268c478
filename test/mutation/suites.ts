/** The native suites: what they cost, which mutants they pass, and whether they notice one. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Suite {
  readonly name: string
  readonly seconds: number
  readonly passes: ReadonlySet<number>
}

const binary = (work: string) => join(work, 'build/native-test')
const only = (name: string) => `--test-suite=${name.replaceAll(',', '?')}`

/** Runs each suite once, cheapest first in the answer. Throws where one fails without any mutant. */
export function record(work: string): Suite[] {
  const listed = spawnSync(binary(work), ['--list-test-suites', '--no-colors'], { encoding: 'utf8' })
  const names = listed.stdout
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^(\[doctest\]|=+$)/.test(line))
  const file = join(work, 'passed')
  const suites = names.map((name) => {
    const start = performance.now()
    const run = spawnSync(binary(work), [only(name)], {
      cwd: work,
      encoding: 'utf8',
      env: { ...process.env, LAXITY_MUTANT_RECORD: file },
    })
    if (run.status !== 0)
      throw new Error(`suite "${name}" fails without a mutant:\n${run.stdout.slice(-3000)}`)
    const bytes = readFileSync(file)
    const passes = new Set<number>()
    for (const [id, passed] of bytes.entries()) if (passed !== 0) passes.add(id)
    return { name, seconds: (performance.now() - start) / 1000, passes }
  })
  return suites.sort((a, b) => a.seconds - b.seconds)
}

/** The first suite that notices the mutant, or undefined. A run that takes 10 times its time has noticed too. */
export async function killer(
  work: string,
  suites: readonly Suite[],
  id: number,
): Promise<string | undefined> {
  for (const suite of suites) {
    if (!suite.passes.has(id)) continue
    const status = await exit(work, suite, id)
    if (status !== 0) return suite.name
  }
  return undefined
}

function exit(work: string, suite: Suite, id: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary(work), [only(suite.name), '--abort-after=1'], {
      cwd: work,
      stdio: 'ignore',
      env: { ...process.env, LAXITY_MUTANT: String(id) },
      timeout: 10_000 + suite.seconds * 10_000,
      killSignal: 'SIGKILL',
    })
    child.on('error', reject)
    child.on('exit', (code) => resolve(code ?? 1))
  })
}
