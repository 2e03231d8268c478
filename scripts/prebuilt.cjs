// The prebuilt addon of this platform, from a package of its own: an optional dependency of every release, so that
// nothing is compiled or downloaded at install. As a program (npm's install script): compiles where it does not load.
const { spawnSync } = require('node:child_process')
const { existsSync } = require('node:fs')
const { availableParallelism, freemem } = require('node:os')

/** On Linux both, the likelier one first: an addon for another C library does not load. */
function packageNames({ platform, arch } = process) {
  const base = `@laxity/${platform}-${arch}`
  if (platform !== 'linux') return [base]
  const names = [`${base}-glibc`, `${base}-musl`]
  return existsSync('/etc/alpine-release') ? names.reverse() : names
}

/** The addon, or one reason per package. */
function loadPrebuilt() {
  const { version } = require('../package.json')
  const reasons = []
  for (const name of packageNames()) {
    try {
      const found = require(`${name}/package.json`).version
      if (found === version) return { addon: require(name), reasons }
      reasons.push(`${name} is of version ${found}, not ${version}`)
    } catch (error) {
      const absent = error.code === 'MODULE_NOT_FOUND' && error.message.includes(name)
      reasons.push(absent ? `${name} is not installed` : `${name}: ${error.message.split('\n')[0]}`)
    }
  }
  return { addon: undefined, reasons }
}

/** How many compilers may run: each takes up to 1 GB. node-gyp alone would run one. */
const jobs = () => Math.max(1, Math.min(availableParallelism(), Math.floor(freemem() / 1e9)))

/** With node-gyp, unless a build that loads is there. Returns the exit code. */
function compile() {
  const { status } = spawnSync(process.execPath, [require.resolve('node-gyp-build/bin.js')], {
    stdio: 'inherit',
    env: { JOBS: String(jobs()), ...process.env },
  })
  return status ?? 1
}

module.exports = { loadPrebuilt, packageNames }

if (require.main === module) {
  const wantsSource = process.env.npm_config_build_from_source
  const isWanted = wantsSource === undefined || wantsSource === '' || wantsSource === 'false'
  if (!isWanted || loadPrebuilt().addon === undefined) process.exitCode = compile()
}
