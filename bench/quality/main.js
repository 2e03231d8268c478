// Untuned placements and orders against HexGen-Flow's, tuned per scenario: `npm run quality`.
//
//   --scenarios N   how many (60), with seeds from --first (1)
//   --select        the wider list of combinations, on the seeds that the preset `laxity` was chosen with (from 1001)
//   --out FILE      writes the page as well
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { breakdown, scenarioTable, summaryTable } from './report.js'
import { CANDIDATES, compare, SELECTION } from './rivals.js'
import { build } from './scenarios.js'

const { values } = parseArgs({
  options: {
    scenarios: { type: 'string', default: '60' },
    first: { type: 'string' },
    select: { type: 'boolean', default: false },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const count = Number(values.scenarios)
const first = Number(values.first ?? (values.select ? 1001 : 1))
const candidates = values.select ? SELECTION : CANDIDATES
const names = Object.keys(candidates)

const scenarios = new Map()
const rows = { online: [], oracle: [] }
const started = performance.now()
for (let seed = first; seed < first + count; seed += 1) {
  const scenario = await build(seed)
  scenarios.set(seed, scenario)
  for (const knowledge of Object.keys(rows))
    rows[knowledge].push(await compare(scenario, knowledge, candidates))
  const minutes = ((performance.now() - started) / 60_000).toFixed(1)
  console.error(`${seed - first + 1}/${count} scenarios, ${minutes} min`)
}

const sections = []
for (const [knowledge, list] of Object.entries(rows)) {
  sections.push(`## Knowledge \`${knowledge}\` on both sides\n\n${summaryTable(list, names)}`)
  if (values.select) continue
  const split = [
    ['KV', (s) => s.kv],
    ['engine mode', (s) => s.mode],
    ['length error', (s) => (s.error > 0 ? `lognormal ${s.error}` : 'none')],
    ['load', (s) => (s.load < 0.65 ? '0.4–0.65' : s.load < 0.9 ? '0.65–0.9' : '0.9–1.2')],
    ['SLO scale', (s) => String(s.sloScale)],
  ]
  for (const [title, property] of split) {
    sections.push(`By ${title}:\n\n${breakdown(list, scenarios, names, property)}`)
  }
  sections.push(`Every scenario:\n\n${scenarioTable(list, scenarios, names)}`)
}
const page = sections.join('\n\n')
if (values.json) console.log(JSON.stringify({ command: 'quality', rows }))
else console.log(page)

if (values.out !== undefined) {
  const intro = `# Untuned against tuned

Written by \`npm run quality -- --scenarios ${count} --first ${first} --out ${values.out}\`. Each number is a ratio to
HexGen-Flow's \`workload-balanced\` + \`urgency\`, tuned on that very scenario: α of 0, 0.1, …, 1 and β of 0.1, 1 and
10 × (mean service time)², the best for each metric over 8 replications of the arrivals. Both sides are scored on 8
further replications; below 1 the untuned policy is better. Means are geometric over the scenarios, with percentile
bootstrap intervals (10,000 resamples).

A scenario (\`bench/quality/scenarios.js\`): 3–10 instances drawn from A100, A6000 and L40S; 200 CHESS-like workflows
(statistics of HexGen-Flow's trace 1, 2 or 3) with Poisson arrivals; KV free, half of what the busiest instance holds
when it is free, or 1.2 × the largest call; load 0.4–1.2, where 1.0 is the throughput of 500 such workflows that are all
there at t = 0 under \`workflow-fcfs\` and \`least-work-left\`; predicted lengths exact or off by a lognormal factor with
σ = 0.4; prefill-first or chunked (512 tokens) engines; deadlines of 3, 5 or 8 × the workflow's
exclusive time, which is also the base of the SLO scale.
`
  writeFileSync(values.out, `${intro}\n${page}\n`)
}
