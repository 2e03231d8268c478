// The auto-tuner in a scripted scenario, against fixed alphas and untuned `laxity`: `npm run autotuner`.
//
//   --runs N    scenario seeds that the tuner runs through (4)
//   --seeds N   common seeds with which each phase is replayed (64)
//   --hours N   stationary hours per load (8)
//   --out FILE  writes the page as well
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ALPHAS, DEFAULT_ALPHA, doubled, mean, replayPhases, scenario, stationary } from './measure.js'
import { page } from './page.js'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '4' },
    seeds: { type: 'string', default: '64' },
    hours: { type: 'string', default: '8' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const [runs, seeds, hours] = [values.runs, values.seeds, values.hours].map(Number)
const started = performance.now()
const said = (what) => console.error(`${((performance.now() - started) / 1000).toFixed(0)} s: ${what}`)

const scenarios = []
for (let seed = 1; seed <= runs; seed += 1) {
  scenarios.push(await scenario(seed))
  said(`scenario ${seed}/${runs}`)
}
const costs = await replayPhases(seeds, (name) => said(`phase ${name}`))
const hourly = []
for (const [rate, alpha] of [
  [0.3, 0.5],
  [0.6, 0.2],
  [0.8, 0.1],
]) {
  hourly.push({
    all: await stationary(rate, alpha, hours, undefined),
    welch: await stationary(rate, alpha, hours, ['welch']),
  })
  said(`stationary at ${rate}/s`)
}
const delays = await doubled(1, 16)
said('doubled service times')

const measured = { runs, seeds, scenarios, costs, hourly, delays, alphas: ALPHAS, initial: DEFAULT_ALPHA }
const text = page(measured, mean)
console.log(values.json ? JSON.stringify({ command: 'autotuner', ...measured }) : text)
if (values.out !== undefined) writeFileSync(values.out, text)
