/** The page that `npm run verify` ends with. */
import type { Counts } from './counts.ts'

export interface Outcome {
  readonly name: string
  readonly proves: string
  readonly command: string
  /** `skipped`: not run, or the command itself found nothing to compare. */
  readonly state: 'proved' | 'failed' | 'skipped'
  readonly why?: string
  readonly seconds: number
  readonly counts?: Counts
}

export interface Circumstances {
  readonly quick: boolean
  readonly commit: string
  readonly machine: string
  readonly date: string
}

const grouped = (n: number) => n.toLocaleString('en-US')

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`
}

export function countsText(counts: Counts | undefined): string {
  if (counts === undefined) return ''
  const numbers = Object.entries(counts.numbers).map(([name, n]) => `${grouped(n)} ${name}`)
  return [...numbers, ...(counts.text ? [counts.text] : [])].join(', ')
}

/** Sums over the steps of what adds up. */
const TOTALS = ['test cases', 'tests', 'assertions', 'scenarios', 'executions', 'mutants', 'findings']

export function page(outcomes: readonly Outcome[], about: Circumstances): string {
  const of = (state: Outcome['state']) => outcomes.filter((o) => o.state === state)
  const lines = [
    `laxity verify${about.quick ? ' --quick' : ''}, ${about.date}`,
    `${about.commit}, ${about.machine}`,
    '',
  ]
  const width = Math.max(...outcomes.map((o) => o.name.length))
  for (const o of outcomes) {
    const mark = { proved: 'ok  ', failed: 'FAIL', skipped: 'skip' }[o.state]
    const rest =
      o.state === 'skipped'
        ? `not proved here: ${o.why}`
        : [countsText(o.counts), o.why].filter((text) => text).join('; ')
    lines.push(
      `${mark} ${o.name.padEnd(width)}  ${o.state === 'skipped' ? '' : `${duration(o.seconds)}, `}${rest || 'done'}`,
    )
    lines.push(`     ${' '.repeat(width)}  ${o.proves}  [${o.command}]`)
  }
  lines.push('')
  const totals = TOTALS.map((name) => {
    const known = outcomes.filter((o) => o.counts?.numbers[name] !== undefined)
    return known.length === 0
      ? ''
      : `${grouped(known.reduce((sum, o) => sum + o.counts!.numbers[name]!, 0))} ${name}`
  }).filter((text) => text !== '')
  if (totals.length > 0) lines.push(`In all: ${totals.join(', ')}.`)
  const seconds = outcomes.reduce((sum, o) => sum + o.seconds, 0)
  lines.push(
    `${of('proved').length} of ${outcomes.length} steps proved, ${of('failed').length} failed, ${of('skipped').length} skipped, ${duration(seconds)}.`,
  )
  return lines.join('\n')
}
