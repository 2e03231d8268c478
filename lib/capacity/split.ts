import type { ClusterConfig, InstanceConfig } from '../cluster/config.ts'
import { loadCluster, resolvePreset } from '../cluster/load.ts'
import { findPreset } from '../cluster/presets.ts'
import type { ResolvedCluster } from '../cluster/resolve.ts'
import { expected, LaxityError } from '../errors.ts'
import { readJsonFile } from '../json-file.ts'
import { loadNative } from '../simulator/simulate.ts'
import { overridesOf } from '../study/overrides.ts'
import { indistinguishable } from '../tuning/choose.ts'
import {
  type Attainment,
  attainmentOf,
  type CapacityOptions,
  capacityStudy,
  checkRun,
  evaluate,
  meanOf,
  type Outcome,
  readDemand,
} from './evaluate.ts'

export interface SplitOptions extends Omit<CapacityOptions, 'attainment'> {
  /**
   * Gives the instances, as a description, a preset's name or a file's path: one entry for both roles, or one of role
   * `prefill` and one of role `decode`; counts do not matter.
   */
  cluster: string | ClusterConfig
  /** Instances in all, at least 2. */
  instances: number
}

export interface SplitPoint {
  prefill: number
  decode: number
  attainment: Attainment
  /** Mean over the seeds. */
  p95Ms: number
}

export interface SplitResult {
  sloScale: number
  ratePerS: number | undefined
  seeds: number
  /** By ascending number of prefill instances. */
  points: SplitPoint[]
  best: SplitPoint
  /** Prefill instances of other splits whose attainment the seeds cannot tell from the best: the paired 95 % interval includes 0. */
  indistinguishable: number[]
  cluster: ClusterConfig
}

const MOST_INSTANCES = 1000

/**
 * The best prefill:decode split of n instances: every split is simulated with the same seeds. Best is the highest mean
 * attainment; of equals the smaller mean P95, then the fewer prefill instances.
 *
 * @throws LaxityError as `simulate`
 */
export async function split(options: SplitOptions): Promise<SplitResult> {
  const { cluster, instances, ...shared } = options
  const demand = readDemand(shared)
  if (!Number.isInteger(instances) || instances < 2 || instances > MOST_INSTANCES) {
    const message = expected(`a whole number from 2 to ${MOST_INSTANCES}`, 'instances', instances)
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'instances')
  }
  const preset = typeof cluster === 'string' ? findPreset(cluster, shared.model) : undefined
  const given =
    preset ?? (typeof cluster === 'string' ? await readJsonFile(cluster, 'a cluster file') : cluster)
  const configs = splitsOf(given as ClusterConfig, instances)
  const load = preset === undefined ? loadCluster : resolvePreset
  const clusters = []
  for (const { config } of configs) clusters.push(await load(config, overridesOf(shared)))
  const { outcomes, points } = await compareSplits(shared, demand, configs, clusters)
  const best = bestSplit(outcomes)
  const native = await loadNative()
  const costs = outcomes.map(({ attainment }) => attainment.map((value) => -value))
  return {
    sloScale: demand.scale,
    ratePerS: shared.rate,
    seeds: demand.seeds.length,
    points,
    best: points[best]!,
    indistinguishable: indistinguishable(native, costs, best).map((k) => points[k]!.prefill),
    cluster: configs[best]!.config,
  }
}

export interface SplitConfig {
  prefill: number
  decode: number
  config: ClusterConfig
}

/** Every split of n instances, by ascending prefill. @throws LaxityError ERR_LAXITY_OPTION */
export function splitsOf(cluster: ClusterConfig, instances: number): SplitConfig[] {
  const { prefill, decode } = templatesOf(cluster)
  return Array.from({ length: instances - 1 }, (_, k) => {
    const counts = { prefill: k + 1, decode: instances - k - 1 }
    const config: ClusterConfig = {
      ...cluster,
      name: `${counts.prefill} prefill + ${counts.decode} decode`,
      instances: [
        { ...prefill, role: 'prefill', count: counts.prefill },
        { ...decode, role: 'decode', count: counts.decode },
      ],
    }
    return { ...counts, config }
  })
}

function templatesOf({ instances }: ClusterConfig): { prefill: InstanceConfig; decode: InstanceConfig } {
  const list = Array.isArray(instances) ? instances : []
  const byRole = (role: string) => list.filter((entry) => entry?.role === role)
  const [prefill, decode] = [byRole('prefill'), byRole('decode')]
  if (list.length === 2 && prefill.length === 1 && decode.length === 1) {
    return { prefill: prefill[0]!, decode: decode[0]! }
  }
  if (list.length === 1 && list[0] !== null) return { prefill: list[0]!, decode: list[0]! }
  const message = 'Expected one kind of instance, or one of role prefill and one of role decode, in `cluster`'
  throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
}

async function compareSplits(
  options: CapacityOptions,
  demand: ReturnType<typeof readDemand>,
  configs: readonly SplitConfig[],
  clusters: readonly ResolvedCluster[],
): Promise<{ outcomes: Outcome[]; points: SplitPoint[] }> {
  const labelled = clusters.map((cluster) => ({ label: cluster.name, cluster }))
  const study = capacityStudy(options, labelled, options.rate ?? null, demand.seeds, demand.scale)
  await checkRun(study)
  const outcomes = await evaluate(options, study)
  const points: SplitPoint[] = []
  for (const [k, { prefill, decode }] of configs.entries()) {
    const { attainment, p95Ms } = outcomes[k]!
    points.push({ prefill, decode, attainment: await attainmentOf(attainment), p95Ms: meanOf(p95Ms) })
  }
  return { outcomes, points }
}

export function bestSplit(outcomes: readonly Outcome[]): number {
  let best = 0
  for (let k = 1; k < outcomes.length; k++) {
    const [own, lead] = [outcomes[k]!, outcomes[best]!]
    const gain = meanOf(own.attainment) - meanOf(lead.attainment)
    if (gain > 0 || (gain === 0 && meanOf(own.p95Ms) < meanOf(lead.p95Ms))) best = k
  }
  return best
}
