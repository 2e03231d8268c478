// Tries variants on choosing seeds and shapes, and keeps a record of all that were ever tried.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Cells, cellsOf } from './cells.js'
import { CHOOSING } from './choosing.js'
import { CHOOSING_SEEDS } from './protocol.js'
import { pairedChange } from './statistics.js'
import { changeText, table } from './text.js'
import { VARIANTS } from './variants.js'

const METRICS = ['Req95', 'Req99', 'largest']

/** `only`: names of variants; else all. */
export async function choose({ file, record, only, say }) {
  const cells = new Cells({ files: [file], seeds: CHOOSING_SEEDS, say })
  const known = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {}
  const [first, ...others] = VARIANTS
  const rows = []
  for (const variant of others) {
    if (only !== undefined && !only.includes(variant.name)) continue
    const changes = {}
    for (const { name, config } of CHOOSING.clusters) {
      const pairs = []
      for (const cell of cellsOf(config, CHOOSING)) {
        const [base, own] = [await cells.run(cell, first.options), await cells.run(cell, variant.options)]
        pairs.push({ ...cell, base, own })
      }
      changes[name] = METRICS.map((_, m) =>
        pairedChange(
          pairs.map(({ workload, seed, base, own }) => ({ workload, seed, own: own.req[m], first: base.req[m] })),
        ),
      )
    }
    known[variant.name] = { options: variant.options, changes }
    // After every variant, so that one that was tried and given up is counted too.
    writeFileSync(record, `${JSON.stringify(known, null, 2)}\n`)
    rows.push([variant.name, ...Object.values(changes).map((own) => own.map(changeText).join(' / '))])
  }
  return table(['variant', ...CHOOSING.clusters.map(({ name }) => name)], rows)
}
