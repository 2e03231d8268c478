// The auto-tuner in a scripted scenario, against fixed alphas and untuned `laxity`: `npm run autotuner`.
//
//   --runs N    scenario seeds that the tuner runs through (4)
//   --seeds N   common seeds with which each phase is replayed (64)
//   --hours N   stationary hours per load (8)
//   --out FILE  writes the page as well
//   --choose    chooses `minGain` instead, on other seeds, and writes chosen.json
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { choose, LOADS } from './choose.js'
import { ALPHAS, DEFAULT_ALPHA, doubled, mean, replayPhases, scenario, stationary } from './measure.js'
import { page } from './page.js'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '4' },
    seeds: { type: 'string', default: '64' },
    hours: { type: 'string', default: '8' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
    choose: { type: 'boolean', default: false },
  },
})
const [runs, seeds, hours] = [values.runs, values.seeds, values.hours].map(Number)
const started = performance.now()
const said = (what) => console.error(`${((performance.now() - started) / 1000).toFixed(0)} s: ${what}`)

if (values.choose) {
  const found = await choose({ runs, seeds, hours }, said)
  writeFileSync(new URL('./chosen.json', import.meta.url), `${JSON.stringify(found, null, 2)}\n`)
  console.log(JSON.stringify(found, null, 2))
  process.exit(0)
}

const scenarios = []
for (let i = 0; i < runs; i += 1) {
  scenarios.push(await scenario('report', i))
  said(`scenario ${i + 1}/${runs}`)
}
const costs = await replayPhases('report', seeds, (name) => said(`phase ${name}`))
const hourly = []
for (const [rate, alpha] of LOADS) {
  hourly.push({
    all: await stationary('report', rate, alpha, hours, undefined),
    welch: await stationary('report', rate, alpha, hours, ['welch']),
  })
  said(`stationary at ${rate}/s`)
}
const delays = await doubled('report', 1, 16)
said('doubled service times')

const measured = { runs, seeds, scenarios, costs, hourly, delays, alphas: ALPHAS, initial: DEFAULT_ALPHA }
const text = page(measured, mean)
console.log(values.json ? JSON.stringify({ command: 'autotuner', ...measured }) : text)
if (values.out !== undefined) writeFileSync(values.out, text)
