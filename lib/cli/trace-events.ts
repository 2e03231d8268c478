import { LaxityError } from '../errors.ts'
import type { Context } from './context.ts'

export interface TraceEventsFlags {
  output?: string
}

/** Writes the calls of a run as trace events for Perfetto. */
export async function traceEventsCommand(
  input: string,
  flags: TraceEventsFlags,
  context: Context,
): Promise<void> {
  const { checkFileName, saveText } = await import('../report/result/save.ts')
  const output = flags.output ?? `${input.replace(/\.json$/i, '')}.trace.json`
  checkFileName(output, 'output')
  const { readResult } = await import('../report/result/read.ts')
  const document = await readResult(input)
  const run = document.command === 'tune' ? document.run : document
  if (run?.command !== 'simulate' || run.perCall === undefined) {
    const message = 'Holds no calls: make it with `laxity simulate --json --per-call`'
    throw new LaxityError('ERR_LAXITY_FIELD', message, input)
  }
  const { readCallTable } = await import('../report/result/call-table.ts')
  const { traceEvents } = await import('../report/trace-events.ts')
  const table = readCallTable(run.perCall, `${input}: perCall`)
  await saveText(output, traceEvents(table), context.signal)
  const { count } = await import('../report/units.ts')
  await context.print(`${output}: ${count(table.stage.length)} calls. Open it at https://ui.perfetto.dev\n`)
}
