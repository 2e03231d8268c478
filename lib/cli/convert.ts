import type { Context } from './context.ts'
import { openTrace, type TraceFlags } from './trace.ts'

/** Writes the JSONL; a file appears only when it is complete. */
export async function convert(
  input: string,
  output: string,
  flags: TraceFlags,
  context: Context,
): Promise<void> {
  const trace = await openTrace(input, context.signal, flags)
  const { writeTrace } = await import('../traces/write.ts')
  if (output === '-') {
    await writeTrace(trace, process.stdout, { signal: context.signal })
    return
  }
  await writeTrace(trace, output, { signal: context.signal })
  const { count } = await import('../report/units.ts')
  await context.print(`${output}: ${count(trace.workflows)} workflows, ${count(trace.calls)} calls\n`)
}
