import assert from 'node:assert/strict'
import * as counts from '../verify/counts.ts'
import { judge } from '../verify/judge.ts'
import { type Outcome, page } from '../verify/page.ts'
import { STEPS } from '../verify/steps.ts'

const DOCTEST = `[doctest] doctest version is "2.4.9"
test/native/pair_stations_test.cc:163: MESSAGE: 1088 runs, 60096 calls, 55143 transfers
\u001b[0;36m[doctest] \u001b[0mtest cases: \u001b[0;32m 514\u001b[0m | \u001b[0;32m 514 passed\u001b[0m | 0 failed | 3 skipped
[doctest] assertions: 1583133 | 1583133 passed | 0 failed |
[doctest] Status: SUCCESS!
`

const MOCHA = `
  the report
    ✔ opens

  1204 passing (4m)
  3 pending
`

const FUZZ = `== fuzz: simulator
84 inputs of the corpus, 1500 mutations, 9120 edges (8800 by the corpus)
== fuzz: pairs
60 inputs of the corpus, 1500 mutations, 7000 edges (6900 by the corpus)
`

const GATE = `dispatch    dispatch-64                  1,234,567 instructions   +0.1 %
planner     plan-greedy-light           12,345,678 instructions   +4.2 %   SLOWER
built in 30 s, counted in 2 s
more than 3 % more instructions than recorded: planner: plan-greedy-light
`

describe('the page of npm run verify', () => {
  it('counts what each command prints', () => {
    assert.deepEqual(counts.native(DOCTEST).numbers, {
      'test cases': 514,
      assertions: 1583133,
      scenarios: 1088,
    })
    // Several programs, or one in parts.
    assert.equal(counts.native(DOCTEST + DOCTEST).numbers['test cases'], 1028)
    assert.equal(
      counts.native('[doctest] assertions: 1,583,133 | 1,583,133 | 0\n').numbers.assertions,
      1583133,
    )
    assert.deepEqual(counts.mocha(MOCHA).numbers, { tests: 1204, skipped: 3 })
    assert.deepEqual(counts.fuzz(FUZZ).numbers, { targets: 2, executions: 3144, findings: 0 })
    assert.deepEqual(counts.fuzz(FUZZ + MOCHA).numbers, {
      targets: 2,
      executions: 3144,
      tests: 1204,
      skipped: 3,
      findings: 0,
    })
    assert.deepEqual(counts.check('Checked 612 files in 2s. No fixes applied.\n').numbers, {
      'files checked': 612,
    })
    assert.deepEqual(counts.gate(GATE).numbers, { 'hot paths': 2, slower: 1 })
    assert.deepEqual(counts.mutation('231 of 240 killed (96.3 %), 7 argued equivalent, 2 open\n').numbers, {
      mutants: 240,
      killed: 231,
      'argued equivalent': 7,
      open: 2,
    })
    assert.equal(
      counts.coverage(
        'coverage: native/ without binding/: 96.4 % (9500 of 9855 lines, 150 files)\ncoverage: lib/ without the report page: 95.2 % (7000 of 7353 lines, 210 files)\n',
      ).text,
      'native/ 96.4 % of 9855 lines, lib/ 95.2 % of 7353 lines',
    )
    assert.deepEqual(
      counts.studyCheck('200 runs, 2 cores\nok   1 worker: the same bytes\nok   2 workers\n').numbers,
      { runs: 200, checks: 2 },
    )
  })

  it('knows a failure by its exit code, its findings and its silence', () => {
    assert.equal(judge(0, counts.native(DOCTEST)).state, 'proved')
    assert.equal(judge(1, counts.native(DOCTEST)).state, 'failed')
    assert.equal(judge(0, counts.gate(GATE)).state, 'failed')
    assert.equal(judge(0, counts.native('')).why, 'it does not say what it did')
    assert.equal(judge(0, counts.coverage('')).state, 'failed')
    assert.equal(judge(0, counts.mutation('')).state, 'failed')
    const race = `WARNING: ThreadSanitizer: data race (pid=7)\n${DOCTEST}`
    assert.equal(judge(0, counts.sanitizers(race)).why, '1 findings')
    assert.equal(judge(0, counts.sanitizers(DOCTEST)).state, 'proved')
    assert.equal(judge(0, counts.fuzz(`${FUZZ}a.cc:3:1: runtime error: shift\n`)).state, 'failed')
    assert.equal(judge(0, counts.native(DOCTEST.replace('0 failed', '2 failed'))).why, '2 failed')
  })

  it('calls skipped what a command could not do, and says why', () => {
    const { state, why } = judge(0, counts.gate('gate skipped: valgrind is not installed\n'))
    assert.equal(state, 'skipped')
    assert.equal(why, 'valgrind is not installed')
    const elsewhere = 'recorded with g++ 12, vectors avx2; this is g++ 13, none: nothing is compared\n'
    assert.equal(judge(0, counts.gate(elsewhere)).state, 'skipped')
  })

  it('is one page: each step with its counts or its reason, then the sums', () => {
    const outcomes: Outcome[] = [
      {
        name: 'native tests',
        proves: 'the core',
        command: 'npm run test:native',
        seconds: 312,
        ...judge(0, counts.native(DOCTEST)),
      },
      {
        name: 'tests',
        proves: 'the facade',
        command: 'mocha',
        seconds: 58,
        ...judge(0, counts.mocha(MOCHA)),
      },
      { name: 'gate', proves: 'speed', command: 'npm run gate', seconds: 40, ...judge(1, counts.gate(GATE)) },
      {
        name: 'mutation',
        proves: 'tests notice',
        command: 'npm run mutate',
        state: 'skipped',
        why: 'takes hours',
        seconds: 0,
      },
    ]
    const text = page(outcomes, { quick: true, date: '2026-01-02', commit: 'commit abc', machine: '2 cores' })
    assert.equal(
      text,
      `laxity verify --quick, 2026-01-02
commit abc, 2 cores

ok   native tests  5 min, 514 test cases, 1,583,133 assertions, 1,088 scenarios
                   the core  [npm run test:native]
ok   tests         58 s, 1,204 tests, 3 skipped
                   the facade  [mocha]
FAIL gate          40 s, 2 hot paths, 1 slower; exit code 1
                   speed  [npm run gate]
skip mutation      not proved here: takes hours
                   tests notice  [npm run mutate]

In all: 514 test cases, 1,204 tests, 1,583,133 assertions, 1,088 scenarios.
2 of 4 steps proved, 1 failed, 1 skipped, 7 min.`,
    )
  })

  it('has a quick form of every step or a reason, none of which alone takes more than ten minutes', () => {
    for (const { quick } of STEPS) {
      if (typeof quick === 'string') assert.ok(quick.length > 10)
      else assert.ok((quick.cold ?? quick.seconds) <= 600)
    }
    assert.equal(new Set(STEPS.map((s) => s.name)).size, STEPS.length)
  })
})
