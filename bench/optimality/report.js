// Measures everything that is reported and writes the page.
import { Cells, cellsOf } from './cells.js'
import { page } from './page.js'
import { REPORTING_SEEDS } from './protocol.js'
import { BASELINES, LONG_RULES, REPORTING, RULES } from './reporting.js'

const FIRST = { policy: 'hexagent' }

/** `workloads`, `clusters`, `seeds`: a part of it; the page is of what was measured. */
export async function report({ files, tried, screened, workloads, clusters, seeds, say }) {
  const cells = new Cells({ files, seeds: REPORTING_SEEDS, say })
  const protocol = {
    ...REPORTING,
    workloads: REPORTING.workloads.filter((name) => workloads?.includes(name) ?? true),
    clusters: REPORTING.clusters.filter(({ name }) => clusters?.includes(name) ?? true),
    seeds: REPORTING.seeds.slice(0, seeds ?? REPORTING.seeds.length),
  }
  const measured = []
  for (const { name, kind, config } of protocol.clusters) {
    for (const cell of cellsOf(config, protocol)) {
      const { workload, load, seed } = cell
      const hexagent = await cells.run(cell, FIRST)
      const baselines = []
      for (const policy of BASELINES) baselines.push(await cells.run(cell, { policy }))
      const rules = {}
      for (const rule of RULES) rules[rule.name] = await cells.run(cell, rule.options)
      const bound = await cells.bound(cell)
      const { loads, seeds: searched, evaluations } = protocol.clairvoyant
      const isSearched = loads.includes(load) && searched.includes(seed)
      measured.push({
        cluster: name,
        kind,
        workload,
        load,
        seed,
        bound,
        clairvoyant: isSearched ? await cells.reference(cell, evaluations) : undefined,
        use: hexagent,
        evicted: [hexagent, ...baselines, ...Object.values(rules)].some(({ evictions }) => evictions > 0),
        req: {
          BASE: [0, 1, 2].map((m) => Math.min(...baselines.map(({ req }) => req[m]))),
          hexagent: hexagent.req,
          ...Object.fromEntries(Object.entries(rules).map(([rule, { req }]) => [rule, req])),
        },
      })
    }
  }
  return page({
    protocol,
    measured,
    long: await longer(cells, protocol),
    baselines: BASELINES,
    rules: RULES.map((rule) => rule.name),
    tried,
    screened,
  })
}

async function longer(cells, protocol) {
  const measured = []
  for (const { name, kind, config } of protocol.clusters) {
    for (const cell of cellsOf(config, { ...protocol, ...protocol.long })) {
      const req = { hexagent: (await cells.run(cell, FIRST)).req }
      for (const rule of LONG_RULES) req[rule.name] = (await cells.run(cell, rule.options)).req
      measured.push({ cluster: name, kind, workload: cell.workload, load: cell.load, seed: cell.seed, req })
    }
  }
  return measured
}
