// Builds a program of bench/ with the core's objects (scripts/native.mk). BUILD may name the folder of the native tests: its objects
// are used where they were compiled with the same flags, which the makefile notes in FOLDER/flags. Otherwise build/bench.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
/** What the native tests use by default; counts of instructions are of these. */
const FLAGS = 'g++ -O2 -g1'

/** CXX may put a launcher before the compiler (`ccache g++`). */
function compiler() {
  const words = (process.env.CXX ?? '').trim().split(/\s+/)
  return words.at(-1) === 'g++' ? words.join(' ') : 'g++'
}

function folder() {
  const { BUILD } = process.env
  if (BUILD === undefined) return join(root, 'build/bench')
  const flags = join(BUILD, 'flags')
  if (existsSync(flags) && readFileSync(flags, 'utf8').trim() === FLAGS) return resolve(BUILD)
  console.error(`the objects in ${BUILD} are not of ${FLAGS}: building in build/bench`)
  return join(root, 'build/bench')
}

export function buildProgram(name) {
  // Relative, as a compiler cache names targets in its lists of headers.
  const build = relative(root, folder())
  const program = join(build, name)
  const started = performance.now()
  const settings = [`CXX=${compiler()}`, 'CXXFLAGS=-O2 -g1', `BUILD=${build}`, `-j${availableParallelism()}`]
  execFileSync('make', ['--no-print-directory', '-s', '-f', 'scripts/native.mk', ...settings, program], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  return { program: join(root, program), seconds: (performance.now() - started) / 1000 }
}
