import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A path in the folder of reference data that stands beside the repository. It is never part of it. */
export function shared(path: string): string {
  return fileURLToPath(new URL(`../../../shared/${path}`, import.meta.url))
}

/** Skips a suite, saying so, where the reference data is absent. */
export function skipWithout(context: Mocha.Context, path: string): void {
  if (existsSync(shared(path))) return
  console.log(`      skipped: ../shared/${path} is absent`)
  context.skip()
}
