import type { RowBound } from '../bounds/row.ts'
import type { CompareResult } from '../compare/compare.ts'
import type { CompareRow } from '../compare/rows.ts'
import { headingOf } from './compare-report.ts'
import { table } from './table.ts'
import { duration, over, significant } from './units.ts'

export const REFERENCE_NOTE =
  'clairvoyant search: one search for each of the three, which knows the future: achievable, not optimal, and no online rule.'

const HEAD = ['policy', 'Req95', '/ bound', 'Req99', '/ bound', 'largest', '/ bound']

/** A table for every setting: the bound in its first line, then what policies reach. */
export function boundReport({ rows, timing }: CompareResult): string {
  const settings: CompareRow[][] = []
  for (const row of rows) {
    if (row.versusFirst === null) settings.push([])
    settings.at(-1)!.push(row)
  }
  const parts = settings.map((own) => {
    const { bound } = own[0]!
    const lines = own.map(({ policy, req95, req99, bound }) => [
      policy,
      significant(req95),
      over(bound?.over95),
      significant(req99),
      over(bound?.over99),
      significant(bound?.req100 ?? Number.NaN),
      over(bound?.over100),
    ])
    const least = [bound?.bound95, bound?.bound99, bound?.bound100].flatMap((value) => [
      significant(value ?? Number.NaN),
      '',
    ])
    const reference = bound?.reference100 === undefined ? [] : [referenceLine(bound)]
    return `${headingOf(own)}\n\n${table(HEAD, [['no scheduler below', ...least], ...reference, ...lines])}`
  })
  parts.push(
    [
      'Req95, Req99, largest: the scale of the base that 95, 99 and 100 % of the workflows meet. Means over the seeds.',
      '/ bound: geometric mean over the seeds of Req to the certified bound (docs/bounds.md). –: calls were evicted or workflows never ended.',
      ...(rows.some(({ bound }) => bound?.reference100 !== undefined) ? [REFERENCE_NOTE] : []),
      `${duration(timing.wallMs)}, ${duration(timing.cpuMs)} of them in simulations and bounds.`,
    ].join('\n'),
  )
  return `${parts.join('\n\n')}\n`
}

function referenceLine(bound: RowBound): string[] {
  return [
    'clairvoyant search',
    significant(bound.reference95!),
    over(bound.referenceOver95),
    significant(bound.reference99!),
    over(bound.referenceOver99),
    significant(bound.reference100!),
    over(bound.referenceOver100),
  ]
}
