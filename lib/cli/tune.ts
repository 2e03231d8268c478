import { simulate } from '../simulator/simulate.ts'
import type { TraceTable } from '../traces/table.ts'
import { objectiveName } from '../tuning/objective.ts'
import { type Search, type SweepResult, sweep } from '../tuning/sweep.ts'
import type { Context } from './context.ts'
import { type Flags, runOptions } from './options.ts'
import { progressBar } from './progress.ts'
import { checkReportFlag, saveReport } from './report.ts'
import { simulateDocument } from './simulate.ts'
import { openTrace, traceFields } from './trace.ts'

export interface TuneFlags extends Flags {
  replications?: unknown
  objective?: string
  search?: string
  bound?: boolean
  report?: string
}

export async function tune(argument: string | undefined, flags: TuneFlags, context: Context): Promise<void> {
  checkReportFlag(flags.report)
  const bar = progressBar()
  let table: TraceTable | undefined
  let result: SweepResult
  let written = ''
  try {
    result = await sweep({
      ...runOptions(flags),
      trace: async () => (table = await openTrace(argument, context.signal, flags)),
      cluster: flags.cluster,
      signal: context.signal,
      onProgress: bar.update,
      alphas: flags.alpha as string | undefined,
      replications: flags.replications as number | undefined,
      objective: flags.objective as 'p95' | undefined,
      search: flags.search as Search | undefined,
      bound: flags.bound,
    })
    if (flags.report !== undefined)
      written = await saveTuneReport(flags.report, result, table!, flags, context)
  } finally {
    bar.stop()
  }
  await context.print(
    flags.json ? `${JSON.stringify(tuneDocument(result))}\n` : await tuneText(result, written),
  )
}

/** The sweep, and beside it the calls of one run: the best alpha on the first stream of arrivals. */
async function saveTuneReport(
  path: string,
  result: SweepResult,
  trace: TraceTable,
  flags: TuneFlags,
  { signal }: Context,
): Promise<string> {
  const { alpha } = result.best
  const run = await simulate({
    ...runOptions(flags),
    trace,
    cluster: flags.cluster,
    signal,
    alpha,
    perCall: true,
  })
  const document = { ...tuneDocument(result), run: simulateDocument(run, { perCall: true }) }
  return saveReport(path, [document], signal)
}

/** The document of `tune --json`; in JSON numbers that are not finite become null. */
export function tuneDocument(result: SweepResult): object {
  const { objective, knowledge, error, trace, cluster, points, best, timing } = result
  const { sweepMs, simulatedCalls, workers, perRunMs } = timing
  return {
    command: 'tune',
    objective: objectiveName(objective),
    knowledge,
    ...(error !== undefined && { error }),
    trace: traceFields(trace),
    cluster,
    points,
    best,
    ...(Object.keys(result.arrivalShape).length > 0 && { arrivalShape: result.arrivalShape }),
    ...(result.search === 'halving' && {
      search: result.search,
      eliminated: result.eliminated,
      runs: result.runs,
    }),
    timing: { sweepMs, simulatedCalls, workers, perRunMs },
    setup: result.setup,
  }
}

async function tuneText(result: SweepResult, written: string): Promise<string> {
  const { sweepReport } = await import('../report/sweep-report.ts')
  return sweepReport(result) + written
}
