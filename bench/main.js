// Runs benchmark suites from the built package: `npm run bench -- [suite…] [--json]`. Without a name, all of them.
import { cpus, totalmem } from 'node:os'

const SUITES = ['structures', 'dispatch', 'planner', 'boundary', 'model', 'sweep', 'pairs', 'live', 'busy']

const args = process.argv.slice(2)
const json = args.includes('--json')
const names = args.filter((arg) => !arg.startsWith('--'))
for (const name of names) {
  if (SUITES.includes(name)) continue
  console.error(`Unknown suite "${name}". Suites: ${SUITES.join(', ')}`)
  process.exit(2)
}

const machine = {
  node: process.version,
  platform: `${process.platform}-${process.arch}`,
  cpu: cpus()[0]?.model.trim() ?? 'unknown',
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
}

for (const name of names.length > 0 ? names : SUITES) {
  const { run } = await import(`./${name}.js`)
  const rows = await run((message) => !json && console.error(message))
  if (json) {
    console.log(JSON.stringify({ suite: name, machine, rows }))
    continue
  }
  console.log(`${name} (${machine.cpu}, Node ${machine.node})`)
  for (const { name: row, value, unit, note } of rows) {
    console.log(`  ${row.padEnd(58)} ${String(value).padStart(10)} ${unit}${note ? `   ${note}` : ''}`)
  }
}
