import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import type { ResolvedCluster } from '../cluster/resolve.ts'
import { LaxityError } from '../errors.ts'
import { overridesOf } from '../study/overrides.ts'
import {
  type Attainment,
  attainmentOf,
  type CapacityOptions,
  capacityStudy,
  checkRun,
  evaluate,
  number,
  readDemand,
} from './evaluate.ts'
import { type Offer, type Prices, perHour } from './prices.ts'

export interface CheapestOptions extends CapacityOptions {
  prices: Prices
}

/** A cluster made of offers. */
export interface Candidate {
  /** By offer. */
  counts: number[]
  /** Millionths per hour. */
  price: number
  instances: number
}

export interface CheapestResult {
  target: number
  sloScale: number
  ratePerS: number | undefined
  seeds: number
  currency: string
  pricePerHour: number
  /** How many of each offer. */
  counts: Record<string, number>
  attainment: Attainment
  /** As a file for `--cluster`. */
  cluster: ClusterConfig
  /** Clusters in the list; those not dearer than the answer were all tested. */
  candidates: number
  /** Cheaper, tested and too slow. */
  rejected: number
  /** Cheaper, and could not serve the trace at all: a call that never fits, a model without an instance. */
  unfit: number
  /** Simulations made. */
  runs: number
}

export const MOST_CANDIDATES = 1_000_000
/** Clusters that are tested together. */
const GROUP = 16

/**
 * The cheapest cluster of a price list that meets an attainment. Candidates are tested by ascending price, so the first
 * that meets it is the answer, without any assumption on how attainment follows the instances. A candidate is given up as
 * soon as even perfect remaining seeds could not lift its mean to the target.
 *
 * Of equal prices the fewer instances come first, then the more of the earlier offers.
 *
 * @throws LaxityError ERR_LAXITY_INFEASIBLE where none meets it, ERR_LAXITY_LIMIT beyond MOST_CANDIDATES; as `simulate`.
 */
export async function cheapest(options: CheapestOptions): Promise<CheapestResult> {
  const { prices, ...shared } = options
  const demand = readDemand(shared)
  const { rate } = shared
  if (rate !== undefined)
    number('rate', rate, 'a positive number up to 1000000', (value) => value > 0 && value <= 1e6)
  const candidates = candidatesOf(prices.offers, prices.mostInstances)
  if (candidates.length === 0) {
    throw new LaxityError(
      'ERR_LAXITY_INFEASIBLE',
      'No cluster can be made of these offers: see `least` and `mostInstances`',
    )
  }
  let rejected = 0
  const unfit: Candidate[] = []
  let runs = 0
  let why: LaxityError | undefined
  for (let at = 0; at < candidates.length; at += GROUP) {
    const group: Tried[] = []
    for (const candidate of candidates.slice(at, at + GROUP)) {
      const config = configOf(prices, candidate)
      const cluster = await loadCluster(config, overridesOf(shared))
      const one = { label: config.name!, cluster }
      try {
        await checkRun(capacityStudy(shared, [one], rate ?? null, demand.seeds, demand.scale))
        group.push({ candidate, config, one, values: [], sum: 0, alive: true })
      } catch (error) {
        if (!isUnfit(error)) throw error
        why = error
        unfit.push(candidate)
      }
    }
    for (let from = 0, size = 1; from < demand.seeds.length; from += size, size = from) {
      const seeds = demand.seeds.slice(from, from + size)
      const alive = group.filter((tried) => tried.alive)
      if (alive.length === 0) break
      const study = capacityStudy(
        shared,
        alive.map(({ one }) => one),
        rate ?? null,
        seeds,
        demand.scale,
      )
      const outcomes = await evaluate(shared, study)
      runs += alive.length * seeds.length
      for (const [i, tried] of alive.entries()) {
        for (const value of outcomes[i]!.attainment) {
          tried.values.push(value)
          tried.sum += value
        }
        tried.alive = canReach(tried.values, demand.seeds.length, demand.target)
      }
    }
    const answer = group.find((tried) => tried.alive)
    if (answer === undefined) {
      rejected += group.length
      continue
    }
    return {
      target: demand.target,
      sloScale: demand.scale,
      ratePerS: rate,
      seeds: demand.seeds.length,
      currency: prices.currency,
      pricePerHour: perHour(answer.candidate.price),
      counts: Object.fromEntries(prices.offers.map(({ name }, i) => [name, answer.candidate.counts[i]!])),
      attainment: await attainmentOf(Float64Array.from(answer.values)),
      cluster: answer.config,
      candidates: candidates.length,
      rejected: rejected + group.indexOf(answer),
      unfit: unfit.filter((one) => inOrder(one, answer.candidate) < 0).length,
      runs,
    }
  }
  const most = candidates.at(-1)!
  const message =
    rejected === 0 && why !== undefined
      ? `No cluster of the list can serve the trace: ${why.message}`
      : `None of ${candidates.length} clusters, up to ${perHour(most.price)} per hour, reaches an attainment of ${demand.target}`
  throw new LaxityError('ERR_LAXITY_INFEASIBLE', message)
}

interface Tried {
  candidate: Candidate
  config: ClusterConfig
  one: { label: string; cluster: ResolvedCluster }
  values: number[]
  sum: number
  alive: boolean
}

/** Whether the mean over all seeds can still be the target, if every seed to come is perfect. */
export function canReach(values: readonly number[], seeds: number, target: number): boolean {
  // The same sum, in the same order, as a mean over all seeds has: no rounding decides differently at the end.
  let sum = 0
  for (const value of values) sum += value
  for (let rest = values.length; rest < seeds; rest++) sum += 1
  return sum / seeds >= target
}

/** Every cluster of the offers with at least one instance, in the order in which they are tested. */
export function candidatesOf(offers: readonly Offer[], mostInstances: number): Candidate[] {
  let candidates: Candidate[] = [{ counts: [], price: 0, instances: 0 }]
  for (const { price, least, most } of offers) {
    const next: Candidate[] = []
    for (const before of candidates) {
      for (let count = least; count <= most && before.instances + count <= mostInstances; count++) {
        next.push({
          counts: [...before.counts, count],
          price: before.price + count * price,
          instances: before.instances + count,
        })
        if (next.length > MOST_CANDIDATES) {
          const message = `More than ${MOST_CANDIDATES} clusters can be made of these offers: lower \`most\` or give \`mostInstances\``
          throw new LaxityError('ERR_LAXITY_LIMIT', message)
        }
      }
    }
    candidates = next
  }
  return candidates.filter(({ instances }) => instances > 0).sort(inOrder)
}

function inOrder(a: Candidate, b: Candidate): number {
  if (a.price !== b.price) return a.price - b.price
  if (a.instances !== b.instances) return a.instances - b.instances
  const at = a.counts.findIndex((count, i) => count !== b.counts[i])
  return at < 0 ? 0 : b.counts[at]! - a.counts[at]!
}

function configOf({ offers, cluster }: Prices, { counts }: Candidate): ClusterConfig {
  const chosen = offers
    .map(({ name, instance }, i) => ({ name, instance, count: counts[i]! }))
    .filter(({ count }) => count > 0)
  return {
    ...cluster,
    name: chosen.map(({ name, count }) => `${count} × ${name}`).join(' + '),
    instances: chosen.map(({ instance, count }) => ({ ...instance, count })),
  }
}

/** The candidate is at fault, not what was asked. */
function isUnfit(error: unknown): error is LaxityError {
  if (!(error instanceof LaxityError)) return false
  if (error.code === 'ERR_LAXITY_NEVER_FITS') return true
  return error.code === 'ERR_LAXITY_OPTION' && error.place === 'cluster' && /serves model/.test(error.message)
}
