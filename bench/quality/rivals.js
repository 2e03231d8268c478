// What is compared, on one scenario under one knowledge: untuned combinations against HexGen-Flow's, tuned per scenario.
import { simulate, sweep } from '../../dist/index.js'

const TUNING = 8
const SCORING = 8
const BETAS = [0.1, 1, 10]
const ALPHAS = '0:1:0.1'

export const METRICS = ['p95Ms', 'sloScale95']

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length

/** Means of both metrics over the replications that no tuning saw. */
async function score(run, policy) {
  const results = []
  for (let replication = TUNING; replication < TUNING + SCORING; replication += 1) {
    results.push((await simulate({ ...run, ...policy, replication, workers: 0 })).metrics)
  }
  return Object.fromEntries(METRICS.map((metric) => [metric, mean(results.map((m) => m[metric]))]))
}

/**
 * `workload-balanced` + `urgency` with the alpha and beta that are best for each metric over the first half of the
 * replications: 11 alphas × beta in {0.1, 1, 10} × (mean service time)².
 */
export async function tuned(run, meanServiceS) {
  const policy = { order: 'urgency', placement: 'workload-balanced' }
  const points = []
  for (const factor of BETAS) {
    const beta = factor * meanServiceS ** 2
    const result = await sweep({ ...run, ...policy, beta, alphas: ALPHAS, replications: TUNING, workers: 0 })
    for (const point of result.points) points.push({ ...point, beta, factor })
  }
  const scores = {}
  const chosen = {}
  for (const metric of METRICS) {
    const best = points.reduce((a, b) => (b[metric] < a[metric] ? b : a))
    chosen[metric] = { alpha: best.alpha, betaFactor: best.factor }
    scores[metric] = (await score(run, { ...policy, alpha: best.alpha, beta: best.beta }))[metric]
  }
  return { scores, chosen }
}

export const CANDIDATES = {
  'eftxp + ratio': { order: 'ratio', placement: 'eftxp' },
  'eftxp + stretch': { order: 'stretch', placement: 'eftxp' },
  'eftxp + ratio + migrate': { order: 'ratio', placement: 'eftxp', migrate: true },
}

/** Further combinations that the preset `laxity` was chosen from. */
export const SELECTION = {
  ...CANDIDATES,
  'eftxp + llf': { order: 'llf', placement: 'eftxp' },
  'eftxp + edf': { order: 'edf', placement: 'eftxp' },
  'eftxp + urgency': { order: 'urgency', placement: 'eftxp' },
  'eftxp + workflow-fcfs': { order: 'workflow-fcfs', placement: 'eftxp' },
  'eftxp + stretch + migrate': { order: 'stretch', placement: 'eftxp', migrate: true },
  'least-work-left + stretch': { order: 'stretch', placement: 'least-work-left' },
}

/** One row: every candidate's ratio to the tuned rival on both metrics; below 1 is better. */
export async function compare(scenario, knowledge, candidates) {
  const run = { ...scenario.run, knowledge }
  const rival = await tuned(run, scenario.meanServiceS)
  const ratios = {}
  for (const [name, policy] of Object.entries(candidates)) {
    const own = await score(run, policy)
    ratios[name] = Object.fromEntries(METRICS.map((metric) => [metric, own[metric] / rival.scores[metric]]))
  }
  return { seed: scenario.seed, knowledge, rival, ratios }
}
