import { getPriority, setPriority } from 'node:os'
import { isMainThread } from 'node:worker_threads'

/** Nice levels: about a tenth of the time of the threads it gives way to, where no core is idle. */
const LOWER_BY = 10
const LOWEST = 19

let schedulers = 0

/** A live scheduler has begun to serve in this process; call what it returns when it ends. */
export function serving(): () => void {
  schedulers += 1
  let served = true
  return () => {
    if (served) schedulers -= 1
    served = false
  }
}

/** Whether threads of this process should leave the cores to one that serves. */
export function besideScheduler(): boolean {
  return schedulers > 0
}

/**
 * From now on this worker thread gives way to others. Not to the lowest priority: on a machine that is never idle it must still
 * come to an end. Linux gives each thread a priority of its own; elsewhere `setPriority` would change the process, so nothing is
 * done.
 */
export function runInBackground(): void {
  if (process.platform !== 'linux' || isMainThread) return
  try {
    setPriority(Math.min(LOWEST, getPriority() + LOWER_BY))
  } catch {
    // Where that is forbidden it runs as it is.
  }
}
