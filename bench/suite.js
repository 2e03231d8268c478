// One suite in a process of its own: neither its garbage nor what V8 learnt from it touches another. Rows to stdout.
// Started by main.js.
import { writeSync } from 'node:fs'

const [name, settings] = process.argv.slice(2)
const { run } = await import(`./${name}.js`)
const started = performance.now()
const rows = await run((message) => console.error(`  ${message}`), JSON.parse(settings))
const text = JSON.stringify({
  suite: name,
  seconds: Math.round((performance.now() - started) / 100) / 10,
  peakMiB: Math.round(process.resourceUsage().maxRSS / 1024),
  rows,
})
// A pipe takes what it has room for.
const bytes = Buffer.from(text)
for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
