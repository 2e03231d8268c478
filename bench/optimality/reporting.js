// What is reported: seeds and cluster shapes that nothing was chosen on. Shapes were fixed before the first
// report, on seeds 700 to 704; the seeds are new since, and so is the second length.
import { cluster, REPORTING_SEEDS, take } from './protocol.js'

export const REPORTING = {
  seeds: take(REPORTING_SEEDS, 5),
  workloads: ['sharegpt', 'bfcl', 'lats', 'mixed', 'chains'],
  loads: [0.8, 1, 1.15],
  workflows: 200,
  /** The same cells with more workflows: a run of 200 is mostly filling, draining and learning. Without baselines and bound. */
  long: { workflows: 800, loads: [1], seeds: take(REPORTING_SEEDS, 2) },
  /** Of these cells also what a search that knows the future reaches, with so many simulations for each τ. */
  clairvoyant: { loads: [1], seeds: take(REPORTING_SEEDS, 1), evaluations: 100 },
  clusters: [
    cluster('report-prefill', 'prefill-bound, heterogeneous', {
      prefill: { 'a100-80': 2, h200: 1 },
      decode: { h100: 4, h200: 4 },
    }),
    cluster('report-equal', 'homogeneous', { prefill: { h100: 2 }, decode: { h100: 7 } }),
    cluster('report-decode', 'decode-bound', {
      prefill: { h200: 5 },
      decode: { 'a100-80': 1, h100: 1, h200: 1 },
      kvTokens: { 'a100-80': 64_000, h100: 64_000, h200: 96_000 },
    }),
  ],
}

/** BASE is the best of these, run by run and metric by metric. */
export const BASELINES = ['fcfs', 'workflow-fcfs', 'llf', 'atlas'].flatMap((order) =>
  ['least-loaded', 'earliest-finish'].map((placement) => ({ order, placement })),
)

/** What is compared with `hexagent`. */
export const RULES = [
  { name: 'laxity, no hint', options: { policy: 'laxity' } },
  { name: 'laxity, predictor σ = 0.3', options: { policy: 'laxity', remaining: 'predictor:0.3' } },
  { name: 'laxity, predictor σ = 0.7', options: { policy: 'laxity', remaining: 'predictor:0.7' } },
  { name: 'laxity, exact remaining', options: { policy: 'laxity', remaining: 'exact' } },
  {
    name: 'ratio/kv-price and minimum, no hint',
    options: { policy: { order: 'ratio', placement: 'kv-price' }, parameters: { structuralMinimum: 1 } },
  },
  { name: 'hexagent, exact remaining', options: { policy: 'hexagent', remaining: 'exact' } },
]

/** Those of the long runs. */
export const LONG_RULES = RULES.filter(({ name }) =>
  ['laxity, no hint', 'laxity, predictor σ = 0.3', 'laxity, exact remaining'].includes(name),
)
