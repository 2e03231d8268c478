import { resolve } from 'node:path'
import { LaxityError } from '../errors.ts'
import type { Context } from './context.ts'

export interface ReportFlags {
  output?: string
}

/** Turns result files into one HTML page. */
export async function reportCommand(
  inputs: readonly string[],
  flags: ReportFlags,
  context: Context,
): Promise<void> {
  const { checkFileName } = await import('../report/result/save.ts')
  const output = flags.output ?? `${inputs[0]!.replace(/\.json$/i, '')}.html`
  checkFileName(output, 'output')
  const { readResult } = await import('../report/result/read.ts')
  const documents = []
  for (const input of inputs) documents.push(await readResult(input))
  const { htmlReport } = await import('../report/html/report.ts')
  const { saveText } = await import('../report/result/save.ts')
  await saveText(output, [htmlReport(documents)], context.signal)
  await context.print(`Report: ${resolve(output)}\n`)
}

/** Before anything runs: a report that cannot be written must not cost a sweep. */
export function checkReportFlag(path: string | undefined): void {
  if (path === '')
    throw new LaxityError('ERR_LAXITY_OPTION', 'Expected a file name for `report`, got ""', 'report')
}

/** Writes the report of documents that were just made; returns the line that names it. */
export async function saveReport(
  path: string,
  documents: readonly object[],
  signal: AbortSignal,
): Promise<string> {
  const { checkResult } = await import('../report/result/read.ts')
  const { htmlReport } = await import('../report/html/report.ts')
  const { saveText } = await import('../report/result/save.ts')
  const checked = documents.map((document) => checkResult(JSON.parse(JSON.stringify(document)), 'result: '))
  await saveText(path, [htmlReport(checked)], signal)
  return `\nReport: ${resolve(path)}\n`
}
