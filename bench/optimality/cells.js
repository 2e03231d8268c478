// One cell: a workload at a load on a cluster, with one seed. Every policy of a cell meets the same workflows at the same
// times; the bound is of exactly these.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { lowerBound, searchReference } from '../../dist/bounds/bound.js'
import { SATURATION_POLICY, SATURATION_WORKFLOWS, saturationRate } from '../../dist/compare/saturation.js'
import { allAtOnce } from '../../dist/compare/workload.js'
import { generateWorkload, simulate } from '../../dist/index.js'
import { native } from '../../dist/native.js'
import { SIMULATE_KEYS } from '../../dist/simulator/options.js'
import { prepare } from '../../dist/simulator/prepare.js'
import { readOptions } from '../../dist/simulator/read-options.js'
import { OptionReader } from '../../dist/simulator/validate.js'

/** What every run has in common. */
export const COMMON = { knowledge: 'online' }
/** Prompts hold the whole history: there is no prefix cache, and prefill is real work. */
const CONTEXT = 'full'

/**
 * Measures each thing once. `files`: JSON lines that runs of the same build have written; the first is appended to, so that
 * a run that was stopped goes on. `seeds` is the only range of seeds that these cells may draw from.
 */
export class Cells {
  #known = new Map()
  #tables = new Map()
  #file
  #seeds
  #say

  constructor({ files, seeds, say }) {
    this.#file = files[0]
    this.#seeds = seeds
    this.#say = say
    for (const file of files) {
      if (file === undefined || !existsSync(file)) continue
      for (const line of readFileSync(file, 'utf8').split('\n')) {
        // The last one may be cut off.
        if (!line.endsWith(']')) continue
        const [key, value] = JSON.parse(line)
        this.#known.set(key, value)
      }
    }
  }

  /** Req95, Req99 and the largest ratio of a policy: options of `simulate`. */
  run(cell, options) {
    return this.#once(['run', ...nameOf(cell), options], async () => {
      const { latencyMs, baseMs, metrics, pairs, counts } = await simulate(await this.#options(cell, options))
      return {
        req: [metrics.sloScale95, metrics.sloScale99, largest(latencyMs, baseMs)],
        evictions: counts.evictions + counts.hiddenEvictions,
        ...(pairs && {
          prefill: pairs.prefillUtilisation,
          decode: pairs.decodeUtilisation,
          kv: pairs.decodeKvPeak,
        }),
      }
    })
  }

  /** What no scheduler is below, for the same three. */
  bound(cell) {
    return this.#once(['bound', ...nameOf(cell)], async () => {
      const { bounds } = await lowerBound(await this.#prepared(cell), 0)
      return bounds.map(({ ratio }) => ratio)
    })
  }

  /** What a search that knows the future reaches for the same three, with so many simulations for each. */
  reference(cell, evaluations) {
    return this.#once(['reference', ...nameOf(cell), evaluations], async () => {
      const { references } = await searchReference(await this.#prepared(cell), evaluations, 0)
      return references.map(({ ratio }) => ratio)
    })
  }

  async #prepared(cell) {
    const reader = new OptionReader(await this.#options(cell, { policy: 'hexagent' }), SIMULATE_KEYS)
    return prepare(native, reader, readOptions(reader, native.parameters))
  }

  async #options(cell, options) {
    const { cluster, workload, load, seed, workflows } = cell
    const { from, to } = this.#seeds
    if (!(seed >= from && seed <= to)) throw new RangeError(`Seed ${seed} is not of ${from} to ${to}`)
    const rate = load * (await this.#saturation(cluster, workload))
    const trace = await this.#table(workload, workflows, seed)
    return {
      trace,
      cluster,
      ...COMMON,
      arrivals: 'poisson',
      rate,
      seed,
      workers: 0,
      ...options,
    }
  }

  /** Workflows per second at load 1.0, as in `compare`. */
  #saturation(cluster, workload) {
    return this.#once(['saturation', cluster.name, workload], async () => {
      const { latencyMs } = await simulate({
        trace: allAtOnce(await this.#table(workload, SATURATION_WORKFLOWS, 0)),
        cluster,
        policy: SATURATION_POLICY[cluster.instances[0].role === 'unified' ? 'unified' : 'paired'],
        ...COMMON,
        arrivals: 'trace',
        sloBase: 'exclusive',
        workers: 0,
      })
      return saturationRate(latencyMs)
    })
  }

  #table(workload, workflows, seed) {
    const key = `${workload} ${workflows} ${seed}`
    if (!this.#tables.has(key)) {
      if (this.#tables.size > 20) this.#tables.clear()
      this.#tables.set(key, generateWorkload(workload, { workflows, seed, context: CONTEXT }))
    }
    return this.#tables.get(key)
  }

  async #once(parts, measure) {
    const key = JSON.stringify(parts)
    if (!this.#known.has(key)) {
      const started = performance.now()
      const value = await measure()
      this.#known.set(key, value)
      if (this.#file !== undefined) appendFileSync(this.#file, `\n${JSON.stringify([key, value])}`)
      this.#say(`${((performance.now() - started) / 1000).toFixed(1)} s  ${key}`)
    }
    return this.#known.get(key)
  }
}

const nameOf = ({ cluster, workload, load, seed, workflows }) => [
  cluster.name,
  workload,
  load,
  seed,
  workflows,
]

function largest(latencyMs, baseMs) {
  let most = 0
  for (let w = 0; w < latencyMs.length; w += 1) most = Math.max(most, latencyMs[w] / baseMs[w])
  return most
}

/** Every combination of workload, load and seed on one cluster. */
export function cellsOf(cluster, { workloads, loads, seeds, workflows }) {
  return workloads.flatMap((workload) =>
    loads.flatMap((load) => seeds.map((seed) => ({ cluster, workload, load, seed, workflows }))),
  )
}
