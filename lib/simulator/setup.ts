import type { Arrivals, Binding, Feedback, Knowledge, NativeInstance, NativeRun } from '../native.ts'
import { placementName } from '../scheduler/placement.ts'
import type { Prepared } from './prepare.ts'
import type { ArrivalShape } from './read-arrivals.ts'

/** Instances that are alike, in the order of their first. */
export interface SetupInstances {
  label: string
  count: number
  mode: string
  kvTokens: number
  maxSequences: number
}

/** Under what assumptions a result was made: results may be compared where this agrees. Plain JSON. */
export interface RunSetup {
  policy: { order: string; placement: string; binding: Binding; migrate: boolean }
  /** Further parameters of order and placement that were given; alpha is not one of them. */
  parameters: Record<string, number>
  knowledge: Knowledge
  feedback: Feedback
  /** Leases beyond the engine's room. */
  lookahead: number
  arrivals: Arrivals
  /** Workflows per second; absent with the arrivals of the trace. */
  rate?: number
  arrivalShape: ArrivalShape
  sloScale: number
  sloBase: string
  seeds: { arrivals: number; ties: number; placement: number }
  compat?: string
  /** The prediction errors as text; absent = none. */
  error?: string
  trace: { source: string; workflows: number; calls: number; stages: number }
  cluster: { name: string; instances: SetupInstances[] }
  /** Of one run. */
  alpha?: number
  replication?: number
  /** Of a sweep: streams of arrivals per alpha, replications 0 to n − 1. */
  replications?: number
}

type OneOrMany = Pick<RunSetup, 'alpha' | 'replication' | 'replications'>

/** The policy as results name it. */
export function policyOf(run: Prepared['run']): RunSetup['policy'] {
  const { order, binding } = run
  return { order, placement: placementName(run.placement), binding, migrate: run.migrate === true }
}

export function setupOf(prepared: Prepared, error: string | undefined, runs: OneOrMany): RunSetup {
  const { run, trace, cluster, nativeCluster } = prepared
  const { knowledge, feedback, lookahead, arrivals, sloScale, sloBase, compat } = run
  const labels = cluster.instances.map(({ label }) => label)
  return {
    policy: policyOf(run),
    parameters: run.parameters,
    knowledge,
    feedback,
    lookahead,
    arrivals,
    ...(arrivals !== 'trace' && { rate: run.rate }),
    arrivalShape: shapeOf(run),
    sloScale,
    sloBase,
    seeds: { arrivals: run.seed, ties: run.tieSeed, placement: run.placementSeed ?? 1 },
    ...(compat !== 'none' && { compat }),
    ...(error !== undefined && { error }),
    trace: {
      source: trace.source,
      workflows: trace.workflows,
      calls: trace.calls,
      stages: trace.stages.length,
    },
    cluster: { name: cluster.name, instances: grouped(nativeCluster.instances, labels) },
    ...runs,
  }
}

function shapeOf({ cv, burstSize, burstGapMs, rateStep }: NativeRun): ArrivalShape {
  return {
    ...(cv !== undefined && { cv }),
    ...(burstSize !== undefined && { burstSize }),
    ...(burstGapMs !== undefined && { burstGapMs }),
    ...(rateStep !== undefined && { rateStep }),
  }
}

function grouped(instances: readonly NativeInstance[], labels: readonly string[]): SetupInstances[] {
  const groups = new Map<string, SetupInstances>()
  for (const [i, { mode, kvTokens, maxSequences }] of instances.entries()) {
    const alike = { label: labels[i] ?? `instance ${i}`, mode, kvTokens, maxSequences }
    const key = JSON.stringify(alike)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { ...alike, count: 1 })
    else group.count++
  }
  return [...groups.values()]
}
