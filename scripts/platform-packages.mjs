// For a release: turns prebuilds/<platform>-<arch>/laxity[.<libc>].node into packages @laxity/<platform>-<arch>[-<libc>]
// in --out (build/packages), and puts the main package beside them, which asks for them as optional dependencies.
// package.json of the repository does not name them: before a release they do not exist.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    prebuilds: { type: 'string', default: 'prebuilds' },
    out: { type: 'string', default: 'build/packages' },
  },
})
const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
const { version, license, engines } = manifest
rmSync(values.out, { recursive: true, force: true })

const names = []
for (const folder of existsSync(values.prebuilds) ? readdirSync(values.prebuilds).sort() : []) {
  const match = /^(\w+)-(\w+)$/.exec(folder)
  if (match === null) throw new Error(`prebuilds/${folder}: expected <platform>-<arch>`)
  const [, os, cpu] = match
  for (const file of readdirSync(join(values.prebuilds, folder)).sort()) {
    const libc = /\.(glibc|musl)\.node$/.exec(file)?.[1]
    if (!file.endsWith('.node') || (os === 'linux') !== (libc !== undefined))
      throw new Error(
        `prebuilds/${folder}/${file}: expected an addon, on Linux with its C library in its name`,
      )
    const suffix = [os, cpu, ...(libc ? [libc] : [])].join('-')
    const name = `@laxity/${suffix}`
    const target = join(values.out, suffix)
    mkdirSync(target, { recursive: true })
    cpSync(join(values.prebuilds, folder, file), join(target, 'laxity.node'))
    cpSync('LICENSE', join(target, 'LICENSE'))
    writeFileSync(
      join(target, 'README.md'),
      `# ${name}\n\nThe native addon of laxity for ${suffix}. Install \`laxity\`.\n`,
    )
    const own = {
      name,
      version,
      description: `The native addon of laxity for ${suffix}.`,
      license,
      engines,
      os: [os],
      cpu: [cpu],
      ...(libc && { libc: [libc] }),
      main: 'laxity.node',
      files: ['laxity.node'],
    }
    writeFileSync(join(target, 'package.json'), `${JSON.stringify(own, null, 2)}\n`)
    names.push(name)
  }
}

const main = join(values.out, 'laxity')
mkdirSync(main, { recursive: true })
const [{ files }] = JSON.parse(
  execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { encoding: 'utf8' }),
)
for (const { path } of files) cpSync(path, join(main, path))
manifest.optionalDependencies = {
  ...manifest.optionalDependencies,
  ...Object.fromEntries(names.map((name) => [name, version])),
}
// Of a published package only npm's own script runs.
manifest.scripts = { install: manifest.scripts.install }
delete manifest.devDependencies
writeFileSync(join(main, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
console.log([...names, 'laxity'].join('\n'))
