// Runs benchmark suites from the built package: `npm run bench -- [suite…] [--quick] [--json [FILE.json]]`. Without a name,
// all of them. --json gives the document that the page of measurements is written from (performance/main.js).
import { writeFileSync } from 'node:fs'
import { machineLine, rowText } from './performance/text.js'
import { runSuites } from './run.js'
import { SUITES } from './suites.js'

const args = process.argv.slice(2)
const json = args.indexOf('--json')
const file = json >= 0 && args[json + 1]?.endsWith('.json') ? args[json + 1] : undefined
const options = args.filter((arg) => arg.startsWith('--'))
const names = args.filter((arg) => !arg.startsWith('--') && arg !== file)
const unknown = [
  ...names.filter((name) => !SUITES.includes(name)).map((name) => `suite "${name}"`),
  ...options.filter((option) => !['--json', '--quick'].includes(option)).map((option) => `option ${option}`),
]
if (unknown.length > 0) {
  console.error(
    `Unknown ${unknown.join(', ')}. Suites: ${SUITES.join(', ')}; options: --quick, --json [FILE.json]`,
  )
  process.exit(2)
}

const wanted = names.length > 0 ? SUITES.filter((name) => names.includes(name)) : SUITES
const text = json < 0
const document = runSuites(
  wanted,
  { quick: args.includes('--quick'), quiet: !text },
  ({ suite, seconds, rows }) => {
    if (!text) return
    console.log(`${suite} (${seconds} s)`)
    for (const row of rows) console.log(`  ${rowText(row)}`)
  },
)
if (text) console.log(machineLine(document.machine))
else if (file === undefined) console.log(JSON.stringify(document))
else writeFileSync(file, `${JSON.stringify(document)}\n`)
