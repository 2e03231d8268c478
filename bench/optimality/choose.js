// Tries variants on choosing seeds and shapes, and keeps a record of all that were ever tried.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Cells, cellsOf } from './cells.js'
import { CHOOSING } from './choosing.js'
import { CHOOSING_SEEDS } from './protocol.js'
import { pairedChange } from './statistics.js'
import { changeText, table } from './text.js'
import { UNIFIED, VARIANTS } from './variants.js'

const METRICS = ['Req95', 'Req99', 'largest']

/** `only`: names of variants; else all. */
export async function choose({ files, record, only, say }) {
  const cells = new Cells({ files, seeds: CHOOSING_SEEDS, say })
  const tables = []
  for (const [variants, clusters] of [
    [VARIANTS, CHOOSING.clusters],
    [UNIFIED, CHOOSING.unified],
  ]) {
    const [first, ...others] = variants
    const rows = []
    for (const variant of others) {
      if (only !== undefined && !only.includes(variant.name)) continue
      const changes = {}
      for (const { name, config } of clusters) {
        const pairs = []
        for (const cell of cellsOf(config, CHOOSING)) {
          const { workload, seed } = cell
          const [base, own] = [await cells.run(cell, first.options), await cells.run(cell, variant.options)]
          pairs.push({ workload, seed, base: base.req, own: own.req })
        }
        changes[name] = METRICS.map((_, m) =>
          pairedChange(pairs.map(({ base, own, ...draw }) => ({ ...draw, own: own[m], first: base[m] }))),
        )
      }
      add(record, variant, changes)
      rows.push([variant.name, ...Object.values(changes).map((own) => own.map(changeText).join(' / '))])
    }
    if (rows.length > 0)
      tables.push(table([`against ${first.name}`, ...clusters.map(({ name }) => name)], rows))
  }
  return tables.join('\n\n')
}

/** After every variant, so that one that was tried and given up is counted too. */
function add(record, { name, options }, changes) {
  const known = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {}
  known[name] = { options, changes }
  writeFileSync(record, `${JSON.stringify(known, null, 2)}\n`)
}
