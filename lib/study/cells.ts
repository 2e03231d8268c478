import type { NativeAddon, NativeCluster, NativeRun } from '../native.ts'
import type { Setup } from '../simulator/chunk.ts'
import { SIMULATE_KEYS, type SimulateOptions } from '../simulator/options.ts'
import { assemble } from '../simulator/prepare.ts'
import { isAlpha, readOptions } from '../simulator/read-options.ts'
import { DEFAULT_ALPHA } from '../simulator/simulate.ts'
import type { TenantName } from '../simulator/tenants.ts'
import { OptionReader } from '../simulator/validate.ts'
import type { TraceTable } from '../traces/table.ts'
import { type Coordinates, coordinatesOf, type Range, type Study } from './study.ts'

/** Some runs of one cell, as a thread needs them. */
export interface CellPart {
  setup: Setup
  run: NativeRun
  alpha: number
  seeds: number[]
  tenants: readonly TenantName[]
}

type Cell = Omit<CellPart, 'seeds'>

interface Bound {
  setup: Setup
  cluster: NativeCluster
  tenants: readonly TenantName[]
}

let setups = 0

/** Prepares the cells of a study as `simulate` prepares a run: the same options, defaults and errors. */
export class Cells {
  readonly #native: NativeAddon
  readonly #study: Study
  /** By cluster and workload: options of engines and tenants are the same in all cells. */
  readonly #bound = new Map<string, Bound>()
  #last: { index: number; cell: Cell } | undefined

  constructor(native: NativeAddon, study: Study) {
    this.#native = native
    this.#study = study
  }

  /** @throws LaxityError as `simulate`, with options as places. */
  prepare(index: number): Cell {
    if (this.#last?.index === index) return this.#last.cell
    const study = this.#study
    const at = coordinatesOf(study, index * study.seeds.length)
    const options = optionsOf(study, at)
    const reader = new OptionReader(options, SIMULATE_KEYS)
    const checked = readOptions(reader, this.#native.parameters)
    const alpha = reader.number('alpha', DEFAULT_ALPHA, 'a number from 0 to 1', isAlpha)
    const key = `${at.cluster},${at.workload}`
    const known = this.#bound.get(key)
    const { cluster } = study.clusters[at.cluster]!
    const table = study.workloads[at.workload]!.trace
    const prepared = assemble(this.#native, reader, checked, cluster, table, known?.cluster)
    let bound = known
    if (bound === undefined) {
      const { nativeCluster, trace, tenants } = prepared
      const setup = { id: ++setups, columns: trace.columns, cluster: nativeCluster }
      bound = { setup, cluster: nativeCluster, tenants }
      this.#bound.set(key, bound)
    }
    const cell = { setup: bound.setup, run: prepared.run, alpha, tenants: bound.tenants }
    this.#last = { index, cell }
    return cell
  }

  /** The runs of a range by cell, in grid order. */
  parts({ from, to }: Range): CellPart[] {
    const { seeds } = this.#study
    const parts: CellPart[] = []
    for (let run = from; run < to; ) {
      const index = Math.floor(run / seeds.length)
      const first = run - index * seeds.length
      const count = Math.min(to - run, seeds.length - first)
      parts.push({ ...this.prepare(index), seeds: seeds.slice(first, first + count) })
      run += count
    }
    return parts
  }

  tenants(run: number): readonly TenantName[] {
    const { cluster, workload } = coordinatesOf(this.#study, run)
    const known = this.#bound.get(`${cluster},${workload}`)
    return known?.tenants ?? this.prepare(Math.floor(run / this.#study.seeds.length)).tenants
  }

  trace(run: number): TraceTable {
    return this.#study.workloads[coordinatesOf(this.#study, run).workload]!.trace
  }
}

/** What `simulate` would be given for a cell; trace and cluster are at hand. */
export function optionsOf(study: Study, at: Coordinates): Partial<SimulateOptions> {
  const rate = study.rates[at.rate]!
  const options: Record<string, unknown> = { ...study.options, ...study.policies[at.policy]!.parts }
  if (rate !== null) options.rate = rate
  const parameters: Record<string, number> = {}
  for (const [p, { name, values }] of study.parameters.entries()) {
    const value = values[at.parameters[p]!]!
    if (name === 'alpha' || name === 'beta') options[name] = value
    else parameters[name] = value
  }
  if (Object.keys(parameters).length > 0) options.parameters = parameters
  options.seed = study.seeds[at.seed]!
  return options as Partial<SimulateOptions>
}
