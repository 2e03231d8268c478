// Which lines the tests run: `npm run coverage [-- native] [-- lib] [--missed]`. Fails below 95 % of either.
//
// native: the core without its binding, by gcov over the native tests (BUILD chooses the folder). lib: the facade, by
// V8's counters over the mocha tests; a line counts where a statement begins on it. --missed lists the lines that did
// not run. What runs in a browser (lib/report/html/client) is named apart: its tests need Chromium.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLIENT, libCoverage } from './lib.mjs'
import { percentage, ranges } from './lines.mjs'
import { nativeCoverage } from './native.mjs'
import { statementLines } from './statements.mjs'

const ASKED = 95

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const args = process.argv.slice(2)
const missed = args.includes('--missed')
const tests = args.filter((arg) => arg.endsWith('.ts'))
const parts = ['native', 'lib'].filter((part) => args.includes(part))

const results = []
for (const part of parts.length > 0 ? parts : ['native', 'lib'])
  results.push([part, part === 'native' ? nativeCoverage(root) : libCoverage(root, tests)])

let low = false
for (const [part, files] of results) {
  if (missed)
    for (const file of files)
      if (file.missed.length > 0)
        console.log(`${file.file}  ${file.missed.length} of ${file.lines}: ${ranges(file.missed)}`)
  const { lines, covered, percent } = percentage(files)
  if (percent < ASKED) low = true
  const what = part === 'native' ? 'native/ without binding/' : 'lib/ without the report page'
  console.log(
    `coverage: ${what}: ${percent.toFixed(1)} % (${covered} of ${lines} lines, ${files.length} files)`,
  )
  if (part === 'lib') {
    const client = readdirSync(join(root, CLIENT), { recursive: true }).filter(
      (name) => name.endsWith('.ts') && !name.endsWith('.d.ts'),
    )
    const inBrowser = client.reduce(
      (sum, name) => sum + statementLines(readFileSync(join(root, CLIENT, name), 'utf8')).size,
      0,
    )
    console.log(`not counted: ${inBrowser} lines of ${CLIENT}, which run in Chromium (test/browser)`)
  }
}
if (low) {
  console.log(`below the ${ASKED} % asked`)
  process.exitCode = 1
}
