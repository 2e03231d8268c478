import { objectiveName } from '../tuning/objective.ts'
import { type Search, type SweepResult, sweep } from '../tuning/sweep.ts'
import type { Context } from './context.ts'
import { type Flags, runOptions } from './options.ts'
import { progressBar } from './progress.ts'
import { openTrace, traceFields } from './trace.ts'

export interface TuneFlags extends Flags {
  replications?: unknown
  objective?: string
  search?: string
}

export async function tune(argument: string | undefined, flags: TuneFlags, context: Context): Promise<void> {
  const bar = progressBar()
  let result: SweepResult
  try {
    result = await sweep({
      ...runOptions(flags),
      trace: () => openTrace(argument, context.signal, flags),
      cluster: flags.cluster,
      signal: context.signal,
      onProgress: bar.update,
      alphas: flags.alpha as string | undefined,
      replications: flags.replications as number | undefined,
      objective: flags.objective as 'p95' | undefined,
      search: flags.search as Search | undefined,
    })
  } finally {
    bar.stop()
  }
  await context.print(flags.json ? tuneJson(result) : await tuneText(result))
}

/** The document of `tune --json`; numbers that are not finite become null. */
export function tuneJson(result: SweepResult): string {
  const { objective, knowledge, error, trace, cluster, points, best, timing } = result
  const { sweepMs, simulatedCalls, workers, perRunMs } = timing
  const document = {
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
  }
  return `${JSON.stringify(document)}\n`
}

async function tuneText(result: SweepResult): Promise<string> {
  const { sweepReport } = await import('../report/sweep-report.ts')
  return sweepReport(result)
}
