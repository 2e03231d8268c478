import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const { platform, arch } = process
const LIBC = platform === 'linux' ? (existsSync('/etc/alpine-release') ? 'musl' : 'glibc') : undefined
const PLATFORM = [platform, arch, ...(LIBC ? [LIBC] : [])].join('-')
const MOST_BYTES = 1_000_000

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  version: string
  exports: Record<string, string | { import: { default: string }; require: { default: string } }>
}

interface Packed {
  path: string
  size: number
  files: string[]
}

/** The package as npm ships it, installed in empty folders. It needs `npm run build` before, as `npm test` does it. */
describe('the package as shipped', function () {
  this.timeout(600_000)
  let folder: string
  let packages: string
  let main: Packed
  let addon: Packed

  const npm = (args: string[], cwd: string, env: NodeJS.ProcessEnv = {}) =>
    execFileSync('npm', [...args, '--no-audit', '--no-fund'], {
      cwd,
      encoding: 'utf8',
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  const node = (cwd: string, ...args: string[]) =>
    spawnSync(process.execPath, args, { cwd, encoding: 'utf8', timeout: 400_000 })
  const pack = (name: string): Packed => {
    const [packed] = JSON.parse(npm(['pack', '--json', join(packages, name)], folder)) as {
      filename: string
      size: number
      files: { path: string }[]
    }[]
    return {
      path: join(folder, packed!.filename),
      size: packed!.size,
      files: packed!.files.map(({ path }) => path),
    }
  }
  /** An empty folder with these packages. */
  const install = (name: string, what: string[], ...flags: string[]) => {
    const at = join(folder, name)
    mkdirSync(at)
    writeFileSync(join(at, 'package.json'), '{ "private": true }\n')
    npm(['install', '--prefer-offline', ...flags, ...what], at)
    return at
  }
  const runs = (at: string) => {
    const bin = join(at, 'node_modules/.bin/laxity')
    const out = execFileSync(bin, ['simulate', 'chess:3:4', '--json'], { cwd: at, encoding: 'utf8' })
    assert.equal((JSON.parse(out) as { counts: { completed: number } }).counts.completed, 4)
  }

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-package-'))
    packages = join(folder, 'packages')
    let prebuilds = process.env.LAXITY_PREBUILDS
    if (prebuilds === undefined) {
      // The addon of this checkout, named and stripped as prebuildify does it.
      prebuilds = join(folder, 'prebuilds')
      const file = join(prebuilds, `${platform}-${arch}`, `laxity${LIBC ? `.${LIBC}` : ''}.node`)
      mkdirSync(join(prebuilds, `${platform}-${arch}`), { recursive: true })
      copyFileSync(join(ROOT, 'build/Release/laxity.node'), file)
      if (platform === 'linux') execFileSync('strip', [file])
    }
    execFileSync(
      process.execPath,
      ['scripts/platform-packages.mjs', '--prebuilds', prebuilds, '--out', packages],
      { cwd: ROOT },
    )
    main = pack('laxity')
    addon = pack(PLATFORM)
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  it('holds what it should, and less than 1 MB', () => {
    const allowed =
      /^(dist\/.*\.(js|d\.ts|css)|dist\/commonjs\/package\.json|native\/.*\.(cc|h)|schemas\/.*\.json|docs\/.*\.(md|svg)|examples\/.*\.(js|json|jsonl)|scripts\/(native-sources\.mjs|prebuilt\.cjs)|binding\.gyp|package\.json|README\.md|LICENSE)$/
    assert.deepEqual(
      main.files.filter((path) => !allowed.test(path)),
      [],
    )
    for (const path of [
      'binding.gyp',
      'scripts/native-sources.mjs',
      'dist/index.d.ts',
      'dist/report/html/client.js',
    ])
      assert(main.files.includes(path), path)
    assert(main.size < MOST_BYTES, `${main.size} bytes`)
    assert(addon.size < MOST_BYTES, `${addon.size} bytes`)
    assert.deepEqual(addon.files.sort(), ['LICENSE', 'README.md', 'laxity.node', 'package.json'])
  })

  it('is what publint and attw want', async () => {
    const { publint } = await import('publint')
    const { messages } = await publint({ pkgDir: join(packages, 'laxity'), pack: false, strict: true })
    assert.deepEqual(messages, [])
    const attw = join(ROOT, 'node_modules/@arethetypeswrong/cli/dist/index.js')
    // node16: of what older resolutions made of subpaths no supported Node knows.
    const { status, stdout } = node(folder, attw, '--profile', 'node16', '--no-color', main.path)
    assert.equal(status, 0, stdout)
  })

  describe('with the prebuilt addon', () => {
    let at: string
    before(() => {
      at = install('prebuilt', [main.path, addon.path])
    })

    it('compiles nothing, and runs', () => {
      assert(!existsSync(join(at, 'node_modules/laxity/build')))
      runs(at)
    })

    it('gives `import` and `require` the same modules, without a warning', () => {
      const entries = Object.entries(manifest.exports).flatMap(([path, target]) =>
        typeof target === 'string' ? [] : [path.replace('.', 'laxity')],
      )
      assert(entries.length >= 8)
      writeFileSync(
        join(at, 'both.cjs'),
        `const assert = require('node:assert')
        async function main() {
          for (const name of ${JSON.stringify(entries)}) {
            const required = require(name)
            const imported = await import(name)
            assert(Object.keys(required).length > 0, name)
            for (const [key, value] of Object.entries(required)) assert.equal(imported[key], value, name + ': ' + key)
          }
          const { simulate, chessTrace } = require('laxity')
          const trace = await chessTrace({ workflows: 3, preset: 3, seed: 1 })
          const { counts } = await simulate({ trace, cluster: 'hexgen-homo', rate: 1 })
          assert.equal(counts.completed, 3)
          assert.equal(typeof require('laxity/schemas/study.schema.json'), 'object')
        }
        main().then(() => console.log('same'))`,
      )
      const { stdout, stderr } = node(at, 'both.cjs')
      assert.deepEqual([stdout, stderr], ['same\n', ''])
    })

    it('has types under node16, from both kinds of modules, and bundler', () => {
      mkdirSync(join(at, 'node_modules/@types'), { recursive: true })
      for (const name of ['node', 'undici-types']) {
        const own = name === 'node' ? '@types/node' : name
        if (!existsSync(join(at, 'node_modules', own)))
          symlinkSync(join(ROOT, 'node_modules', own), join(at, 'node_modules', own))
      }
      const source = `import { LaxityError, Scheduler, simulate, type SimulationResult, type SweepPoint } from 'laxity'
import { schedulingHandler } from 'laxity/hono'
export async function run(trace: Parameters<typeof simulate>[0]['trace']): Promise<number> {
  const result: SimulationResult = await simulate({ trace, cluster: 'hexgen-homo' })
  return result.metrics.p95Ms
}
export const p95 = (point: SweepPoint): number => point.p95Ms
export const scheduler = new Scheduler({ cluster: [{ url: 'http://localhost:8000' }] })
export const handler = schedulingHandler(scheduler)
export const isOurs = (error: unknown): boolean => error instanceof LaxityError
// @ts-expect-error: a number is no cluster
export const wrong = simulate({ cluster: 5 })
`
      for (const name of ['esm.mts', 'common.cts', 'plain.ts']) writeFileSync(join(at, name), source)
      const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
      const check = (...flags: string[]) => {
        const strict = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node']
        const { status, stdout } = node(at, tsc, ...strict, ...flags)
        assert.equal(status, 0, stdout)
      }
      check('--module', 'node16', 'esm.mts', 'common.cts')
      check('--module', 'esnext', '--moduleResolution', 'bundler', 'plain.ts')
    })
  })

  describe('without scripts and without the prebuilt addon', () => {
    let at: string
    before(() => {
      at = install('bare', [main.path], '--ignore-scripts', '--omit=optional')
    })

    it('says what is missing and what to do', () => {
      for (const program of [`import('laxity')`, `require('laxity')`]) {
        const { status, stderr } = node(at, '-e', program)
        assert.equal(status, 1)
        for (const part of [
          `@laxity/${PLATFORM} is not installed`,
          'nothing was compiled here',
          'npm rebuild laxity',
        ])
          assert(stderr.includes(part), stderr)
        assert.match(stderr, /ERR_LAXITY_ADDON/)
      }
      const help = node(at, 'node_modules/.bin/laxity', '--version')
      assert.equal(help.stdout.trim(), manifest.version)
      const command = node(at, 'node_modules/.bin/laxity', 'simulate', 'chess:3:4')
      assert.notEqual(command.status, 0)
      assert.match(command.stderr, /npm rebuild laxity.*\[ERR_LAXITY_ADDON\]/s)
      assert.doesNotMatch(command.stderr, /\n {4}at /)
    })

    it('refuses an addon of another version', () => {
      const other = join(at, 'node_modules/@laxity', PLATFORM)
      mkdirSync(other, { recursive: true })
      writeFileSync(join(other, 'package.json'), '{ "version": "0.0.1", "main": "laxity.node" }')
      assert.match(node(at, '-e', `import('laxity')`).stderr, /is of version 0\.0\.1, not /)
      rmSync(other, { recursive: true })
    })

    it('works by `npm rebuild laxity`, as it says', () => {
      // A compiler in a hurry: the same sources, without optimisation.
      const compiler = join(at, 'quick-c++')
      writeFileSync(compiler, `#!/bin/sh\nexec \${LAXITY_TEST_CXX:-c++} "$@" -O0 -fno-lto\n`)
      chmodSync(compiler, 0o755)
      npm(['rebuild', 'laxity', '--foreground-scripts'], at, { CXX: compiler, JOBS: 'max' })
      assert(statSync(join(at, 'node_modules/laxity/build/Release/laxity.node')).size > 100_000)
      runs(at)
    })
  })

  it('works with `--ignore-scripts` where the prebuilt addon is there', () => {
    runs(install('quiet', [main.path, addon.path], '--ignore-scripts'))
  })
})
