// A real proxy before emulated GPUs, policy against policy: `npm run proxy`.
//
//   --workflows N     per run (300)
//   --seeds N         runs per policy (3)
//   --compression N   seconds of the latency model in a real one (7)
//   --runs FILE       keeps every run: started again, what is there is not run again. Of one build only.
//   --out FILE        writes the page as well
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { page } from './page.js'
import { run } from './run.js'
import { COMPRESSION, LOAD, POLICIES, saturation } from './settings.js'

const { values } = parseArgs({
  options: {
    workflows: { type: 'string', default: '300' },
    seeds: { type: 'string', default: '3' },
    compression: { type: 'string', default: String(COMPRESSION) },
    runs: { type: 'string' },
    out: { type: 'string' },
  },
})
const [workflows, seeds, compression] = [values.workflows, values.seeds, values.compression].map(Number)
const saturationPerS = await saturation()
const rate = LOAD * saturationPerS

const kept =
  values.runs !== undefined && existsSync(values.runs) ? JSON.parse(readFileSync(values.runs, 'utf8')) : {}
const names = Object.keys(POLICIES)
const results = Object.fromEntries(names.map((name) => [name, []]))
for (let seed = 1; seed <= seeds; seed += 1) {
  // Interleaved, and each policy once first: what changes on the machine hits all of them.
  const order = names.map((_, i) => names[(i + seed - 1) % names.length])
  for (const policy of order) {
    const key = [policy, seed, workflows, compression].join(' ')
    if (kept[key] === undefined) {
      console.error(`${policy}, seed ${seed} …`)
      kept[key] = await run({ policy, seed, workflows, rate, compression })
      console.error(`  ${kept[key].realS.toFixed(0)} s`)
      if (values.runs !== undefined) writeFileSync(values.runs, JSON.stringify(kept))
    }
    results[policy][seed - 1] = kept[key]
  }
}

const text = await page({ results, workflows, seeds, compression, saturationPerS, rate })
console.log(text)
if (values.out !== undefined) writeFileSync(values.out, text)
