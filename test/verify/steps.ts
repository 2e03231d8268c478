/** What proves something, each by the command that CONTRIBUTING names, and what of it fits into ten minutes. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as counts from './counts.ts'

export interface Form {
  /** Run by bash from the repository's root. */
  readonly command: string
  /** How long it takes on two cores, at most; `cold` without the objects of an earlier run. */
  readonly seconds: number
  readonly cold?: number
  /** The file that says that it is not cold. */
  readonly built?: string
}

export interface Step {
  readonly name: string
  readonly proves: string
  readonly counts: (output: string) => counts.Counts
  readonly full: Form
  /** A string: why it is not part of the quick form. */
  readonly quick: Form | string
  /** A program or file without which there is nothing to run. */
  readonly needs?: string
}

const MOCHA = 'node node_modules/mocha/bin/mocha.js'
const SOME = `${MOCHA} --no-config --node-option import=tsx --timeout 120000`

/** Native suites that are short and between them touch every part of the core. */
const QUICK_SUITES =
  'base structures workflow scheduler pair_scheduler planner live links stations pair_stations pair_engines engine_modes policies'

export const STEPS: readonly Step[] = [
  {
    name: 'check',
    proves: 'formatting, lint, types',
    counts: counts.check,
    full: { command: 'npm run --silent check', seconds: 90 },
    quick: { command: 'npm run --silent check', seconds: 90 },
  },
  {
    name: 'build',
    proves: 'JavaScript, declarations and the report page come out of it',
    counts: () => ({ numbers: {}, text: 'built' }),
    full: { command: 'npm run --silent build', seconds: 40 },
    quick: { command: 'npm run --silent build', seconds: 40 },
  },
  {
    name: 'native tests',
    proves:
      'the core: queueing theory, laws, leaping = stepping, naive = fast, metamorphic relations, goldens',
    counts: counts.native,
    full: {
      command: 'bash scripts/native-test.sh',
      seconds: 900,
      cold: 1800,
      built: 'build/native-test/native-test',
    },
    quick: {
      command: `SUITES="${QUICK_SUITES}" BUILD=build/verify bash scripts/native-test.sh --no-version`,
      seconds: 40,
      cold: 180,
      built: 'build/verify/native-test',
    },
    needs: '/usr/include/doctest/doctest.h',
  },
  {
    name: 'tests',
    proves: 'the facade, the live scheduler, adapters, command line, report and package',
    counts: counts.mocha,
    full: { command: MOCHA, seconds: 1200 },
    quick: {
      command: `${SOME} "test/contract/*.test.ts" "test/live/*.test.ts" "test/unit/{simulator,traces,cluster}/*.test.ts"`,
      seconds: 120,
    },
  },
  {
    name: 'hazards',
    proves: 'garbage collection, exits, workers, buffers, clocks, limits; in full: no leak over 10^7 calls',
    counts: counts.mocha,
    full: { command: 'npm run --silent hazards:long', seconds: 1800 },
    quick: {
      command: `${SOME} test/hazards/{detached-buffers,thrown-callback,number-limits,clock-backwards,id-reuse}.test.ts`,
      seconds: 60,
    },
  },
  {
    name: 'sanitizers: core',
    proves: 'no address or undefined behaviour that ASan and UBSan see',
    counts: counts.sanitizers,
    full: { command: 'bash scripts/sanitize.sh core', seconds: 3600 },
    quick: {
      command: 'bash scripts/sanitize.sh --quick core',
      seconds: 60,
      cold: 240,
      built: 'build/sanitize/core/native-test',
    },
    needs: '/usr/include/doctest/doctest.h',
  },
  {
    name: 'sanitizers: threads',
    proves: 'no data race that TSan sees',
    counts: counts.sanitizers,
    full: { command: 'bash scripts/sanitize.sh threads', seconds: 3600 },
    quick: {
      command: 'bash scripts/sanitize.sh --quick threads',
      seconds: 20,
      cold: 120,
      built: 'build/sanitize/threads/native-test',
    },
    needs: '/usr/include/doctest/doctest.h',
  },
  {
    name: 'sanitizers: addon',
    proves: 'the same of the addon inside Node, with its workers',
    counts: counts.sanitizers,
    full: { command: 'bash scripts/sanitize.sh addon', seconds: 3600 },
    quick: 'compiles the addon again; a part of it is its own command: scripts/sanitize.sh --quick addon',
  },
  {
    name: 'fuzzing',
    proves:
      'no input crashes parsers, scheduler, planner, simulator or logs; fast = naive and leaping = stepping on all',
    counts: counts.fuzz,
    full: { command: 'npm run --silent fuzz', seconds: 5400 },
    quick: {
      command: 'FUZZ_RUNS=500 bash scripts/fuzz.sh --quick',
      seconds: 40,
      cold: 90,
      built: 'build/sanitize/core/fuzz-pairs',
    },
  },
  {
    name: 'gate',
    proves: 'no hot path takes more instructions than recorded',
    counts: counts.gate,
    full: { command: 'npm run --silent gate', seconds: 900 },
    quick: { command: 'npm run --silent gate', seconds: 30, cold: 150, built: 'build/gate/hot-paths' },
    needs: 'valgrind',
  },
  {
    name: 'coverage',
    proves: 'at least 95 % of the lines of lib/ and native/ run under the tests',
    counts: counts.coverage,
    full: { command: 'npm run --silent coverage', seconds: 5400 },
    quick: 'runs all tests with counters',
  },
  {
    name: 'mutation',
    proves: 'the native tests notice a broken line',
    counts: counts.mutation,
    full: { command: 'npm run --silent mutate', seconds: 2 * 3600 },
    quick: 'takes an hour',
  },
  {
    name: 'studies',
    proves: '10,000 runs over Redis: the same bytes with workers killed, nothing lost',
    counts: counts.studyCheck,
    full: { command: 'npm run --silent study-check', seconds: 1800 },
    quick: 'a short study says nothing of the overhead; the tests over Redis are among the full tests',
    needs: 'redis-server',
  },
]

/** Whether a program is on the path. */
export function found(program: string): boolean {
  if (program.includes('/')) return existsSync(program)
  return (process.env.PATH ?? '')
    .split(':')
    .some((folder) => folder !== '' && existsSync(join(folder, program)))
}
