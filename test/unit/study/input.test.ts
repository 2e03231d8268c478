import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { errorLine } from '../../../lib/cli/errors.ts'
import { confirmSize } from '../../../lib/cli/study.ts'
import { openTrace } from '../../../lib/cli/trace.ts'
import { LaxityError } from '../../../lib/errors.ts'
import { parsePositioned } from '../../../lib/study/positions.ts'
import { resolveStudy } from '../../../lib/study/resolve.ts'
import { temporaryFolder } from '../../support/study.ts'
import { laxity, start } from '../cli/shared.ts'

const GOOD = `clusters: [hexgen-hetero-1]
workloads:
  - chess:3:5
rates: [0.5, 1]
policies:
  - vllm
  - {policy: laxity, name: mine}
parameters:
  alpha: "0:1:0.5"
seeds: [1, 2]
options:
  knowledge: online
`

/** Each gives one line with a code and the place, status 2, and no folder. */
describe('bad input to a study', () => {
  const folder = temporaryFolder()
  let count = 0

  async function refused(
    text: string,
    code: string,
    message: RegExp,
    name = 'study.yaml',
    args: string[] = [],
  ) {
    const path = join(folder(), `${count++}-${name}`)
    writeFileSync(path, text)
    const before = readdirSync(folder())
    const { status, stdout, stderr } = await laxity('study', path, ...args)
    assert.equal(stdout, '')
    assert.equal(status, 2)
    checkLine(stderr, code, message)
    assert.deepEqual(readdirSync(folder()), before)
  }

  /** The same without a process: what the command does before a run, and the line it would print. */
  async function refusedHere(text: string, code: string, message: RegExp, name = 'study.yaml') {
    const { signal } = new AbortController()
    const resolving = parsePositioned(text, name).then((source) =>
      resolveStudy(source, {
        folder: folder(),
        openTrace: (argument, format) => openTrace(argument, signal, { format }),
        onSize: (runs, size) => confirmSize(runs, size, false),
      }),
    )
    await assert.rejects(resolving, (error) => {
      assert(error instanceof LaxityError, String(error))
      checkLine(`${errorLine(error)}\n`, code, message)
      return true
    })
  }

  function checkLine(line: string, code: string, message: RegExp): void {
    assert.match(line, /^laxity: [^\n]+ \[ERR_LAXITY_[A-Z0-9_]+\]\n$/)
    assert(line.endsWith(`[${code}]\n`), line)
    assert.match(line, message)
  }

  const changed = (from: string | RegExp, to: string) => {
    const text = GOOD.replace(from, to)
    assert.notEqual(text, GOOD)
    return text
  }

  const cases: [name: string, text: string, code: string, message: RegExp, file?: string][] = [
    [
      'YAML that is none',
      'clusters: [a\nworkloads: {',
      'ERR_LAXITY_SYNTAX',
      /study\.yaml:2:\d+: Not valid YAML/,
    ],
    ['bad indentation', 'a:\n  b: 1\n c: 2\n', 'ERR_LAXITY_SYNTAX', /study\.yaml:3:\d+: Not valid YAML/],
    ['a key twice', 'name: a\nname: b\n', 'ERR_LAXITY_SYNTAX', /study\.yaml:2:1: .*unique/],
    ['an alias that is not there', 'clusters: *x\n', 'ERR_LAXITY_SYNTAX', /study\.yaml:1:\d+: .*alias/i],
    [
      'JSON that is none',
      '{"clusters": [1,\n 2,]}',
      'ERR_LAXITY_SYNTAX',
      /study\.json:2:\d+: Not valid JSON/,
      'study.json',
    ],
    [
      'JSON that ends early',
      '{"clusters": [',
      'ERR_LAXITY_SYNTAX',
      /study\.json:1:\d+: Not valid JSON/,
      'study.json',
    ],
    ['nothing', '', 'ERR_LAXITY_FIELD', /study\.yaml:1:1: Expected an object for `study`, got null/],
    ['a list', '- a\n', 'ERR_LAXITY_FIELD', /study\.yaml:1:1: Expected an object for `study`, got an array/],
    [
      'no clusters',
      changed(/clusters.*\n/, ''),
      'ERR_LAXITY_FIELD',
      /Expected a list of at least one cluster for `clusters`, got undefined/,
    ],
    [
      'an unknown field',
      changed('rates', 'rate'),
      'ERR_LAXITY_FIELD',
      /:4:1: rate: Unknown field `rate`; did you mean "rates"\?/,
    ],
    [
      'an unknown field inside',
      changed('name: mine', 'nam: mine'),
      'ERR_LAXITY_FIELD',
      /:7:\d+: policies\[1\]\.nam: Unknown field/,
    ],
    ['a rate that is text', changed('[0.5, 1]', '[0.5, fast]'), 'ERR_LAXITY_FIELD', /:4:\d+: rates/],
    [
      'a negative rate',
      changed('[0.5, 1]', '[0.5, -1]'),
      'ERR_LAXITY_OPTION',
      /:4:14: rates\[1\]: Expected a positive number .* got -1/,
    ],
    [
      'a rate twice',
      changed('[0.5, 1]', '[0.5, 0.5]'),
      'ERR_LAXITY_FIELD',
      /:4:1: rates: 0\.5 is given twice/,
    ],
    [
      'a bad grid',
      changed('0:1:0.5', '1:0:0.5'),
      'ERR_LAXITY_OPTION',
      /:9:\d+: parameters\.alpha: .*from:to:step/,
    ],
    [
      'alpha above 1',
      changed('0:1:0.5', '0:2:1'),
      'ERR_LAXITY_OPTION',
      /:9:\d+: parameters\.alpha: .*`alpha`, got 2/,
    ],
    [
      'an unknown policy',
      changed('- vllm', '- vlm'),
      'ERR_LAXITY_OPTION',
      /:6:5: policies\[0\]: Unknown policy "vlm"; did you mean "vllm"/,
    ],
    [
      'an unknown parameter',
      changed('alpha', 'alfa'),
      'ERR_LAXITY_OPTION',
      /:9:\d+: parameters\.alfa: Unknown parameter/,
    ],
    [
      'a fractional seed',
      changed('seeds: [1, 2]', 'seeds: [1, 2.5]'),
      'ERR_LAXITY_OPTION',
      /:10:12: seeds\[1\]: Expected a safe integer/,
    ],
    [
      'an unknown option',
      changed('knowledge', 'knowlege'),
      'ERR_LAXITY_FIELD',
      /:12:3: options\.knowlege: .*did you mean "knowledge"/,
    ],
    [
      'an option of another place',
      changed('knowledge: online', 'rate: 3'),
      'ERR_LAXITY_FIELD',
      /:12:3: options\.rate: `rate` is no option of a study/,
    ],
    [
      'a bad value of an option',
      changed('online', 'onlin'),
      'ERR_LAXITY_OPTION',
      /:12:14: options\.knowledge: Unknown knowledge "onlin"/,
    ],
    [
      'a bad override',
      changed('knowledge: online', 'tp: 3'),
      'ERR_LAXITY_OPTION',
      /:12:7: options\.tp: .*1, 2, 4 or 8/,
    ],
    [
      'an unknown cluster',
      changed('hetero-1', 'hetero-9'),
      'ERR_LAXITY_OPTION',
      /:1:12: clusters\[0\]: Unknown cluster/,
    ],
    [
      'a cluster with a fault',
      changed('[hexgen-hetero-1]', '[{instances: [{gpu: abacus}]}]'),
      'ERR_LAXITY_FIELD',
      /:1:\d+: clusters\[0\]: .*instances\[0\]\.gpu/,
    ],
    [
      'a cluster twice',
      changed('[hexgen-hetero-1]', '[hexgen-homo, hexgen-homo]'),
      'ERR_LAXITY_FIELD',
      /:1:\d+: clusters\[1\]: "hexgen-homo" is there twice/,
    ],
    [
      'a trace that is not there',
      changed('chess:3:5', 'gone.jsonl'),
      'ERR_LAXITY_FILE',
      /:3:5: workloads\[0\]: gone\.jsonl: Cannot be read \(ENOENT\)|:3:5: workloads\[0\]: .*gone\.jsonl/,
    ],
    [
      'a bad generated trace',
      changed('chess:3:5', 'chess:7'),
      'ERR_LAXITY_OPTION',
      /:3:5: workloads\[0\]: Expected one of chess:1/,
    ],
    [
      'more runs than there may be',
      changed('seeds: [1, 2]', 'seeds: "1:10000:1"')
        .replace('[0.5, 1]', '"0.01:100:0.01"')
        .replace('0:1:0.5', '0:1:0.001'),
      'ERR_LAXITY_LIMIT',
      /:1:1: 1 cluster × 1 workload × 10000 rates × 2 policies × 1001 of alpha × 10000 seeds = 200200000000 runs: at most 10000000/,
    ],
    [
      'more runs than are made unasked',
      changed('seeds: [1, 2]', 'seeds: "1:10000:1"'),
      'ERR_LAXITY_LIMIT',
      /= 120000 runs: more than 100,000, so say `--yes`/,
    ],
  ]
  for (const [name, text, code, message, file] of cases) {
    it(`says where: ${name}`, () => refusedHere(text, code, message, file))
  }

  it('says so on the command line, and writes nothing', async () => {
    for (const [, text, code, message, file] of [cases[0]!, cases[4]!, cases[12]!, cases.at(-1)!]) {
      await refused(text, code, message, file)
    }
  })

  it('lists all problems at once', async () => {
    const text = changed('online', 'onlin').replace('- vllm', '- vlm').replace('[0.5, 1]', '[0.5, -1]')
    await refusedHere(text, 'ERR_LAXITY_OPTION', /3 problems: .*:12:14: .*:6:5: .*:4:14: /s)
  })

  it('does not blow up on nesting and aliases', async () => {
    await refusedHere(`clusters: ${'['.repeat(20_000)}`, 'ERR_LAXITY_SYNTAX', /Not valid YAML/)
    const levels = Array.from({ length: 20 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(10)}]`)
    await refusedHere(`a0: &a0 [x]\n${levels.join('\n')}\n`, 'ERR_LAXITY_SYNTAX', /alias/i)
  })

  it('refuses flags that do not fit', async () => {
    for (const [args, message] of [
      [['--workers', '0'], /`--workers`/],
      [['--out', ''], /`--out`/],
      [['--redis', 'http://x:secret@y'], /for `--redis`/],
      [['--redis', 'redis://127.0.0.1:1', '--workers', '2'], /`--workers` are threads of a local run/],
    ] as const) {
      await refused(GOOD, 'ERR_LAXITY_OPTION', message, 'study.yaml', [...args])
    }
  })

  it('says that a Redis cannot be reached, without its password', async () => {
    const url = 'redis://user:s3cret@127.0.0.1:1'
    const path = join(folder(), 'unreachable.yaml')
    writeFileSync(path, GOOD)
    for (const args of [
      ['study', path, '--redis', url],
      ['worker', '--redis', url],
    ]) {
      const { status, stderr } = await laxity(...args)
      assert.match(
        stderr,
        /redis:\/\/user:…@127\.0\.0\.1:1: Cannot be reached \(ECONNREFUSED\) \[ERR_LAXITY_REDIS\]\n$/,
      )
      assert(!stderr.includes('s3cret'))
      assert.equal(status, 2)
    }
  })

  it('says which packages to install for a Redis', () => {
    // Node resolves these names no more, as where they are not installed.
    const resolve = `export async function resolve(name, context, next) {
      if (name !== 'bullmq' && name !== 'ioredis') return next(name, context)
      throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' })
    }`
    const dataUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
    const hook = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(resolve))})`
    const args = ['--import=tsx', `--import=${dataUrl(hook)}`, 'lib/cli/main.ts']
    const { status, stderr } = spawnSync(
      process.execPath,
      [...args, 'worker', '--redis', 'redis://127.0.0.1:1'],
      {
        cwd: fileURLToPath(new URL('../../..', import.meta.url)),
        encoding: 'utf8',
      },
    )
    assert.match(stderr, /run `npm install bullmq ioredis` \[ERR_LAXITY_PACKAGE\]\n$/)
    assert.equal(status, 2)
  })

  it('runs the good one, from YAML as from JSON', async () => {
    const path = join(folder(), 'good.yaml')
    writeFileSync(path, GOOD)
    writeFileSync(join(folder(), 'good.json'), JSON.stringify(parse(GOOD)))
    const yaml = JSON.parse((await laxity('study', path, '--json')).stdout)
    assert.deepEqual([yaml.command, yaml.runs, yaml.doneRuns, yaml.aside], ['study', 24, 24, []])
    const json = JSON.parse(
      (await laxity('study', join(folder(), 'good.json'), '--json', '--out', join(folder(), 'j'))).stdout,
    )
    assert.equal(json.id, yaml.id)
    const text = await start(['study', path]).outcome
    assert.equal(text.status, 0)
    assert.match(text.stdout, /24 of 24 runs, 24 of them from before/)
  })
})
