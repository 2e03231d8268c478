import { describe, LaxityError } from '../errors.ts'
import { perCallDocument } from '../report/result/per-call.ts'
import type { SimulateOptions } from '../simulator/options.ts'
import type { SimulationResult } from '../simulator/result.ts'
import { simulate } from '../simulator/simulate.ts'
import type { Context } from './context.ts'
import { type Flags, runOptions } from './options.ts'
import { progressBar } from './progress.ts'
import { checkReportFlag, saveReport } from './report.ts'
import { openTrace, traceFields } from './trace.ts'

export interface SimulateFlags extends Flags {
  perWorkflow?: boolean
  mix?: boolean
  timePlans?: boolean
  log?: string
  perCall?: boolean
  report?: string
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
  if (flags.perCall && !flags.json) {
    throw new LaxityError('ERR_LAXITY_OPTION', '`perCall` adds columns to the document of --json', 'perCall')
  }
  checkReportFlag(flags.report)
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
      perCall: flags.mix === true || flags.perCall === true || flags.report !== undefined,
      log: flags.log !== undefined,
      timePlans: flags.timePlans,
      autoTune: autoTuneOf(flags),
    })
  } finally {
    bar.stop()
  }
  if (flags.log !== undefined) await saveLog(flags.log, result)
  const written =
    flags.report === undefined
      ? ''
      : await saveReport(flags.report, [simulateDocument(result, { perCall: true })], context.signal)
  await context.print(
    flags.json
      ? `${JSON.stringify(simulateDocument(result, flags))}\n`
      : (await simulateText(result, flags)) + written,
  )
}

/** `--tune-parameter` and `--tune-values` say what, `--auto-tune` alone tunes alpha. */
function autoTuneOf({ autoTune, tuneParameter, tuneValues }: SimulateFlags): SimulateOptions['autoTune'] {
  if (tuneParameter === undefined && tuneValues === undefined) return autoTune === true ? true : undefined
  return { parameter: tuneParameter, values: tuneValues }
}

/** The document of `simulate --json`; in JSON numbers that are not finite become null. */
export function simulateDocument(
  result: SimulationResult,
  flags: Pick<SimulateFlags, 'perWorkflow' | 'mix' | 'perCall'>,
): object {
  const { policy, knowledge, feedback, arrivals, trace, cluster, metrics, counts, timing } = result
  const { cache, error, pairs, remaining, tuning } = result
  return {
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
    ...(remaining !== null && { remaining }),
    ...(tuning && { tuning }),
    ...(result.sacrifice && { sacrifice: result.sacrifice }),
    ...(flags.perWorkflow && { perWorkflow: [...result.workflows()] }),
    ...(flags.mix && { mix: result.stageMix() }),
    timing,
    setup: result.setup,
    ...(result.perCall && flags.perCall && { perCall: perCallDocument(result) }),
  }
}

async function simulateText(result: SimulationResult, flags: SimulateFlags): Promise<string> {
  const { simulationReport } = await import('../report/simulation-report.ts')
  return simulationReport(result, { perWorkflow: flags.perWorkflow === true, mix: flags.mix === true })
}

async function saveLog(path: string, result: SimulationResult): Promise<void> {
  const { writeLog } = await import('../scheduler/log.ts')
  await writeLog(path, result.logHeader!, result.log!)
}
