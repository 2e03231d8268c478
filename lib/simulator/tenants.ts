/** What a tenant gets; every number is defined as for all workflows, over its own. */
export interface TenantMetrics {
  name: string
  /** Deadline = arrival + sloScale × base; the trace's own `sloMs` overrides it. */
  sloScale: number
  workflows: number
  completed: number
  meanMs: number
  p50Ms: number
  p95Ms: number
  p99Ms: number
  /** Smallest SLO scale that 95 % of its workflows meet. */
  sloScale95: number
  /** Share of its workflows that finish by their own deadline. */
  attainment: number
  /** Mean of latency / base. */
  normalisedMean: number
}

/** Jain's index over tenants: 1 = all alike, 1 / tenants = one has all. */
export interface Fairness {
  attainment: number
  /** Of normalised latency. */
  normalisedLatency: number
}

/** Numbers of a tenant's row, in order (`native/simulator/tenants.h`). */
export const TENANT_COLUMNS = [
  'workflows',
  'completed',
  'meanMs',
  'p50Ms',
  'p95Ms',
  'p99Ms',
  'sloScale95',
  'attainment',
  'normalisedMean',
] as const satisfies readonly (keyof TenantMetrics)[]

export interface TenantName {
  name: string
  sloScale: number
}

/** The rows of one run by tenant; tenants without workflows are left out. */
export function readTenants(rows: Float64Array, names: readonly TenantName[]): TenantMetrics[] {
  const width = TENANT_COLUMNS.length
  return names
    .map((name, t) => {
      const row = Object.fromEntries(TENANT_COLUMNS.map((column, i) => [column, rows[t * width + i]!]))
      return { ...name, ...row } as unknown as TenantMetrics
    })
    .filter(({ workflows }) => workflows > 0)
}

/** Means over runs, tenant by tenant. Every run has the same tenants. */
export function meanTenants(runs: readonly (readonly TenantMetrics[])[]): TenantMetrics[] {
  return runs[0]!.map((first, t) => {
    const row = { ...first }
    for (const column of TENANT_COLUMNS) {
      let sum = 0
      for (const run of runs) sum += run[t]![column]
      row[column] = sum / runs.length
    }
    return row
  })
}

export function fairnessOf(tenants: readonly TenantMetrics[]): Fairness {
  return {
    attainment: jain(tenants.map(({ attainment }) => attainment)),
    normalisedLatency: jain(tenants.map(({ normalisedMean }) => normalisedMean)),
  }
}

/**
 * (Σx)² / (n Σx²) of numbers >= 0 (Jain, Chiu and Hawe 1984). All zero counts as alike: 1. Infinite ones (a tenant with
 * an unfinished workflow) outweigh all others, alike among themselves: the limit, their share.
 */
export function jain(values: readonly number[]): number {
  const infinite = values.filter((value) => value === Number.POSITIVE_INFINITY).length
  if (infinite > 0) return infinite / values.length
  const largest = Math.max(...values)
  if (!(largest > 0)) return 1
  let sum = 0
  let squares = 0
  for (const value of values) {
    // Scaled, so that no square overflows.
    const x = value / largest
    sum += x
    squares += x * x
  }
  return (sum * sum) / (values.length * squares)
}
