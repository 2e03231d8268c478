import { mean } from './choose.ts'

/** An alpha that successive halving gave up. */
export interface Eliminated {
  alpha: number
  /** 1, 2, …: after which round. */
  round: number
  /** Replications it had by then. */
  replications: number
  /** Its mean cost over them, in the objective's unit (for attainment: minus the share). */
  cost: number
}

/** Runs the replications `from` to `to − 1` of these arms. */
export type Evaluate = (arms: readonly number[], from: number, to: number) => Promise<void>

/** The costs of an arm in its first replications, smaller is better. */
export type CostsOf = (arm: number, replications: number) => Float64Array

export interface Halving {
  /** Arms that had all replications, ascending. */
  arms: number[]
  eliminated: Eliminated[]
}

/**
 * Successive halving (Karnin, Koren and Somekh 2013) with common random numbers: the k-th replication is the same stream
 * for every arm, so costs are compared in pairs and a survivor's are those the full grid would have.
 *
 * Rounds: every arm has 1, 2, 4, … replications in all, below `replications`; after each, `kept` says which arms stay.
 * At last the rest get all `replications`. The cost is not unimodal in alpha, so no arm stands for its neighbours.
 */
export async function halve(
  alphas: readonly number[],
  replications: number,
  evaluate: Evaluate,
  costsOf: CostsOf,
): Promise<Halving> {
  const eliminated: Eliminated[] = []
  let arms = [...alphas.keys()]
  let done = 0
  for (let round = 1, to = 1; to < replications && canHalve(arms, alphas); round++, to *= 2) {
    await evaluate(arms, done, to)
    done = to
    const costs = arms.map((arm) => mean(costsOf(arm, to)))
    const stays = kept(
      arms.map((arm) => alphas[arm]!),
      costs,
    )
    for (const [i, arm] of arms.entries()) {
      if (!stays[i]) eliminated.push({ alpha: alphas[arm]!, round, replications: to, cost: costs[i]! })
    }
    arms = arms.filter((_, i) => stays[i])
  }
  await evaluate(arms, done, replications)
  return { arms, eliminated }
}

/**
 * Which alphas stay after a round. 0 and 1 always do: they are the pure rules (shortest queue, fastest instance), and the
 * curve often turns up sharply beside them. Of the m others stay those whose mean cost is not above the ⌈m/2⌉-th
 * smallest, so equals stay or go together.
 */
export function kept(alphas: readonly number[], costs: readonly number[]): boolean[] {
  const others = costs.filter((_, i) => !isEnd(alphas[i]!)).sort(ascending)
  const limit = others[Math.ceil(others.length / 2) - 1]
  return costs.map((cost, i) => isEnd(alphas[i]!) || limit === undefined || cost <= limit)
}

/** The most runs that halving makes where no two costs are equal. */
export function plannedRuns(alphas: readonly number[], replications: number): number {
  let others = alphas.filter((alpha) => !isEnd(alpha)).length
  const ends = alphas.length - others
  let runs = 0
  let done = 0
  for (let to = 1; to < replications && others > 1; to *= 2) {
    runs += (others + ends) * (to - done)
    done = to
    others = Math.ceil(others / 2)
  }
  return runs + (others + ends) * (replications - done)
}

function canHalve(arms: readonly number[], alphas: readonly number[]): boolean {
  return arms.filter((arm) => !isEnd(alphas[arm]!)).length > 1
}

function isEnd(alpha: number): boolean {
  return alpha === 0 || alpha === 1
}

/** Infinite costs have no difference. */
function ascending(a: number, b: number): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
