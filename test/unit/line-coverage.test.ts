import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COMMAND = pathToFileURL(join(ROOT, 'scripts/line-coverage/lib.mjs')).href

const LIBRARY = `export interface Shape {
  size: number
}

// Says which of its sides is taken.
export function side(left: boolean): string {
  if (left) {
    return 'left'
  }
  return 'right'
}

export const never = (shape: Shape) =>
  shape.size
`

describe('line coverage of lib', function () {
  this.timeout(60_000)
  let root: string

  before(() => {
    // Below the repository, where tsx is found.
    mkdirSync(join(ROOT, 'build'), { recursive: true })
    root = mkdtempSync(join(ROOT, 'build/line-coverage-'))
    mkdirSync(join(root, 'lib'))
    writeFileSync(join(root, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(root, 'lib/side.ts'), LIBRARY)
    writeFileSync(join(root, 'lib/unused.ts'), 'export const one = 1\n')
    writeFileSync(join(root, 'thread.cjs'), "require('./lib/side.ts').side(false)")
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  /** Counts over one test file; what the command prints is not this test's. */
  function count(test: string) {
    writeFileSync(join(root, 'some.test.ts'), test)
    const code = `import { libCoverage } from ${JSON.stringify(COMMAND)}
      console.log('\\n' + JSON.stringify(libCoverage(${JSON.stringify(root)}, ['some.test.ts'])))`
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' })
    return { ...run, files: () => JSON.parse(run.stdout.trimEnd().split('\n').at(-1)!) }
  }

  it('unites what a process, its child and its thread ran, as a module and as CommonJS', () => {
    const run = count(`
      import assert from 'node:assert/strict'
      import { spawnSync } from 'node:child_process'
      import { once } from 'node:events'
      import { Worker } from 'node:worker_threads'
      import { side } from './lib/side.ts'
      it('imports', () => assert.equal(typeof side, 'function'))
      it('has a child', () => {
        const code = "import('./lib/side.ts').then((m) => process.exit(m.side(true) === 'left' ? 0 : 1))"
        assert.equal(spawnSync(process.execPath, ['--import=tsx', '-e', code]).status, 0)
      })
      it('has a thread that requires', async () => {
        const [status] = await once(new Worker(new URL('thread.cjs', import.meta.url)), 'exit')
        assert.equal(status, 0)
      })
    `)
    assert.equal(run.status, 0, run.stderr)
    assert.deepEqual(run.files(), [
      { file: 'lib/side.ts', lines: 5, missed: [14] },
      { file: 'lib/unused.ts', lines: 1, missed: [1] },
    ])
  })

  it('takes no numbers of a source without its own map', () => {
    const run = count(`
      import { createRequire } from 'node:module'
      it('loads it twice', async () => {
        createRequire(import.meta.url)('./lib/side.ts').side(true)
        await import('./lib/side.ts')
      })
    `)
    assert.notEqual(run.status, 0)
    assert.match(run.stderr, /no source map of the \d+ characters that ran as file:.*lib\/side\.ts/)
  })

  for (const [how, body, message] of [
    ['fails', "throw new Error('no')", /the tests fail/],
    [
      'is interrupted',
      "process.kill(process.pid, 'SIGINT')\nawait new Promise((end) => setTimeout(end, 30_000))",
      /the tests end by SIGINT/,
    ],
  ] as const)
    it(`refuses a run that ${how}`, () => {
      const run = count(`it('passes', () => {})\nit('${how}', async () => {\n${body}\n})`)
      assert.notEqual(run.status, 0)
      assert.match(run.stderr, message)
    })
})
