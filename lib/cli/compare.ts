import { type CompareResult, compare } from '../compare/compare.ts'
import { type COMMON, COMPARE_KEYS, type CompareOptions } from '../compare/options.ts'
import { LaxityError } from '../errors.ts'
import type { Context } from './context.ts'
import { progressBar } from './progress.ts'
import { checkReportFlag, saveReport } from './report.ts'

/** What commander hands over: text, not yet checked. Repeatable flags are lists. */
export interface CompareFlags extends Record<(typeof COMMON)[number], unknown> {
  workload?: string[]
  cluster?: string[]
  model?: string[]
  load?: string[]
  policy?: string[]
  workflows?: unknown
  seeds?: unknown
  knowledge?: string[]
  feedback?: string[]
  links?: string[]
  reserve?: string[]
  decodeAdmission?: string[]
  staging?: string[]
  planning?: string[]
  planLatencyMs?: string[]
  remaining?: string[]
  context?: string[]
  paper?: boolean
  bound?: boolean
  reference?: string
  parameter?: Record<string, unknown>
  workers?: unknown
  json?: boolean
  csv?: boolean
  report?: string
}

/** Flags that are options of the API under the same name. */
const SAME = COMPARE_KEYS.filter((name) => name !== 'signal' && name !== 'onProgress')

export async function compareCommand(flags: CompareFlags, context: Context): Promise<void> {
  if (flags.json && flags.csv) {
    throw new LaxityError('ERR_LAXITY_OPTION', '`csv` and `json` exclude each other', 'csv')
  }
  checkReportFlag(flags.report)
  const options = compareFlagOptions(flags)
  const bar = progressBar()
  let result: CompareResult
  try {
    // The API checks what it is given.
    result = await compare({
      ...(options as unknown as CompareOptions),
      signal: context.signal,
      onProgress: bar.update,
    })
  } finally {
    bar.stop()
  }
  const written =
    flags.report === undefined
      ? ''
      : await saveReport(flags.report, [JSON.parse(compareJson(result)) as object], context.signal)
  await context.print((await output(result, flags)) + (flags.json || flags.csv ? '' : written))
}

/** Flags as options of the API, which checks them. */
export function compareFlagOptions(flags: CompareFlags): Record<string, unknown> {
  const options: Record<string, unknown> = Object.fromEntries(
    SAME.map((name) => [name, (flags as unknown as Record<string, unknown>)[name]]),
  )
  if (flags.parameter !== undefined) options.parameters = flags.parameter
  return options
}

async function output(result: CompareResult, flags: CompareFlags): Promise<string> {
  if (flags.json) return compareJson(result)
  if (flags.csv) return (await import('../compare/csv.ts')).compareCsv(result.rows)
  return (await import('../report/compare-report.ts')).compareReport(result)
}

/** The document of `compare --json`; numbers that are not finite become null. */
export function compareJson({ rows, saturation, timing }: CompareResult): string {
  return `${JSON.stringify({ command: 'compare', rows, saturation, timing })}\n`
}
