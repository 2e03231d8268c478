/** A copy of the core and its tests that holds every sampled mutant, built once. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutant } from './sample.ts'

const here = dirname(fileURLToPath(import.meta.url))

/** Copies what the native tests are built from, but for what mutants may stand in. What has not changed stays, and what make made of it. */
export function copyTree(root: string, work: string, mutable: ReadonlySet<string>): void {
  const differs = (from: string, to: string) =>
    statSync(from).isDirectory() ||
    (!mutable.has(relative(root, from)) && (!existsSync(to) || !readFileSync(from).equals(readFileSync(to))))
  mkdirSync(work, { recursive: true })
  for (const part of ['native', 'test/native', 'scripts', 'package.json'])
    cpSync(join(root, part), join(work, part), { recursive: true, filter: differs })
  const header = join(work, 'native/base/mutation.h')
  if (differs(join(here, 'mutation.h'), header)) cpSync(join(here, 'mutation.h'), header)
}

/** Writes the `mutable` files with `mutants`, from the originals: a file keeps its line numbers, but for one line at its head. */
export function writeMutants(
  root: string,
  work: string,
  mutants: readonly Mutant[],
  mutable: ReadonlySet<string>,
): void {
  const files = new Map<string, Mutant[]>([...mutable].map((file) => [file, []]))
  for (const mutant of mutants) files.get(mutant.file)!.push(mutant)
  for (const [file, own] of files) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    for (const { line, id, variant } of own) lines[line - 1] = variant.build(id)
    const text = `#include "base/mutation.h"  // NOLINT\n${lines.join('\n')}`
    const to = join(work, file)
    if (!existsSync(to) || readFileSync(to, 'utf8') !== text) writeFileSync(to, text)
  }
}

/**
 * The mutants whose lines the compiler refuses, by the files alone: in a header each would cost the build of all that includes it.
 * What only an instance of a template shows is left to `build`.
 */
export function refusals(work: string, mutants: readonly Mutant[]): Mutant[] {
  if (mutants.length === 0) return []
  const files = [...new Set(mutants.map((m) => m.file))]
  const headers = files.filter((file) => file.endsWith('.h'))
  const all = join(work, 'headers.cc')
  writeFileSync(all, headers.map((file) => `#include "${file.replace('native/', '')}"\n`).join(''))
  const lines = [all, ...files.filter((file) => file.endsWith('.cc'))].map((file) => {
    const run = spawnSync(
      'g++',
      ['-std=c++20', '-fno-exceptions', '-fno-rtti', '-w', '-fsyntax-only', '-Inative', file],
      { cwd: work, encoding: 'utf8' },
    )
    return run.stderr
  })
  return named(lines.join(''), mutants)
}

/** An error inside a template names the line that asked for it further down: each place named may be the cause. */
function named(errors: string, mutants: readonly Mutant[]): Mutant[] {
  const places = new Set<string>()
  for (const [, file, line] of errors.matchAll(/(native\/[\w/.]+):(\d+):\d+: +(?:error|required from)/g))
    places.add(`${file}:${Number(line) - 1}`)
  return mutants.filter((m) => places.has(`${m.file}:${m.line}`))
}

/** Builds all; returns the mutants whose lines the compiler refuses. Throws where the fault is no mutant's. */
export function build(work: string, mutants: readonly Mutant[]): Mutant[] {
  const run = spawnSync('bash', ['scripts/native-test.sh', '--list-test-suites'], {
    cwd: work,
    encoding: 'utf8',
    maxBuffer: 1 << 30,
    env: {
      ...process.env,
      MAKEFLAGS: 'k',
      BUILD: 'build',
      CXXFLAGS: '-O1 -w -D_GLIBCXX_ASSERTIONS',
    },
  })
  if (run.status === 0) return []
  const refused = named(run.stderr, mutants)
  if (refused.length === 0) throw new Error(`the tree does not build:\n${run.stderr.slice(0, 4000)}`)
  return refused
}
