// How far policies are from what no scheduler can be below, on seeds and clusters that nothing was chosen on:
// `npm run optimality -- --report --out docs/optimality.md`, and `--choose` for what was chosen before.
//
//   --cells FILE   keeps what was measured, run by run: started again, what is there is not measured again. Of one build
//   --only NAMES   with --choose: only these variants, with commas between
//   --workload NAMES, --cluster NAMES   with --report: only these, for several processes that fill files of their own
//   --merge FILES  cells that other processes have measured, with commas between
//   --seeds N      with --report: fewer seeds, for a look
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const list = (text) => text?.split(',').map((part) => part.trim())
const { values } = parseArgs({
  options: {
    choose: { type: 'boolean', default: false },
    report: { type: 'boolean', default: false },
    out: { type: 'string' },
    cells: { type: 'string' },
    only: { type: 'string' },
    workload: { type: 'string' },
    cluster: { type: 'string' },
    merge: { type: 'string' },
    seeds: { type: 'string' },
  },
})
if (values.choose === values.report) throw new Error('Give either --choose or --report')

const files = [values.cells, ...(list(values.merge) ?? [])]
const say = (message) => console.error(message)
const record = fileURLToPath(new URL('./tried.json', import.meta.url))
let text
if (values.choose) {
  const { choose } = await import('./choose.js')
  text = await choose({ files, record, only: list(values.only), say })
} else {
  const { report } = await import('./report.js')
  text = await report({
    files,
    tried: JSON.parse(readFileSync(record, 'utf8')),
    screened: JSON.parse(readFileSync(fileURLToPath(new URL('./screened.json', import.meta.url)), 'utf8')),
    workloads: list(values.workload),
    clusters: list(values.cluster),
    seeds: values.seeds && Number(values.seeds),
    say,
  })
}
if (values.out === undefined) console.log(text)
else writeFileSync(values.out, `${text}\n`)
