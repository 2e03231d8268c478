/** A copy of the core and its tests that holds every sampled mutant, built once. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutant } from './sample.ts'

const here = dirname(fileURLToPath(import.meta.url))

/** Copies what the native tests are built from. */
export function copyTree(root: string, work: string): void {
  mkdirSync(work, { recursive: true })
  for (const part of ['native', 'test/native', 'scripts', 'package.json'])
    cpSync(join(root, part), join(work, part), { recursive: true })
  cpSync(join(here, 'mutation.h'), join(work, 'native/base/mutation.h'))
}

/** Writes the files of `mutants`, from the originals: a file keeps its line numbers, but for one line at its head. */
export function writeMutants(
  root: string,
  work: string,
  mutants: readonly Mutant[],
  touched: Set<string>,
): void {
  const files = new Map<string, Mutant[]>([...touched].map((file) => [file, []]))
  for (const mutant of mutants) files.set(mutant.file, [...(files.get(mutant.file) ?? []), mutant])
  for (const [file, own] of files) {
    touched.add(file)
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    for (const { line, id, variant } of own) lines[line - 1] = variant.build(id)
    const text = `#include "base/mutation.h"  // NOLINT\n${lines.join('\n')}`
    if (readFileSync(join(work, file), 'utf8') !== text) writeFileSync(join(work, file), text)
  }
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
      BUILD: join(work, 'build'),
      CXXFLAGS: '-O1 -w -D_GLIBCXX_ASSERTIONS',
    },
  })
  if (run.status === 0) return []
  const places = new Set<string>()
  // An error inside a template names the line that asked for it further down: each place named may be the cause.
  for (const [, file, line] of run.stderr.matchAll(/(native\/[\w/.]+):(\d+):\d+:/g))
    places.add(`${file}:${Number(line) - 1}`)
  const refused = mutants.filter((m) => places.has(`${m.file}:${m.line}`))
  if (refused.length === 0) throw new Error(`the tree does not build:\n${run.stderr.slice(0, 4000)}`)
  return refused
}
