import { createInterface } from 'node:readline/promises'
import { describe, expected, LaxityError } from '../errors.ts'
import { readPositioned } from '../study/positions.ts'
import { checkUrl } from '../study/redis.ts'
import { folderOf, resolveStudy } from '../study/resolve.ts'
import { runStudy, type StudyResult } from '../study/run.ts'
import { cellCount, describeRun, type Study } from '../study/study.ts'
import { MOST_CELLS } from '../study/summary.ts'
import type { Context } from './context.ts'
import { checkReportFlag, saveReport } from './report.ts'
import { studyReporter } from './study-progress.ts'
import { openTrace } from './trace.ts'

export interface StudyFlags {
  out?: string
  redis?: string
  workers?: unknown
  parquet?: boolean
  yes?: boolean
  json?: boolean
  report?: string
}

/** Larger studies are asked about. */
export const ASKED_ABOVE = 100_000
const LISTED = 20
const MOST_WORKERS = 256

export async function studyCommand(file: string, flags: StudyFlags, context: Context): Promise<void> {
  const out = flags.out ?? `${file.replace(/\.(ya?ml|json)$/i, '')}.results`
  checkFlags(flags, out, file)
  checkReportFlag(flags.report)
  const source = await readPositioned(file, 'a study')
  const study = await resolveStudy(source, {
    folder: folderOf(file),
    openTrace: (argument, format) => openTrace(argument, context.signal, { format }),
    signal: context.signal,
    onSize: (runs, text) => confirmSize(runs, text, flags.yes === true),
  })
  const isSmall = cellCount(study) <= MOST_CELLS
  if (flags.report !== undefined && !isSmall) {
    const message = `A report shows at most ${MOST_CELLS.toLocaleString('en')} cells, this grid has ${cellCount(study).toLocaleString('en')}`
    throw new LaxityError('ERR_LAXITY_LIMIT', message, 'report')
  }
  const reporter = studyReporter()
  let result: StudyResult
  try {
    result = await runStudy(study, {
      out,
      redis: flags.redis,
      workers: flags.workers as number | undefined,
      parquet: flags.parquet,
      summary: isSmall && (flags.json === true || flags.report !== undefined),
      signal: context.signal,
      onProgress: reporter.update,
      onNotice: reporter.notice,
    })
  } catch (error) {
    reporter.stop()
    if (context.signal.aborted)
      reporter.notice(`stopped: what is finished is kept in ${out}, the same command continues`)
    throw error
  }
  reporter.stop()
  const written =
    flags.report === undefined || result.doneRuns === 0
      ? ''
      : await saveReport(flags.report, [studyDocument(study, result)], context.signal)
  await context.print(
    flags.json ? `${JSON.stringify(studyDocument(study, result))}\n` : studyText(study, result) + written,
  )
  if (result.aside.length === 0) return
  const runs = result.aside.reduce((sum, { from, to }) => sum + to - from, 0)
  const message = `${runs} of ${result.runs} runs failed and were set aside; the same command tries them again`
  throw new LaxityError('ERR_LAXITY_STUDY', message)
}

function checkFlags(flags: StudyFlags, out: string, file: string): void {
  if (out === '' || out === file) {
    throw new LaxityError('ERR_LAXITY_OPTION', `Expected a folder for \`out\`, got ${describe(out)}`, 'out')
  }
  const { workers } = flags
  const valid = Number.isInteger(workers) && (workers as number) >= 1 && (workers as number) <= MOST_WORKERS
  if (workers !== undefined && !valid) {
    const message = expected(`a whole number from 1 to ${MOST_WORKERS}`, 'workers', workers)
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'workers')
  }
  if (flags.redis === undefined) return
  checkUrl(flags.redis)
  if (workers !== undefined) {
    const message = '`workers` are threads of a local run: with `--redis`, start `laxity worker` processes'
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'workers')
  }
}

/** @throws LaxityError ERR_LAXITY_LIMIT where a large study is not wanted, or nobody can be asked. */
export async function confirmSize(runs: number, text: string, yes: boolean): Promise<void> {
  if (runs <= ASKED_ABOVE || yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    const message = `${text}: more than ${ASKED_ABOVE.toLocaleString('en')}, so say \`--yes\` to run them`
    throw new LaxityError('ERR_LAXITY_LIMIT', message)
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(`${text}. Run them? [y/N] `)
  lines.close()
  if (!/^y(es)?$/i.test(answer.trim())) throw new LaxityError('ERR_LAXITY_LIMIT', `${text}: not run`)
}

/** The document of `study --json`; in JSON numbers that are not finite become null. */
export function studyDocument(study: Study, result: StudyResult): object {
  const aside = result.aside.map((one) => ({ ...one, first: describeRun(study, one.from) }))
  const { version, seeds, options } = study
  return { command: 'study', version, ...result, aside, seeds, options }
}

export function studyText(study: Study, result: StudyResult): string {
  const { id, name, runs, doneRuns, resumedRuns, aside, files, damaged, timing } = result
  const count = (n: number) => n.toLocaleString('en')
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
  const where =
    timing.workers === 0 ? 'workers on Redis' : `${timing.workers} thread${timing.workers === 1 ? '' : 's'}`
  const lines = [
    `${name} (${id}): ${count(doneRuns)} of ${count(runs)} runs${resumedRuns > 0 ? `, ${count(resumedRuns)} of them from before` : ''}`,
    `${seconds(timing.wallMs)} for ${seconds(timing.cpuMs)} of simulation in ${timing.chunks} chunks, ${where}`,
  ]
  if (damaged > 0) lines.push(`${damaged} damaged lines of results.jsonl were dropped, their runs made again`)
  if (aside.length > 0) {
    lines.push('', 'Set aside:')
    for (const { from, to, error, attempts } of aside.slice(0, LISTED)) {
      const at = Object.entries(describeRun(study, from)).map(([key, value]) => `${key} ${value ?? '-'}`)
      const more = to - from > 1 ? ` and ${to - from - 1} after it` : ''
      lines.push(`  ${at.join(', ')}${more}: ${error} (${attempts} attempts)`)
    }
    if (aside.length > LISTED) lines.push(`  and ${aside.length - LISTED} more`)
  }
  lines.push('', ...files)
  return `${lines.join('\n')}\n`
}
