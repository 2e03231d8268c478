// The oracles of the native tests as slow rivals: built with the core by scripts/native.mk (BUILD: the folder, shared with the
// native tests where their flags are the same), run as a program of their own. They are not in the package.
import { execFileSync, spawnSync } from 'node:child_process'
import { buildProgram } from '../native-program.js'

let program
let missing = false

/** What `oracles <args>` measured; undefined where there is no compiler. */
export function oracle(args) {
  if (missing) return undefined
  if (program === undefined) {
    if (spawnSync('make', ['--version']).status !== 0 || spawnSync('g++', ['--version']).status !== 0) {
      missing = true
      console.error('  the oracles are left out: they need make and g++')
      return undefined
    }
    program = buildProgram('oracles').program
  }
  return JSON.parse(execFileSync(program, args.map(String), { encoding: 'utf8', maxBuffer: 2 ** 26 }))
}
