// Geometric means with bootstrap intervals, win counts, and the page docs/quality.md.

import { random } from './random.js'
import { METRICS } from './rivals.js'

const RESAMPLES = 10_000

const geometric = (ratios) => Math.exp(ratios.reduce((sum, r) => sum + Math.log(r), 0) / ratios.length)

/** The geometric mean over scenarios and its percentile bootstrap 95 % interval. */
export function summary(ratios) {
  const r = random(1)
  const means = Array.from({ length: RESAMPLES }, () =>
    geometric(Array.from(ratios, () => ratios[r.below(ratios.length)])),
  ).sort((a, b) => a - b)
  return {
    mean: geometric(ratios),
    low: means[Math.floor(RESAMPLES * 0.025)],
    high: means[Math.ceil(RESAMPLES * 0.975) - 1],
    wins: ratios.filter((ratio) => ratio < 1).length,
    worst: Math.max(...ratios),
    count: ratios.length,
  }
}

export function summaries(rows, candidates) {
  return candidates.map((name) => ({
    name,
    ...Object.fromEntries(METRICS.map((m) => [m, summary(rows.map((row) => row.ratios[name][m]))])),
  }))
}

const f = (value) => value.toFixed(3)
const cell = ({ mean, low, high, wins, worst, count }) =>
  `${f(mean)} (${f(low)}–${f(high)}) | ${wins}/${count} | ${f(worst)}`

export function summaryTable(rows, candidates) {
  return [
    '| untuned | P95 (95 % interval) | wins | worst | SLO scale 95 (95 % interval) | wins | worst |',
    '|---|---|---|---|---|---|---|',
    ...summaries(rows, candidates).map((s) => `| ${s.name} | ${cell(s.p95Ms)} | ${cell(s.sloScale95)} |`),
  ].join('\n')
}

/** The summary's means by a property of the scenario. */
export function breakdown(rows, scenarios, candidates, property) {
  const groups = new Map()
  for (const row of rows) {
    const value = property(scenarios.get(row.seed))
    groups.set(value, [...(groups.get(value) ?? []), row])
  }
  const header = candidates.flatMap((name) => [`${name}: P95`, 'SLO scale'])
  return [
    `| | scenarios | ${header.join(' | ')} |`,
    `|---|---|${header.map(() => '---|').join('')}`,
    ...[...groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([value, group]) => {
        const cells = candidates.flatMap((name) =>
          METRICS.map((metric) => f(geometric(group.map((row) => row.ratios[name][metric])))),
        )
        return `| ${value} | ${group.length} | ${cells.join(' | ')} |`
      }),
  ].join('\n')
}

export function scenarioTable(rows, scenarios, candidates) {
  const header = candidates.flatMap((name) => [`${name}: P95`, 'SLO scale'])
  return [
    `| seed | GPUs | CHESS | KV | load | rate /s | error | mode | SLO | α, β of the rival (P95; SLO scale) | ${header.join(' | ')} |`,
    `|---|---|---|---|---|---|---|---|---|---|${header.map(() => '---|').join('')}`,
    ...rows.map((row) => {
      const s = scenarios.get(row.seed)
      const counts = Object.entries(Object.groupBy?.(s.gpus, (g) => g) ?? count(s.gpus))
      const gpus = counts.map(([gpu, list]) => `${list.length} ${gpu}`).join(', ')
      const chosen = METRICS.map((m) => `${row.rival.chosen[m].alpha}, ${row.rival.chosen[m].betaFactor}`)
      const cells = candidates.flatMap((name) => METRICS.map((metric) => f(row.ratios[name][metric])))
      const fields = [s.seed, gpus, s.preset, s.kvTokens ?? 'free', s.load.toFixed(2), s.rate.toFixed(3)]
      return `| ${[...fields, s.error, s.mode, s.sloScale, chosen.join('; '), ...cells].join(' | ')} |`
    }),
  ].join('\n')
}

/** Object.groupBy came with Node 21. */
function count(items) {
  const groups = {}
  for (const item of items) groups[item] = [...(groups[item] ?? []), item]
  return groups
}
