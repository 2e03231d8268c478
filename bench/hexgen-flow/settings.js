// The settings of HexGen-Flow's evaluation (arXiv 2505.05286, sections 5 and 6), and how one cell of it is measured here.
import { sweep } from '../../dist/index.js'

export const CLUSTERS = ['hexgen-hetero-1', 'hexgen-hetero-2', 'hexgen-homo']
export const RATES = [0.5, 1.0]
export const ALPHAS = '0:1:0.1'
export const REPLICATIONS = 16
/** Alphas are chosen on one set of arrivals and scored on another. */
const TUNING_SEED = 1
export const SCORING_SEED = 2

export const HEXGEN = { order: 'urgency', placement: 'workload-balanced' }

/** The rows of every comparison. VTC, QLM and LLF stand on round robin, as in the authors' own runs. */
export const POLICIES = {
  'HexGen-Flow (α tuned)': { ...HEXGEN, tune: true },
  vLLM: { order: 'fcfs', placement: 'round-robin' },
  VTC: { order: 'vtc', placement: 'round-robin' },
  QLM: { order: 'qlm', placement: 'round-robin' },
  LLF: { order: 'llf', placement: 'round-robin' },
  Ray: { order: 'fcfs', placement: 'power-of-two' },
  'RR + PQ': { order: 'urgency', placement: 'round-robin' },
  'WB + FCFS (α tuned)': { order: 'fcfs', placement: 'workload-balanced', tune: true },
  'laxity (untuned)': { policy: 'laxity' },
}
export const BASELINES = ['vLLM', 'VTC', 'QLM', 'LLF', 'Ray']

/** The alpha with the least mean P95 over the tuning arrivals. */
export async function tuneAlpha(run, policy) {
  const { best, timing, points } = await sweep({
    ...run,
    ...policy,
    alphas: ALPHAS,
    replications: REPLICATIONS,
    seed: TUNING_SEED,
  })
  return { alpha: best.alpha, indistinguishable: best.indistinguishable, timing, points }
}

/** Means over the scoring arrivals. `policy.tune` chooses alpha first. */
export async function measure(run, { tune, ...policy }) {
  const alpha = tune ? (await tuneAlpha(run, policy)).alpha : 0.3
  const { points } = await sweep({
    ...run,
    ...policy,
    alphas: [alpha],
    replications: REPLICATIONS,
    seed: SCORING_SEED,
  })
  return { ...points[0], alpha: tune ? alpha : undefined }
}

/** Every policy on one setting, by name. */
export async function measureAll(run, policies = POLICIES) {
  const cells = {}
  for (const [name, policy] of Object.entries(policies)) cells[name] = await measure(run, policy)
  return cells
}
