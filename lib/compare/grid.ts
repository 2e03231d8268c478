import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import type { ResolvedCluster } from '../cluster/resolve.ts'
import type { Feedback, Knowledge } from '../native.ts'
import { plans, usesRemaining } from '../simulator/policies.ts'
import { kindOf } from '../simulator/prepare.ts'
import type { ToldFuture } from '../simulator/read-planning.ts'
import type { ClusterKind, Registry } from '../simulator/read-policy.ts'
import type { OptionReader } from '../simulator/validate.ts'
import { type CheckedCompare, checkUnified, type PairSetting, type PlanSetting } from './options.ts'
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
  /** Only policies that plan take notice. */
  planning: PlanSetting
  /** Sigma, 0 = exact; undefined = nothing is declared. Only orders that use it take notice. */
  remaining: ToldFuture | undefined
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

  const all = [...policies.values()].flat().map(({ policy }) => policy)
  const late = checked.plannings.some(({ planning }) => planning !== 'sync')
  if (all.length > 0 && unified === undefined && late && !all.some(plans))
    reader.add('`planning`: none of the policies plans', 'planning')
  const declared = checked.remaining.some((told) => told !== undefined)
  if (all.length > 0 && declared && !all.some(usesRemaining))
    reader.add('`remaining`: none of the policies has an order that uses it', 'remaining')

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
          pairs.flatMap((pairs) =>
            checked.plannings.flatMap((planning) =>
              checked.remaining.map((remaining) => ({
                site,
                load,
                knowledge,
                feedback,
                pairs,
                planning,
                remaining,
              })),
            ),
          ),
        ),
      ),
    )
  })
}

/** What of a setting a policy takes notice of. */
export function inForce(
  { pairs, planning, remaining }: Setting,
  policy: NamedPolicy['policy'],
): { planning: PlanSetting | undefined; remaining: ToldFuture | undefined } {
  return {
    planning: pairs !== undefined && plans(policy) ? planning : undefined,
    remaining: usesRemaining(policy) ? remaining : undefined,
  }
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
