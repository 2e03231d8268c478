// The page of measurements, from one run: `npm run performance [-- --out FILE.md --json FILE.json --quick]`.
//
//   --out FILE    writes the page there and its plots beside it (FILE-*.svg); without it the page goes to stdout
//   --json FILE   keeps the run, as `npm run bench -- --json FILE` does
//   --from FILE   writes the page of a kept run and measures nothing
//   --quick       fewer rounds and smaller sizes: to see that it works
import { readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import { runSuites } from '../run.js'
import { SUITES } from '../suites.js'
import { page, plots } from './page.js'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    json: { type: 'string' },
    from: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
})

const document =
  values.from === undefined
    ? runSuites(SUITES, { quick: values.quick }, ({ suite, seconds }) =>
        console.error(`${suite}: ${seconds} s`),
      )
    : JSON.parse(readFileSync(values.from, 'utf8'))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(document)}\n`)
if (values.out === undefined) {
  console.log(page(document, 'performance'))
} else {
  const stem = values.out.replace(/\.md$/, '')
  writeFileSync(values.out, page(document, basename(stem)))
  for (const { name, svg } of plots(document)) writeFileSync(`${stem}-${name}.svg`, svg)
}
