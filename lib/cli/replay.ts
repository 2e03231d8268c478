import { LaxityError } from '../errors.ts'
import type { Context } from './context.ts'

export interface ReplayFlags {
  policy?: string
  json?: boolean
}

/**
 * Replays a log. Under its own policy every decision must match (else ERR_LAXITY_LOG); under another one the
 * differences are the answer.
 */
export async function replay(path: string, flags: ReplayFlags, context: Context): Promise<void> {
  const { replayLog } = await import('../scheduler/replay.ts')
  const { policy } = flags
  const result = await replayLog(path, policy === undefined ? {} : { policy })
  const { decisions, matched, firstMismatch } = result
  if (policy === undefined && matched !== decisions) {
    const at = firstMismatch === undefined ? '' : `; the first at decision ${JSON.stringify(firstMismatch)}`
    throw new LaxityError(
      'ERR_LAXITY_LOG',
      `${decisions - matched} of ${decisions} decisions differ${at}`,
      path,
    )
  }
  if (flags.json) {
    await context.print(`${JSON.stringify({ command: 'replay', ...(policy && { policy }), ...result })}\n`)
    return
  }
  const { count } = await import('../report/units.ts')
  const under = policy === undefined ? '' : ` under ${policy}`
  await context.print(`${path}: ${count(matched)} of ${count(decisions)} decisions match${under}\n`)
}
