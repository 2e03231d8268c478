import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { describe, LaxityError } from '../../errors.ts'

/** An option that must name a file. @throws LaxityError ERR_LAXITY_OPTION */
export function checkFileName(value: unknown, option: string): void {
  if (typeof value === 'string' && value !== '') return
  const message = `Expected a file name for \`${option}\`, got ${describe(value)}`
  throw new LaxityError('ERR_LAXITY_OPTION', message, option)
}

/**
 * Writes a text in parts. The file appears only when it is complete, in place of an older one.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_ABORTED
 */
export async function saveText(path: string, parts: Iterable<string>, signal?: AbortSignal): Promise<void> {
  const final = await realpath(path).catch(() => path)
  const existing = await stat(final).catch(() => undefined)
  // A pipe or a device cannot be replaced by a rename.
  const isReplaceable = existing === undefined || existing.isFile()
  const target = isReplaceable
    ? join(dirname(final), `.${basename(final)}.${randomUUID().slice(0, 8)}.tmp`)
    : final
  try {
    await pipeline(Readable.from(parts), createWriteStream(target), ...(signal ? [{ signal }] : []))
    if (isReplaceable) await rename(target, final)
  } catch (cause) {
    if (isReplaceable) await rm(target, { force: true })
    if (signal?.aborted) throw new LaxityError('ERR_LAXITY_ABORTED', 'Writing was aborted', path, { cause })
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot be written: ${(cause as Error).message}`, path, {
      cause,
    })
  }
}
