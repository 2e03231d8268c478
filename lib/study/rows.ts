import { COLUMNS, type Column } from '../simulator/chunk.ts'
import { fairnessOf, readTenants, TENANT_COLUMNS, type TenantName } from '../simulator/tenants.ts'
import type { Study } from './study.ts'

/** Numbers of a run that are the same on every machine: CPU time is not. */
const KEPT = COLUMNS.filter((name) => name !== 'cpuMs') as Exclude<Column, 'cpuMs'>[]

/** Beyond this many tenants rows hold their fairness only. */
const MOST_TENANTS = 64

/** Where a run's numbers stand in its row. A number that a run does not have is NaN. */
export interface RowLayout {
  readonly width: number
  readonly columns: readonly Exclude<Column, 'cpuMs'>[]
  /** Position of the first attainment; they follow the scales. */
  readonly attainment: number
  /** Two numbers: of attainment, of normalised latency. */
  readonly fairness: number
  /** Position of the first tenant, TENANT_COLUMNS each. */
  readonly tenants: number
  readonly tenantCount: number
}

export function rowLayout(scales: number, tenants: number): RowLayout {
  const tenantCount = tenants > 1 && tenants <= MOST_TENANTS ? tenants : 0
  const fairness = KEPT.length + scales
  const first = fairness + 2
  return {
    width: first + tenantCount * TENANT_COLUMNS.length,
    columns: KEPT,
    attainment: KEPT.length,
    fairness,
    tenants: first,
    tenantCount,
  }
}

/** The most tenants that any of its workloads has. */
export function tenantsOf({ workloads, options }: Study): number {
  const { tenants } = options
  const own = workloads.map(({ trace }) => trace.tenants?.length ?? 1)
  const given =
    typeof tenants === 'string' ? tenants.split(',').length : Array.isArray(tenants) ? tenants.length : 0
  return Math.max(given, ...own)
}

/** Writes one run into its row. */
export function fillRow(
  row: Float64Array,
  layout: RowLayout,
  values: Float64Array,
  attainment: Float64Array,
  tenantRows: Float64Array | undefined,
  tenants: readonly TenantName[],
): void {
  row.fill(Number.NaN)
  for (const [i, name] of layout.columns.entries()) row[i] = values[COLUMNS.indexOf(name)]!
  row.set(attainment, layout.attainment)
  if (tenantRows === undefined) return
  const fairness = fairnessOf(readTenants(tenantRows, tenants))
  row[layout.fairness] = fairness.attainment
  row[layout.fairness + 1] = fairness.normalisedLatency
  if (tenants.length <= layout.tenantCount) row.set(tenantRows, layout.tenants)
}
