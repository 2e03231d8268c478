import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { NativeAddon } from './native.ts'

/** @throws Error that says what to do where the addon is absent or does not load. */
export function loadAddon(): NativeAddon {
  const require = createRequire(import.meta.url)
  const root = fileURLToPath(new URL('..', import.meta.url))
  try {
    return require('node-gyp-build')(root) as NativeAddon
  } catch (cause) {
    throw new Error(
      'laxity: the native addon could not be loaded. Run `npm rebuild laxity` (it needs a C++20 compiler, make and python3).',
      { cause },
    )
  }
}
