// Steady arrivals at a load, by `compare`: late plans, other policies, the acceptance of the whole.
import { pairedRatio } from '../../dist/compare/intervals.js'
import { native } from '../../dist/native.js'
import * as paper from './paper.js'
import { CLUSTER_NAMES, HETERO, HEXAGENT, MODEL_NAMES, OTHERS, WORKFLOW, WORKLOADS } from './settings.js'
import { both, change, geometric, mean, signed, table } from './tables.js'

const MODEL_IDS = Object.keys(MODEL_NAMES)
const REQS = ['req95', 'req99']
const column = (row, name) => Float64Array.from(row.perSeed, (seed) => seed[name])
const ratio = (own, first, name) => pairedRatio(native, column(own, name), column(first, name))
const name = (trace) => paper.TRACES[trace].name

export class Steady {
  constructor(measurements, sizes) {
    this.measurements = measurements
    this.sizes = sizes
  }

  #rows(trace, cluster, model, policies, options, workflows = this.sizes.workflows) {
    const seeds = this.sizes.steadySeeds
    return this.measurements.steady({ trace, cluster, model, policies, workflows, seeds, options })
  }

  async #site(trace, cluster, model) {
    const [first, own, , told] = await this.#rows(trace, cluster, model, [WORKFLOW, HEXAGENT], {
      remaining: ['none', 'exact'],
    })
    return { first, own, told }
  }

  /** A row for every workload, cluster and model, and the means over them: geometric of the ratios, plain of the changes. */
  async acceptance() {
    const rows = []
    const all = { own: [[], []], told: [[], []] }
    for (const model of MODEL_IDS) {
      for (const cluster of HETERO) {
        for (const trace of WORKLOADS) {
          const { first, own, told } = await this.#site(trace, cluster, model)
          const cells = REQS.flatMap((req, i) => {
            const gain = ratio(own, first, req)
            const more = ratio(told, own, req)
            all.own[i].push(gain.ratio)
            all.told[i].push(more.ratio)
            return [change(gain), change(more)]
          })
          rows.push([
            `${MODEL_NAMES[model]}, ${CLUSTER_NAMES[cluster]}, ${name(trace)}`,
            both([first.req95, first.req99]),
            both([own.req95, own.req99]),
            ...cells,
            (own.plannedCalls / own.plans).toFixed(1),
          ])
        }
      }
    }
    const means = (pairs) => pairs.map((values) => 100 * (geometric(values) - 1))
    const [plain95, plain99] = all.own.map((values) => 100 * (mean(values) - 1))
    const [own95, own99] = means(all.own)
    const [told95, told99] = means(all.told)
    rows.push(['geometric mean', '', '', signed(own95), signed(told95), signed(own99), signed(told99), ''])
    const text = table(
      [
        'setting',
        'workflow-FCFS',
        'HexAGenT',
        'Req95',
        'with exact `remaining`, Req95',
        'Req99',
        'with exact `remaining`, Req99',
        'calls that wait at a plan',
      ],
      rows,
    )
    return { text, own95, own99, plain95, plain99, told95, told99 }
  }

  /** What the hint is worth by load. */
  async hints(loads) {
    const rows = []
    for (const model of MODEL_IDS) {
      for (const trace of WORKLOADS) {
        const all = await this.#rows(
          trace,
          'hexagent-hetero-1',
          model,
          [HEXAGENT],
          { remaining: ['none', 'exact', 0.5], load: loads },
          this.sizes.others,
        )
        const cells = loads.flatMap((_, i) => {
          const [none, exact, wrong] = all.slice(3 * i)
          return [
            both([none.req95, none.req99]),
            REQS.map((req) => change(ratio(exact, none, req))).join(' / '),
            REQS.map((req) => signed(100 * (ratio(wrong, none, req).ratio - 1))).join(' / '),
            (none.plannedCalls / none.plans).toFixed(0),
          ]
        })
        rows.push([`${MODEL_NAMES[model]}, ${name(trace)}`, ...cells])
      }
    }
    return table(
      ['setting', ...loads.flatMap((load) => [`load ${load}: none`, 'exact', 'σ = 0.5', 'calls that wait'])],
      rows,
    )
  }

  async others(model) {
    const rows = []
    for (const trace of WORKLOADS) {
      const policies = [WORKFLOW, HEXAGENT, ...OTHERS]
      const own = await this.#rows(trace, 'hexagent-hetero-1', model, policies, {}, this.sizes.others)
      for (const row of own) {
        rows.push([
          name(trace),
          row.policy,
          both([row.req95, row.req99]),
          row.versusFirst === null ? '' : change(row.versusFirst.req95),
          row.versusFirst === null ? '' : change(row.versusFirst.req99),
        ])
      }
    }
    return table(['workload', 'policy', 'Req95 / Req99', `Req95 against ${WORKFLOW}`, 'Req99'], rows)
  }

  /** How much later plans cost: lookahead leases meanwhile, or the paper's fallback. */
  async late(latencies) {
    const options = { planning: ['sync', 'async', 'async-paper'], planLatencyMs: latencies }
    const rows = []
    for (const trace of WORKLOADS) {
      const own = await this.#rows(
        trace,
        'hexagent-hetero-1',
        'llama',
        [HEXAGENT],
        { ...options, feedback: 'lease' },
        this.sizes.others,
      )
      const [sync, ...others] = own
      for (const planning of ['async', 'async-paper']) {
        rows.push([
          name(trace),
          both([sync.req95, sync.req99]),
          planning,
          ...latencies.map((ms) => {
            const row = others.find((row) => row.planning === planning && row.planLatencyMs === ms)
            return REQS.map((req) => change(ratio(row, sync, req))).join(' / ')
          }),
        ])
      }
    }
    return table(['workload', 'synchronous', 'asynchronous', ...latencies.map((ms) => `${ms} ms`)], rows)
  }
}
