// HexGen-Flow's evaluation beside ours: `npm run hexgen-flow [-- --traces DIR --out FILE]`.
//
// Traces 1 and 3 are the authors' where DIR holds them, else generated with the same statistics; trace 2 is always
// generated (its file is not public).
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chessTrace, readTrace } from '../../dist/index.js'
import { page } from './page.js'
import { Study } from './sections.js'

const SHARED = fileURLToPath(new URL('../../../shared/data/hexgen-flow', import.meta.url))

const { values } = parseArgs({
  options: { traces: { type: 'string', default: SHARED }, out: { type: 'string' } },
})

/** How many workflows the published traces have. */
const WORKFLOWS = { 1: 90, 2: 96, 3: 110 }

async function trace(preset) {
  const file = join(values.traces, `input_file_trace${preset}.json`)
  if (existsSync(file)) return readTrace(file)
  return chessTrace({ workflows: WORKFLOWS[preset], preset, seed: 1 })
}

const traces = { 1: await trace(1), 2: await trace(2), 3: await trace(3) }
const say = (message) => console.error(message)
const text = await page(new Study(traces, say), traces, say)
if (values.out === undefined) console.log(text)
else writeFileSync(values.out, text)
