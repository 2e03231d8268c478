import { LaxityError } from '../errors.ts'
import type { Context } from './context.ts'

export interface ReplayFlags {
  json?: boolean
}

/** Replays a log: every decision must be made again, byte for byte (else ERR_LAXITY_LOG). */
export async function replay(path: string, flags: ReplayFlags, context: Context): Promise<void> {
  const { replayLog } = await import('../scheduler/replay.ts')
  const result = await replayLog(path)
  const { decisions, matched, firstMismatch } = result
  if (matched !== decisions || firstMismatch !== undefined) {
    throw new LaxityError(
      'ERR_LAXITY_LOG',
      `${decisions - matched} of ${decisions} decisions differ from the log`,
      `${path}:${firstMismatch}`,
    )
  }
  if (flags.json) {
    await context.print(`${JSON.stringify({ command: 'replay', ...result })}\n`)
    return
  }
  const { count } = await import('../report/units.ts')
  await context.print(`${path}: all ${count(decisions)} decisions match\n`)
}
