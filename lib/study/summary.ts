import type { NativeAddon } from '../native.ts'
import type { RowLayout } from './rows.ts'
import type { Store } from './store.ts'
import { coordinatesOf, type Study } from './study.ts'

/** A mean over seeds with its 95 % Student-t interval; none with one seed, or where the mean is infinite. */
export interface SeedMean {
  mean: number
  ci95: [low: number, high: number] | null
}

/** A cell of the grid: its runs differ in their seed only. */
export interface CellSummary {
  cluster: string
  workload: string
  /** Null: the arrivals of the trace, else `simulate`'s default rate. */
  rate: number | null
  policy: string
  parameters: Record<string, number>
  /** Finished runs. */
  seeds: number
  meanMs: SeedMean
  p95Ms: SeedMean
  sloScale95: SeedMean
  /** By SLO scale, ascending. */
  attainment: ({ scale: number } & SeedMean)[]
}

/** More cells than this are for tables, not for figures. */
export const MOST_CELLS = 10_000

/** The cells of which at least one run is finished, in grid order. It holds the rows of one cell at a time. */
export async function summarise(
  native: Pick<NativeAddon, 'meanInterval'>,
  study: Study,
  layout: RowLayout,
  store: Pick<Store, 'chunks'>,
): Promise<CellSummary[]> {
  const { width } = layout
  const runs = study.seeds.length
  const cells: CellSummary[] = []
  let cell = -1
  let rows: Float64Array[] = []
  const flush = () => {
    if (rows.length > 0) cells.push(summary(native, study, layout, cell, rows))
    rows = []
  }
  for await (const { from, to, rows: given } of store.chunks()) {
    for (let run = from; run < to; run++) {
      const own = Math.floor(run / runs)
      if (own !== cell) flush()
      cell = own
      rows.push(given.slice((run - from) * width, (run - from + 1) * width))
    }
  }
  flush()
  return cells
}

function summary(
  native: Pick<NativeAddon, 'meanInterval'>,
  study: Study,
  layout: RowLayout,
  cell: number,
  rows: readonly Float64Array[],
): CellSummary {
  const at = coordinatesOf(study, cell * study.seeds.length)
  const column = (index: number) =>
    seedMean(
      native,
      Float64Array.from(rows, (row) => row[index]!),
    )
  const named = (name: (typeof layout.columns)[number]) => column(layout.columns.indexOf(name))
  return {
    cluster: study.clusters[at.cluster]!.label,
    workload: study.workloads[at.workload]!.label,
    rate: study.rates[at.rate]!,
    policy: study.policies[at.policy]!.label,
    parameters: Object.fromEntries(
      study.parameters.map(({ name, values }, p) => [name, values[at.parameters[p]!]!]),
    ),
    seeds: rows.length,
    meanMs: named('meanMs'),
    p95Ms: named('p95Ms'),
    sloScale95: named('sloScale95'),
    attainment: study.scales.map((scale, i) => ({ scale, ...column(layout.attainment + i) })),
  }
}

/** In seed order, so that it has the same bits everywhere. */
function seedMean(native: Pick<NativeAddon, 'meanInterval'>, values: Float64Array): SeedMean {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  if (values.length < 2 || !Number.isFinite(mean)) return { mean, ci95: null }
  const { low, high } = native.meanInterval(values)
  return { mean, ci95: [low, high] }
}
