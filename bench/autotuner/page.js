// The page docs/auto-tuner.md from what was measured.
import { existsSync, readFileSync } from 'node:fs'
import { MOST_SWITCHES } from './choose.js'
import { PHASES } from './scenario.js'

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`
const seconds = (s) => s.toFixed(1)

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Regret of alphas in force against the phase's best, from the replays. */
function replayed({ scenarios, costs, alphas }) {
  const rows = PHASES.map(({ name }, p) => {
    const best = Math.min(...costs[p])
    const cost = (alpha) => costs[p][alphas.indexOf(alpha)]
    const atEnd = scenarios.map(({ inForce }) => cost(inForce[p].last) / best - 1)
    const whole = scenarios.map(
      ({ inForce }) =>
        inForce[p].shares.reduce((sum, [alpha, share]) => sum + share * cost(alpha), 0) / best - 1,
    )
    return {
      name,
      best,
      bestAlpha: alphas[costs[p].indexOf(best)],
      atEnd,
      whole,
      fixed: costs[p].map((c) => c / best - 1),
    }
  })
  return rows
}

/** How `minGain` was chosen, on seeds that nothing else here has seen (seeds.js). */
function choosing() {
  const file = new URL('./chosen.json', import.meta.url)
  if (!existsSync(file)) throw new Error('No chosen.json: run `npm run autotuner -- --choose` first')
  const { runs, seeds, hours, rows, minGain } = JSON.parse(readFileSync(file, 'utf8'))
  return `### How the least gain was chosen

By \`npm run autotuner -- --choose --runs ${runs} --seeds ${seeds} --hours ${hours}\`, on random seeds of their own: no stream of the
tables on this page was among them (\`bench/autotuner/seeds.js\`). Chosen is the least regret among the values with at most ${MOST_SWITCHES}
needless switches per stationary hour at every load: ${percent(minGain, 0)}.

${table(
  ['least gain', 'regret, every α by its share of the phase', 'switches per stationary hour, worst load'],
  rows.map((row) => [percent(row.minGain, 0), percent(row.regret, 2), row.switches.toFixed(2)]),
)}
`
}

export function page(measured, mean) {
  const { runs, seeds, scenarios, alphas, initial, hourly, delays } = measured
  const head = ['', ...PHASES.map(({ name }) => name), 'mean']
  const phaseMean = (pick) => PHASES.map((_, p) => mean(scenarios.map((s) => pick(s)[p])))
  const rows = replayed(measured)

  const atEnd = rows.map(({ atEnd: list }) => mean(list))
  const whole = rows.map(({ whole: list }) => mean(list))
  const fixedRegret = alphas.map((_, a) => rows.map(({ fixed }) => fixed[a]))
  const bestFixed = fixedRegret.map(mean).reduce((best, r, a, all) => (r < all[best] ? a : best), 0)
  const defaultRow = fixedRegret[alphas.indexOf(initial)]
  const shares = (list) => [...list.map((x) => percent(x)), percent(mean(list))]
  const replayTable = table(head, [
    ['best α', ...rows.map(({ bestAlpha }) => bestAlpha.toFixed(1)), ''],
    ['P95 under it, s', ...rows.map(({ best }) => seconds(best)), ''],
    ['tuner, α at the end of the phase', ...shares(atEnd)],
    ['tuner, every α by its share of the phase', ...shares(whole)],
    [`fixed α = ${alphas[bestFixed].toFixed(1)}, the best fixed one`, ...shares(fixedRegret[bestFixed])],
    [`fixed α = ${initial}, where the tuner began`, ...shares(defaultRow)],
    ['fixed α = 0.6', ...shares(fixedRegret[alphas.indexOf(0.6)])],
  ])

  const tuned = phaseMean(({ tuned: t }) => t)
  const laxity = phaseMean(({ laxity: l }) => l)
  const fixed = alphas.map((_, a) => phaseMean((s) => s.fixed[a]))
  const least = PHASES.map((_, p) => Math.min(...fixed.map((f) => f[p])))
  const against = (list) => [...list.map(seconds), percent(mean(list.map((x, p) => x / least[p] - 1)))]
  const insideTable = table(
    ['P95, s', ...head.slice(1, -1), 'regret'],
    [
      ['tuner', ...against(tuned)],
      ...[0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8].map((alpha) => [
        `α = ${alpha.toFixed(1)}`,
        ...against(fixed[alphas.indexOf(alpha)]),
      ]),
      ['`laxity`, untuned', ...against(laxity)],
    ],
  )

  const events = scenarios[0].events.filter(({ kind }) => kind !== 'kept')
  const log = table(
    ['t, s', 'what', 'why', 'α', 'evidence'],
    events.map((e) => [
      seconds(e.atMs / 1000),
      e.kind,
      e.reason + (e.instance === undefined ? '' : ` ${e.instance}`),
      e.kind === 'applied' ? `${e.from.toFixed(1)} → ${e.to.toFixed(1)}` : e.from.toFixed(1),
      e.kind === 'applied'
        ? `gain ${percent(e.gain)}, p ${e.p.toFixed(4)}`
        : e.reason === 'welch'
          ? `t ${e.statistic.toFixed(2)}, p ${e.p.toFixed(4)}`
          : e.reason === 'instance'
            ? ''
            : `${e.statistic.toFixed(1)} > ${e.threshold.toFixed(1)}`,
    ]),
  )

  const per = ({ counts, hours }, reason) => ((counts[reason] ?? 0) / hours).toFixed(2)
  const stationaryTable = table(
    [
      'rate, α',
      'ratio ↑',
      'ratio ↓',
      'service ↑↓',
      'arrivals ↑',
      'arrivals ↓',
      'work ↑↓',
      'Welch',
      'switches',
    ],
    hourly.map(({ all }) => [
      `${all.rate}/s, ${all.alpha}`,
      per(all, 'ratio-up'),
      per(all, 'ratio-down'),
      (((all.counts['service-up'] ?? 0) + (all.counts['service-down'] ?? 0)) / all.hours).toFixed(2),
      per(all, 'rate-up'),
      per(all, 'rate-down'),
      per(all, 'work'),
      per(all, 'welch'),
      (all.switches / all.hours).toFixed(2),
    ]),
  )
  // A window is tested every 100 s; an alarm or a switch begins again, which leaves two windows out.
  const welch = hourly.map(({ welch: w }) => {
    const tests = Math.max(1, w.hours * 36 - w.restarts)
    return `${percent((w.counts.welch ?? 0) / tests, 0)} at ${w.rate}/s`
  })
  const median = delays[Math.floor(delays.length / 2)]
  const cpu = mean(scenarios.map(({ cpuMs }) => cpuMs / 1000))
  const sims = mean(scenarios.map((s) => s.runs))
  const switches = mean(scenarios.map((s) => s.events.filter(({ kind }) => kind === 'applied').length))
  const intro = readFileSync(new URL('./intro.md', import.meta.url), 'utf8')
  const total = PHASES.reduce((sum, phase) => sum + phase.seconds, 0)
  const verdict = (good) => (good ? 'reached' : '**missed**')
  const worstSwitches = Math.max(...hourly.map(({ all }) => all.switches / all.hours))

  return `${intro}
## Measured

Written by \`npm run autotuner -- --runs ${runs} --seeds ${seeds} --hours ${hourly[0].all.hours} --out docs/auto-tuner.md\`. Cluster
\`hexgen-hetero-2\`, HexGen-Flow's \`workload-balanced\` + \`urgency\`, the tuner with its defaults, from α = ${initial}.

| what | wanted | measured | |
| --- | --- | --- | --- |
| mean P95 regret against each phase's best α, ${seeds} common seeds, α at the end of the phase | ≤ 3 % | ${percent(mean(atEnd), 2)} | ${verdict(mean(atEnd) <= 0.03)} |
| the same, every α by its share of the phase, adaptation included | ≤ 3 % | ${percent(mean(whole), 2)} | ${verdict(mean(whole) <= 0.03)} |
| needless switches per stationary hour, worst of ${hourly.length} loads | ≤ 1 | ${worstSwitches.toFixed(2)} | ${verdict(worstSwitches <= 1)} |
| a doubled service time at 1 workflow/s, ${delays.length} seeds: alarm after | ≤ 200 s | median ${seconds(median)} s, at most ${seconds(delays.at(-1))} s | ${verdict(delays.at(-1) <= 200)} |

The rate of false alarms over 1,000 stationary windows is a test (\`test/native/tuner_test.cc\`).

${choosing()}
### Regret, each phase replayed alone

P95 above that of the phase's best α, both as means over ${seeds} common seeds; the tuner's α are those of ${runs} runs of the
scenario. The mean is over the phases.

${replayTable}

### P95 inside the scenario

Workflows by the phase in which they arrived, backlogs of the phase before included; means over ${runs} runs. The regret is
against the best fixed α of each phase, which no fixed α is throughout.

${insideTable}

\`laxity\` (ratio × eftxp, with migration) is another policy, not another α, and needs no tuning: where its regret is negative, no α
of HexGen-Flow's policy reaches it. Tuning α is for those who run that policy; any other parameter is tuned the same way.

### What the tuner did in the first run

Sweeps that kept the value are left out. The phases begin at ${PHASES.map(({ name }, p) => `${PHASES.slice(0, p).reduce((sum, x) => sum + x.seconds, 0)} s (${name})`).join(', ')}.

${log}

${switches.toFixed(1)} switches in ${total} s, ${sims.toFixed(0)} nested simulations and ${cpu.toFixed(1)} s of CPU a run, on the mean.

### Stationary hours: alarms and switches per hour

Every detector on, ${hourly[0].all.hours} hours a load. Stated: ${(0.5).toFixed(1)} per hour for each direction of ratio, arrivals and work, and of service over
all instances. A switch here is needless by definition.

${stationaryTable}

Welch's test alone, level 5 %: the share of its tests that called a window worse though nothing had changed was
${welch.join(', ')}. Beside the other detectors, whose alarms give it a new reference each time, it gives the alarms
of the table, far more than any calibrated one. Latencies of neighbouring workflows share a queue, so they are not independent
samples and its level is no guarantee: it triggers sweeps, which cost little, and decides nothing.
`
}
