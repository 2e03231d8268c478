import { LaxityError } from '../errors.ts'
import type { ShadowResult } from '../scheduler/shadow.ts'
import type { Context } from './context.ts'

export interface ReplayFlags {
  json?: boolean
  policy?: string
}

/** Replays a log: every decision must be made again, byte for byte (else ERR_LAXITY_LOG). */
export async function replay(path: string, flags: ReplayFlags, context: Context): Promise<void> {
  if (flags.policy !== undefined) return shadowRun(path, flags.policy, flags, context)
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

/** The same workflows under another policy; `order/placement[/binding]` or a preset. */
async function shadowRun(path: string, policy: string, flags: ReplayFlags, context: Context): Promise<void> {
  const { shadowLog } = await import('../scheduler/shadow.ts')
  const [order, placement, binding] = policy.split('/')
  const parts =
    placement === undefined ? policy : { order, placement, ...(binding !== undefined && { binding }) }
  const result = await shadowLog(path, parts as string)
  if (flags.json) await context.print(`${JSON.stringify({ command: 'replay', policy, ...result })}\n`)
  else await context.print(await table(path, result))
}

async function table(path: string, result: ShadowResult): Promise<string> {
  const { count } = await import('../report/units.ts')
  const ms = (value: number) => (Number.isNaN(value) ? '-' : count(Math.round(value)))
  const rows = [
    ['policy', 'times', 'completed', 'mean ms', 'P50', 'P95', 'P99', 'deadlines met'],
    ...[result.recorded, result.own, result.other].map((row) => [
      row.policy,
      row.simulated ? 'simulated' : 'recorded',
      `${row.completed}/${row.workflows}`,
      ms(row.meanMs),
      ms(row.p50Ms),
      ms(row.p95Ms),
      ms(row.p99Ms),
      Number.isNaN(row.attainment) ? '-' : `${(row.attainment * 100).toFixed(1)} %`,
    ]),
  ]
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const { lengths, instanceChanges, deadlineChanges, parallelSamples } = result.assumed
  const assumed = [
    [lengths, 'calls without a length: as predicted'],
    [instanceChanges, 'changes of instances left out'],
    [deadlineChanges, 'changed deadlines hold from the start'],
    [parallelSamples, 'calls with n > 1 as one sequence'],
  ].filter(([n]) => (n as number) > 0)
  return `${[
    ...lines,
    '',
    `${path}: ${count(result.calls)} calls. From the log: ${result.fromLog}.`,
    `Simulated: ${result.fromSimulator}.`,
    ...assumed.map(([n, what]) => `Assumed: ${count(n as number)} ${what}.`),
  ].join('\n')}\n`
}
