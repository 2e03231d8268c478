import type { ResolvedCluster } from '../cluster/resolve.ts'
import type { RunOptions } from '../simulator/options.ts'
import type { TraceTable } from '../traces/table.ts'

/** What a policy of a study sets; the rest is `simulate`'s default. */
export type PolicyParts = Pick<RunOptions, 'policy' | 'order' | 'placement' | 'binding' | 'migrate'>

/**
 * A study with everything it needs: no file is read after this. The grid is clusters × workloads × rates × policies ×
 * parameters × seeds, the last runs fastest; run number r of `runCount` is the r-th in that order.
 */
export interface Study {
  /** Hash of the normalised content: version, clusters, traces, coordinates, options. */
  readonly id: string
  readonly name: string
  /** Of the package: results belong to it. */
  readonly version: string
  readonly clusters: readonly { label: string; cluster: ResolvedCluster }[]
  readonly workloads: readonly { label: string; trace: TraceTable }[]
  /** Null: the arrivals of the trace, else `simulate`'s default rate. */
  readonly rates: readonly (number | null)[]
  readonly policies: readonly { label: string; parts: PolicyParts }[]
  readonly parameters: readonly { name: string; values: readonly number[] }[]
  readonly seeds: readonly number[]
  /** SLO scales whose attainment is kept, ascending. */
  readonly scales: readonly number[]
  /** Options of `simulate` that every run shares. */
  readonly options: Readonly<Record<string, unknown>>
}

/** Indices into the lists of a study. */
export interface Coordinates {
  cluster: number
  workload: number
  rate: number
  policy: number
  /** By parameter. */
  parameters: number[]
  seed: number
}

type Grid = Pick<Study, 'clusters' | 'workloads' | 'rates' | 'policies' | 'parameters' | 'seeds'>

/** Runs that differ only in their seed are one cell. */
export function cellCount(study: Grid): number {
  const { clusters, workloads, rates, policies, parameters } = study
  const outer = clusters.length * workloads.length * rates.length * policies.length
  return parameters.reduce((cells, { values }) => cells * values.length, outer)
}

export function runCount(study: Grid): number {
  return cellCount(study) * study.seeds.length
}

/** The `run`-th of the grid. */
export function coordinatesOf(study: Grid, run: number): Coordinates {
  let rest = run
  const digit = (base: number): number => {
    const value = rest % base
    rest = Math.floor(rest / base)
    return value
  }
  const seed = digit(study.seeds.length)
  const parameters = study.parameters.map(() => 0)
  for (let p = parameters.length - 1; p >= 0; p--) parameters[p] = digit(study.parameters[p]!.values.length)
  const policy = digit(study.policies.length)
  const rate = digit(study.rates.length)
  const workload = digit(study.workloads.length)
  return { cluster: rest, workload, rate, policy, parameters, seed }
}

/** For people and for programs: a run's coordinates by name. */
export function describeRun(study: Study, run: number): Record<string, string | number | null> {
  const at = coordinatesOf(study, run)
  return {
    run,
    cluster: study.clusters[at.cluster]!.label,
    workload: study.workloads[at.workload]!.label,
    rate: study.rates[at.rate]!,
    policy: study.policies[at.policy]!.label,
    ...Object.fromEntries(
      study.parameters.map(({ name, values }, p) => [name, values[at.parameters[p]!]!] as const),
    ),
    seed: study.seeds[at.seed]!,
  }
}

/** Half-open: runs `from` to `to − 1`. */
export interface Range {
  from: number
  to: number
}
