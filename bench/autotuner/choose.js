// Chooses the least gain that a switch must promise, on the choosing seeds alone: of the values that keep needless
// switches below half of what is allowed, the one with the least regret. `npm run autotuner -- --choose` writes
// chosen.json; the default of `minGain` follows it by hand, which a test checks.
import { ALPHAS, mean, replayPhases, scenario, stationary } from './measure.js'

export const CANDIDATES = [0.02, 0.03, 0.04, 0.05, 0.06]
export const MOST_SWITCHES = 0.5
export const LOADS = [
  [0.3, 0.5],
  [0.6, 0.2],
  [0.8, 0.1],
]

/** Of equals the larger value: it switches less. */
export function chosen(rows) {
  const good = rows.filter(({ switches }) => switches <= MOST_SWITCHES)
  const least = (list, of) => list.reduce((best, row) => (of(row) <= of(best) ? row : best))
  return good.length > 0 ? least(good, ({ regret }) => regret) : least(rows, ({ switches }) => switches)
}

export async function choose({ runs, seeds, hours }, said) {
  const costs = await replayPhases('choose', seeds, (name) => said(`choosing: phase ${name}`))
  const rows = []
  for (const minGain of CANDIDATES) {
    const regrets = []
    for (let i = 0; i < runs; i += 1) {
      const { inForce } = await scenario('choose', i, { minGain }, { tunedOnly: true })
      for (const [p, { shares }] of inForce.entries()) {
        const best = Math.min(...costs[p])
        const cost = shares.reduce((sum, [alpha, share]) => sum + share * costs[p][ALPHAS.indexOf(alpha)], 0)
        regrets.push(cost / best - 1)
      }
    }
    const perHour = []
    for (const [rate, alpha] of LOADS)
      perHour.push((await stationary('choose', rate, alpha, hours, undefined, { minGain })).switches / hours)
    rows.push({ minGain, regret: mean(regrets), switches: Math.max(...perHour) })
    said(`choosing: ${minGain}`)
  }
  return { runs, seeds, hours, rows, minGain: chosen(rows).minGain }
}
