import { describe, LaxityError } from '../errors.ts'
import type { SimulateOptions } from '../simulator/options.ts'
import type { SimulationResult } from '../simulator/result.ts'
import { simulate } from '../simulator/simulate.ts'
import type { Context } from './context.ts'
import { type Flags, runOptions } from './options.ts'
import { progressBar } from './progress.ts'
import { openTrace, traceFields } from './trace.ts'

export interface SimulateFlags extends Flags {
  perWorkflow?: boolean
  mix?: boolean
  log?: string
  autoTune?: boolean
  tuneParameter?: string
  tuneValues?: string
}

export async function simulateCommand(
  argument: string | undefined,
  flags: SimulateFlags,
  context: Context,
): Promise<void> {
  if (flags.log === '') {
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      `Expected a file name for \`log\`, got ${describe(flags.log)}`,
      'log',
    )
  }
  const bar = progressBar()
  let result: SimulationResult
  try {
    result = await simulate({
      ...runOptions(flags),
      trace: () => openTrace(argument, context.signal, flags),
      cluster: flags.cluster,
      signal: context.signal,
      onProgress: bar.update,
      alpha: flags.alpha as number | undefined,
      perCall: flags.mix === true,
      log: flags.log !== undefined,
      autoTune: autoTuneOf(flags),
    })
  } finally {
    bar.stop()
  }
  if (flags.log !== undefined) await saveLog(flags.log, result)
  await context.print(flags.json ? simulateJson(result, flags) : await simulateText(result, flags))
}

/** `--tune-parameter` and `--tune-values` say what, `--auto-tune` alone tunes alpha. */
function autoTuneOf({ autoTune, tuneParameter, tuneValues }: SimulateFlags): SimulateOptions['autoTune'] {
  if (tuneParameter === undefined && tuneValues === undefined) return autoTune === true ? true : undefined
  return { parameter: tuneParameter, values: tuneValues }
}

/** The document of `simulate --json`; numbers that are not finite become null. */
export function simulateJson(
  result: SimulationResult,
  flags: Pick<SimulateFlags, 'perWorkflow' | 'mix'>,
): string {
  const { policy, knowledge, feedback, arrivals, trace, cluster, metrics, counts, timing } = result
  const { cache, error, pairs, tuning } = result
  const document = {
    command: 'simulate',
    policy,
    knowledge,
    feedback,
    arrivals,
    trace: traceFields(trace),
    cluster: cluster.name,
    metrics,
    counts,
    ...(result.tenants.length > 0 && { tenants: result.tenants, fairness: result.fairness }),
    ...(Object.keys(result.arrivalShape).length > 0 && { arrivalShape: result.arrivalShape }),
    ...(cache && { cache }),
    ...(pairs && { pairs }),
    ...(error !== undefined && { error }),
    ...(tuning && { tuning }),
    ...(flags.perWorkflow && { perWorkflow: [...result.workflows()] }),
    ...(flags.mix && { mix: result.stageMix() }),
    timing,
  }
  return `${JSON.stringify(document)}\n`
}

async function simulateText(result: SimulationResult, flags: SimulateFlags): Promise<string> {
  const { simulationReport } = await import('../report/simulation-report.ts')
  return simulationReport(result, { perWorkflow: flags.perWorkflow === true, mix: flags.mix === true })
}

async function saveLog(path: string, result: SimulationResult): Promise<void> {
  const { writeLog } = await import('../scheduler/log.ts')
  await writeLog(path, result.logHeader!, result.log!)
}
