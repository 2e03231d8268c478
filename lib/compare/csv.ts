import { stringify } from 'csv-stringify/sync'
import { COMPARED, type CompareRow } from './rows.ts'

/** Columns that a row has as they are. */
const PLAIN = [
  'policy',
  'order',
  'placement',
  'binding',
  'workload',
  'context',
  'cluster',
  'model',
  'load',
  'ratePerS',
  'knowledge',
  'feedback',
  'sloBase',
  'deadlines',
  'links',
  'reserve',
  'decodeAdmission',
  'staging',
  'planning',
  'planLatencyMs',
  'remaining',
  'error',
  'seeds',
  'workflows',
  'calls',
  'completed',
  'rejected',
  'evictions',
  ...COMPARED,
  'prefillUtilisation',
  'decodeUtilisation',
  'kvPeak',
  'plans',
  'plannedCalls',
] as const satisfies readonly (keyof CompareRow)[]

/** One line per row under a line of names; without the attainment curve and the single seeds. Nothing for what is not there. */
export function compareCsv(rows: readonly CompareRow[]): string {
  return stringify(rows.map(flat), { header: true, cast: { number: String } })
}

function flat(row: CompareRow): Record<string, unknown> {
  const record: Record<string, unknown> = Object.fromEntries(PLAIN.map((name) => [name, row[name]]))
  record.planUsMean = row.planUs.mean
  record.planUsP50 = row.planUs.p50
  record.planUsP99 = row.planUs.p99
  for (const [name, value] of Object.entries(row.bound ?? {})) record[name] = value
  record.versus = row.versusFirst?.policy
  for (const name of COMPARED) {
    const ratio = row.versusFirst?.[name]
    for (const part of ['ratio', 'low', 'high'] as const) record[`${name}.${part}`] = ratio?.[part]
  }
  return record
}
