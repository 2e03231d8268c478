import type { CompareResult } from '../compare/compare.ts'
import type { CompareRow } from '../compare/rows.ts'
import { headingOf } from './compare-report.ts'
import { table } from './table.ts'
import { duration, significant } from './units.ts'

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
    return `${headingOf(own)}\n\n${table(HEAD, [['no scheduler below', ...least], ...lines])}`
  })
  parts.push(
    [
      'Req95, Req99, largest: the scale of the final horizon that 95, 99 and 100 % of the workflows meet. Means over the seeds.',
      '/ bound: geometric mean over the seeds of Req to the certified bound (docs/bounds.md). –: calls were evicted or workflows never ended.',
      `${duration(timing.wallMs)}, ${duration(timing.cpuMs)} of them in simulations and bounds.`,
    ].join('\n'),
  )
  return `${parts.join('\n\n')}\n`
}

function over(ratio: number | null | undefined): string {
  return ratio === null || ratio === undefined ? '–' : ratio.toFixed(2)
}
