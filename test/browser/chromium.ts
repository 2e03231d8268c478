import { accessSync, constants } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const USUAL = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** Of CHROMIUM_PATH, else where systems put it; undefined where there is none. */
export function findChromium(): string | undefined {
  const named = process.env.CHROMIUM_PATH
  return [...(named ? [named] : []), ...USUAL].find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Headless, without a sandbox: containers have none. */
export function launch(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}
