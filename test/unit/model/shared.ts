import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LaxityError } from '../../../lib/errors.ts'

/** A folder for a suite's files, gone when it ends. */
export function temporaryFolder(): { path(name: string): string; write(name: string, text: string): string } {
  let folder = ''
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-model-'))
  })
  after(() => rmSync(folder, { recursive: true }))
  const path = (name: string) => join(folder, name)
  return {
    path,
    write(name, text) {
      writeFileSync(path(name), text)
      return path(name)
    },
  }
}

/** Every problem that a call reports. */
export async function problemsOf(work: () => unknown): Promise<LaxityError[]> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof LaxityError)) throw error
    return error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
  }
  throw new Error('nothing was refused')
}
