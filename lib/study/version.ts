import { readFileSync } from 'node:fs'

let known: string | undefined

/** Of this package. */
export function version(): string {
  known ??= (
    JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
  ).version
  return known
}
