import type { CompareResult } from '../compare/compare.ts'
import type { Ratio } from '../compare/intervals.ts'
import type { CompareRow } from '../compare/rows.ts'
import { sacrificeText } from './sacrifice-text.ts'
import { table } from './table.ts'
import { count, duration, over, percent, significant } from './units.ts'

/** A comparison for people: a table for every setting, the first policy on top, and what the numbers are. */
export function compareReport(result: CompareResult): string {
  const settings: CompareRow[][] = []
  for (const row of result.rows) {
    // The first policy of a setting is compared with nothing.
    if (row.versusFirst === null) settings.push([])
    settings.at(-1)!.push(row)
  }
  const parts = settings.flatMap((rows) => [
    `${headingOf(rows)}\n\n${settingTable(rows)}`,
    ...rows.flatMap(({ policy, sacrifice, workflows, seeds }) =>
      sacrifice === undefined ? [] : [`${policy}: ${sacrificeText(sacrifice, workflows * seeds)}`],
    ),
  ])
  parts.push(footer(result))
  return `${parts.join('\n\n')}\n`
}

/** What was assumed: rows are comparable only where this agrees. */
export function headingOf(rows: readonly CompareRow[]): string {
  const row = rows[0]!
  const { workload, context, cluster, model, load, ratePerS, knowledge, feedback, error } = row
  const what = [
    `${workload}${context === null ? '' : ` (${context} ${context === 'new' ? 'tokens' : 'context'})`}`,
    `on ${cluster}${model === null ? '' : `, ${model}`}:`,
    `load ${load} = ${significant(ratePerS)} workflows/s,`,
    `${count(row.workflows)} workflows × ${row.seeds} seed${row.seeds > 1 ? 's' : ''}`,
  ].join(' ')
  const how = [`knowledge ${knowledge}`, `feedback ${feedback}`, `base ${row.sloBase}`]
  if (row.deadlines === 'none') how.push('no deadlines')
  if (row.links !== null) how.push(`links ${row.links}`, `staging ${row.staging}`)
  if (row.reserve !== null) how.push(`reserve ${row.reserve}`)
  if (row.decodeAdmission !== null) how.push(`decode admission ${row.decodeAdmission}`)
  // Not every policy takes notice of these.
  const planned = rows.find(({ planLatencyMs }) => planLatencyMs !== null)
  if (planned !== undefined) how.push(`planning ${planned.planning} after ${planned.planLatencyMs} ms`)
  const told = rows.find(({ remaining }) => remaining !== null)
  if (told !== undefined) how.push(`remaining ${told.remaining}`)
  const { bound } = row
  if (bound !== undefined) {
    const least = [bound.bound95, bound.bound99, bound.bound100].map(significant)
    how.push(`no scheduler below Req95 ${least[0]}, Req99 ${least[1]}, largest ${least[2]}`)
    if (bound.reference100 !== undefined) {
      const reached = [bound.reference95!, bound.reference99!, bound.reference100].map(significant)
      how.push(`clairvoyant search ${reached.join(', ')} (achievable, not optimal)`)
    }
  }
  if (error !== null) how.push(`errors ${error}`)
  return `${what}\n${how.join(', ')}`
}

function settingTable(rows: readonly CompareRow[]): string {
  const paired = rows[0]!.links !== null
  const planned = rows.some(({ planUs }) => planUs.p50 !== null)
  const evicted = rows.some(({ evictions }) => evictions > 0)
  const incomplete = rows.some(({ completed, workflows }) => completed < workflows)
  const columns: [head: string, cell: (row: CompareRow) => string][] = [
    ['policy', (row) => row.policy],
    ['Req95', (row) => significant(row.req95)],
    ['vs first', (row) => change(row.versusFirst?.req95)],
    ['Req99', (row) => significant(row.req99)],
    ['vs first', (row) => change(row.versusFirst?.req99)],
    ['mean', (row) => duration(row.meanMs)],
    ['P95', (row) => duration(row.p95Ms)],
    ['P99', (row) => duration(row.p99Ms)],
    ['workflows/s', (row) => significant(row.throughputPerS)],
  ]
  if (rows.some(({ bound }) => bound !== undefined)) {
    columns.splice(3, 0, ['/ bound', (row) => over(row.bound?.over95)])
    columns.splice(6, 0, ['/ bound', (row) => over(row.bound?.over99)])
    columns.splice(
      7,
      0,
      ['largest', (row) => significant(row.bound?.req100 ?? Number.NaN)],
      ['/ bound', (row) => over(row.bound?.over100)],
    )
  }
  if (paired) {
    columns.push(['prefill busy', (row) => share(row.prefillUtilisation)])
    columns.push(['decode busy', (row) => share(row.decodeUtilisation)])
    columns.push(['KV peak', (row) => share(row.kvPeak)])
  }
  if (incomplete)
    columns.push(['completed', (row) => percent(row.workflows === 0 ? 0 : row.completed / row.workflows)])
  if (evicted) columns.push(['evictions', (row) => count(row.evictions)])
  if (planned) {
    columns.push(['plan P50', (row) => plan(row.planUs.p50)])
    columns.push(['plan P99', (row) => plan(row.planUs.p99)])
  }
  return table(
    columns.map(([head]) => head),
    rows.map((row) => columns.map(([, cell]) => cell(row))),
  )
}

/** `−12.3 % (−15.0 … −9.5)`. */
function change(ratio: Ratio | null | undefined): string {
  if (ratio === undefined) return ''
  if (ratio === null) return '–'
  const { low, high } = ratio
  if (low === null || high === null) return `${signed(ratio.ratio)} %`
  return `${signed(ratio.ratio)} % (${signed(low)} … ${signed(high)})`
}

function signed(ratio: number): string {
  const value = (100 * (ratio - 1)).toFixed(1)
  if (Number(value) === 0) return '0.0'
  return value.startsWith('-') ? `−${value.slice(1)}` : `+${value}`
}

function share(value: number | null): string {
  return value === null ? '' : percent(value)
}

function plan(us: number | null): string {
  return us === null ? '' : duration(us / 1000)
}

function footer({ timing, rows }: CompareResult): string {
  const { runs, simulatedCalls, cpuMs, wallMs } = timing
  const lines = [
    'Req95, Req99: the scale of the base that 95 and 99 % of the workflows meet (upper empirical quantiles). Means over the seeds.',
  ]
  if (rows.some(({ versusFirst }) => versusFirst !== null)) {
    lines.push(
      'vs first: geometric mean over the seeds of the ratio to the first policy on the same workflows and arrivals, less 1;',
      'in brackets its 95 % interval (Student-t, paired differences of logarithms).',
    )
  }
  if (rows.some(({ bound }) => bound !== undefined)) {
    lines.push(
      '/ bound: geometric mean over the seeds of Req to what no scheduler can be below (certified, docs/bounds.md); largest: the largest',
      'latency / base, Req where every workflow counts. –: calls were evicted or workflows never ended.',
    )
  }
  lines.push(
    `${count(runs)} runs, ${count(simulatedCalls)} calls in ${duration(wallMs)} (${duration(cpuMs)} of simulation).`,
  )
  return lines.join('\n')
}
