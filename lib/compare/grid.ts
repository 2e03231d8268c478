import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import type { ResolvedCluster } from '../cluster/resolve.ts'
import type { Feedback, Knowledge } from '../native.ts'
import { kindOf } from '../simulator/prepare.ts'
import type { ClusterKind, Registry } from '../simulator/read-policy.ts'
import type { OptionReader } from '../simulator/validate.ts'
import { type CheckedCompare, checkUnified, type PairSetting } from './options.ts'
import { DEFAULT_POLICIES, type NamedPolicy, namedPolicy } from './policies.ts'
import { findWorkload, type Workload } from './workload.ts'

export interface ComparedCluster {
  given: string | ClusterConfig
  /** What replaces the cluster's own. */
  model: string | undefined
  resolved: ResolvedCluster
  kind: ClusterKind
}

/** What has a load 1.0 of its own. */
export interface Site {
  cluster: ComparedCluster
  workload: Workload
  policies: readonly NamedPolicy[]
}

/** One group of rows: everything but the policy. */
export interface Setting {
  site: Site
  load: number
  knowledge: Knowledge
  feedback: Feedback
  /** Undefined on unified clusters. */
  pairs: PairSetting | undefined
}

/** Every cluster with every model, workload and context. Problems are left in the reader, each once. */
export async function readSites(
  reader: OptionReader,
  registry: Registry,
  checked: CheckedCompare,
): Promise<Site[]> {
  const once = onlyOnce(reader)
  const clusters: ComparedCluster[] = []
  for (const given of checked.clusters) {
    for (const model of checked.models) {
      await once(async () => {
        const resolved = await loadCluster(given, { model })
        clusters.push({ given, model, resolved, kind: kindOf(resolved) })
      })
    }
  }
  const unified = clusters.find(({ kind }) => kind === 'unified')
  if (unified !== undefined) checkUnified(reader, unified.resolved.name)

  const policies = new Map<ClusterKind, NamedPolicy[]>()
  const kinds = clusters.length === 0 ? (['unknown'] as const) : clusters.map(({ kind }) => kind)
  for (const kind of new Set<ClusterKind>(kinds)) {
    const names = checked.policies ?? DEFAULT_POLICIES[kind]
    const own: NamedPolicy[] = []
    for (const name of names) await once(async () => own.push(namedPolicy(registry, kind, name)))
    policies.set(kind, own)
  }

  const workloads: Workload[] = []
  for (const given of checked.workloads) {
    for (const context of checked.contexts) {
      await once(async () => workloads.push(findWorkload(given, context)))
    }
  }
  return workloads.flatMap((workload) =>
    clusters.map((cluster) => ({ workload, cluster, policies: policies.get(cluster.kind)! })),
  )
}

/** The groups of rows, in the order of the options of CompareOptions. */
export function settingsOf(sites: readonly Site[], checked: CheckedCompare): Setting[] {
  return sites.flatMap((site) => {
    const pairs = site.cluster.kind === 'paired' ? checked.pairs : [undefined]
    return checked.loads.flatMap((load) =>
      checked.knowledge.flatMap((knowledge) =>
        checked.feedback.flatMap((feedback) =>
          pairs.map((pairs) => ({ site, load, knowledge, feedback, pairs })),
        ),
      ),
    )
  })
}

/** Runs a step and keeps its problems; what another combination had already is not reported again. */
export function onlyOnce(reader: OptionReader): (step: () => Promise<unknown>) => Promise<void> {
  const seen = new Set<string>()
  return async (step) => {
    try {
      await step()
    } catch (error) {
      const message = error instanceof Error ? error.message : ''
      if (seen.has(message)) return
      seen.add(message)
      reader.problems.absorb(error)
    }
  }
}
