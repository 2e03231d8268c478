// The prebuilt addon of this platform, from a package of its own: an optional dependency of every release, so that
// nothing is compiled or downloaded at install. As a program: whether it loads (npm's install script asks).
const { existsSync } = require('node:fs')

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

module.exports = { loadPrebuilt, packageNames }

if (require.main === module) {
  const wantsSource = process.env.npm_config_build_from_source
  const isWanted = wantsSource === undefined || wantsSource === '' || wantsSource === 'false'
  process.exitCode = isWanted && loadPrebuilt().addon !== undefined ? 0 : 1
}
