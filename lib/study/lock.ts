import { open, readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { LaxityError } from '../errors.ts'

const NAME = '.lock'

/** Folders that this process holds. */
const mine = new Set<string>()

/**
 * One process per folder. A lock whose process is gone is taken over.
 *
 * @throws LaxityError ERR_LAXITY_STATE where another process holds it.
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const path = resolve(folder, NAME)
  for (let attempt = 0; ; attempt++) {
    try {
      const file = await open(path, 'wx')
      await file.writeFile(JSON.stringify({ pid: process.pid, host: hostname() }))
      await file.close()
      mine.add(path)
      return async () => {
        mine.delete(path)
        await rm(path, { force: true })
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const holder = await holderOf(path)
      if (attempt > 0 || (holder !== undefined && isAlive(holder, path))) {
        const who = holder === undefined ? 'another process' : `process ${holder.pid} on ${holder.host}`
        const message = `${who} works on this study: wait for it, or remove ${NAME} if it is gone`
        throw new LaxityError('ERR_LAXITY_STATE', message, folder)
      }
      await rm(path, { force: true })
    }
  }
}

interface Holder {
  pid: number
  host: string
}

async function holderOf(path: string): Promise<Holder | undefined> {
  try {
    const { pid, host } = JSON.parse(await readFile(path, 'utf8')) as Partial<Holder>
    return Number.isSafeInteger(pid) && typeof host === 'string' ? { pid: pid!, host } : undefined
  } catch {
    return undefined
  }
}

function isAlive({ pid, host }: Holder, path: string): boolean {
  if (host !== hostname()) return true
  // Without a lock of ours it is that of an earlier process, which had our id before a restart.
  if (pid === process.pid) return mine.has(path)
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
