import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { LaxityError } from './errors.ts'
import type { NativeAddon } from './native.ts'

interface Prebuilt {
  loadPrebuilt(): { addon: NativeAddon | undefined; reasons: readonly string[] }
}

/**
 * What was compiled here, else the platform's own package.
 *
 * @throws LaxityError ERR_LAXITY_ADDON that says what was tried, and what to do.
 */
export function loadAddon(): NativeAddon {
  const require = createRequire(import.meta.url)
  const root = fileURLToPath(new URL('..', import.meta.url))
  let cause: unknown
  try {
    return require('node-gyp-build')(root) as NativeAddon
  } catch (error) {
    cause = error
  }
  const { addon, reasons } = (require('../scripts/prebuilt.cjs') as Prebuilt).loadPrebuilt()
  if (addon !== undefined) return addon
  throw new LaxityError('ERR_LAXITY_ADDON', adviceFor([...reasons, reasonOf(cause)]), undefined, { cause })
}

function reasonOf(error: unknown): string {
  const [line = ''] = (error as Error).message.split('\n')
  return line.startsWith('No native build') ? 'nothing was compiled here' : line
}

function adviceFor(reasons: readonly string[]): string {
  const { platform, arch, versions } = process
  return `The native addon could not be loaded on ${platform} ${arch}, Node ${versions.node}: ${reasons.join('; ')}.
Either install the prebuilt one (optional dependencies, for glibc or musl as your system has): \`npm install laxity --include=optional\`
or compile it, which \`--ignore-scripts\` leaves out: \`npm rebuild laxity --foreground-scripts\` (needs a C++20 compiler, make and python3).`
}
