import { open, readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { LaxityError } from '../errors.ts'

const NAME = '.lock'

/**
 * One process per folder. A lock whose process is gone is taken over.
 *
 * @throws LaxityError ERR_LAXITY_STATE where another process holds it.
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const path = join(folder, NAME)
  for (let attempt = 0; ; attempt++) {
    try {
      const file = await open(path, 'wx')
      await file.writeFile(JSON.stringify({ pid: process.pid, host: hostname() }))
      await file.close()
      return () => rm(path, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const holder = await holderOf(path)
      if (attempt > 0 || (holder !== undefined && isAlive(holder))) {
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

function isAlive({ pid, host }: Holder): boolean {
  if (host !== hostname()) return true
  // A process id of before a restart of this very process' container may be ours.
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
