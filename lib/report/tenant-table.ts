import type { Fairness, TenantMetrics } from '../simulator/tenants.ts'
import { table } from './table.ts'
import { count, duration, percent, significant } from './units.ts'

/** A row per tenant, and how alike they were served. */
export function tenantTable(tenants: readonly TenantMetrics[], fairness: Fairness): string {
  const rows = tenants.map((tenant) => [
    tenant.name,
    significant(tenant.sloScale),
    `${count(tenant.completed)} of ${count(tenant.workflows)}`,
    duration(tenant.p50Ms),
    duration(tenant.p95Ms),
    duration(tenant.p99Ms),
    duration(tenant.meanMs),
    significant(tenant.sloScale95),
    percent(tenant.attainment),
    significant(tenant.normalisedMean),
  ])
  const head = [
    'tenant',
    'SLO scale',
    'completed',
    'P50',
    'P95',
    'P99',
    'mean',
    'SLO95',
    'attainment',
    'norm. latency',
  ]
  const index = `attainment ${fairness.attainment.toFixed(3)}, normalised latency ${fairness.normalisedLatency.toFixed(3)}`
  return `${table(head, rows)}\nJain index over tenants: ${index}`
}
