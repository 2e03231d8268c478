// What rules are chosen on. The cluster shapes are those of the prototype study whose rules are tried here, so they have
// been looked at already; the prefill pools of the first two are smaller, so that prefill is what is short.
import { CHOOSING_SEEDS, cluster, take, unified } from './protocol.js'

export const CHOOSING = {
  seeds: take(CHOOSING_SEEDS, 2),
  workloads: ['sharegpt', 'bfcl', 'lats', 'chains'],
  loads: [0.9, 1.1],
  workflows: 200,
  clusters: [
    cluster('choose-prefill', 'prefill-bound, heterogeneous', {
      prefill: { 'a100-80': 1, h100: 1 },
      decode: { 'a100-80': 1, h100: 2, h200: 3 },
    }),
    cluster('choose-equal', 'homogeneous', { prefill: { h200: 2 }, decode: { h200: 6 } }),
    cluster('choose-decode', 'decode-bound', {
      prefill: { h200: 4, h100: 2 },
      decode: { 'a100-80': 2, h100: 1 },
      kvTokens: { 'a100-80': 60_000, h100: 60_000 },
    }),
  ],
  /** Variants of the other list of variants.js. */
  unified: [
    unified('choose-unified', 'unified, heterogeneous', { 'a100-80': 2, h100: 2 }),
    unified('choose-unified-equal', 'unified, homogeneous', { h200: 3 }),
  ],
}
