// Tables 1 to 5: the paper's bursts.
import { versus } from './measure.js'
import * as paper from './paper.js'
import {
  BASELINES,
  CLUSTER_NAMES,
  HETERO,
  HEXAGENT,
  MODEL_NAMES,
  PER_CALL,
  POOLS,
  WORKFLOW,
  WORKLOADS,
} from './settings.js'
import { both, change, fixed, geometric, mean, reduction, signed, table } from './tables.js'

const MODEL_IDS = Object.keys(MODEL_NAMES)
const REQS = ['req95', 'req99']
const gains = (from, to) => [0, 1].map((i) => reduction(from.means[i], to.means[i]))
/** Reductions as the paper gives them: per cent, positive is better. */
const less = (percents) => percents.map((value) => (value === null ? '?' : signed(-value))).join(' / ')

export class Bursts {
  constructor(measurements, seeds) {
    this.measurements = measurements
    this.seeds = seeds
  }

  cell(trace, cluster, model, policy, pool = 'paper', more = {}) {
    const { times, ...options } = more
    return this.measurements.burst({
      trace,
      cluster,
      model,
      policy,
      seeds: this.seeds,
      ...(times && { times }),
      options: { ...POOLS[pool].options, ...options },
    })
  }

  /** Paper beside ours. */
  async table1() {
    const rows = []
    for (const model of MODEL_IDS) {
      for (const trace of WORKLOADS) {
        const theirs = paper.TABLE_1.find((row) => row.model === model && row.trace === trace)
        const cells = []
        for (const [policy, name] of [
          [PER_CALL, 'perCall'],
          [WORKFLOW, 'workflow'],
          [HEXAGENT, 'hexagent'],
        ]) {
          const own = await this.cell(trace, 'hexagent-hetero-1', model, policy)
          cells.push(theirs ? both(theirs[name]) : '?', both(own.means))
        }
        rows.push([`${MODEL_NAMES[model]}, ${paper.TRACES[trace].name}`, ...cells])
      }
    }
    return table(
      ['setting', 'per-call FCFS: paper', 'here', 'workflow-FCFS: paper', 'here', 'HexAGenT: paper', 'here'],
      rows,
    )
  }

  /** Mean reductions of the rows of Table 1, in every way that pools work together. */
  async table1Means() {
    const rows = [
      ['paper (its rows)', less(paper.TABLE_1_MEANS.workflow), less(paper.TABLE_1_MEANS.hexagent)],
    ]
    for (const pool of Object.keys(POOLS)) {
      const gains = { workflow: [[], []], hexagent: [[], []] }
      for (const model of MODEL_IDS) {
        for (const trace of WORKLOADS) {
          const [call, workflow, hexagent] = await this.#all(trace, 'hexagent-hetero-1', model, pool, [
            PER_CALL,
            WORKFLOW,
            HEXAGENT,
          ])
          for (const i of [0, 1]) {
            gains.workflow[i].push(reduction(call.means[i], workflow.means[i]))
            gains.hexagent[i].push(reduction(workflow.means[i], hexagent.means[i]))
          }
        }
      }
      rows.push([POOLS[pool].label, less(gains.workflow.map(mean)), less(gains.hexagent.map(mean))])
    }
    return table(['', 'workflow-FCFS against per-call FCFS', 'HexAGenT against workflow-FCFS'], rows)
  }

  /** The same workflows, several times as many at several times the rate. */
  async pressure(times) {
    const rows = []
    for (const model of MODEL_IDS) {
      for (const trace of WORKLOADS) {
        const cells = []
        for (const k of [1, ...times]) {
          const more = k === 1 ? {} : { times: k }
          const [workflow, hexagent] = await this.#all(
            trace,
            'hexagent-hetero-1',
            model,
            'paper',
            [WORKFLOW, HEXAGENT],
            more,
          )
          const told = await this.cell(trace, 'hexagent-hetero-1', model, HEXAGENT, 'paper', {
            ...more,
            remaining: 'exact',
          })
          cells.push(
            both(workflow.means),
            `${both(hexagent.means)} (${less(gains(workflow, hexagent))})`,
            `${both(told.means)} (${less(gains(hexagent, told))})`,
          )
        }
        rows.push([`${MODEL_NAMES[model]}, ${paper.TRACES[trace].name}`, ...cells])
      }
    }
    const heads = [1, ...times].flatMap((k) => [`× ${k}: workflow-FCFS`, 'HexAGenT', 'exact `remaining`'])
    return table(['setting', ...heads], rows)
  }

  async #all(trace, cluster, model, pool, policies, more = {}) {
    const cells = []
    for (const policy of policies) cells.push(await this.cell(trace, cluster, model, policy, pool, more))
    return cells
  }

  /** The strongest baseline for each of Req95 and Req99, and HexAGenT. */
  async #strongest(trace, cluster, model, pool, more) {
    const baselines = await this.#all(trace, cluster, model, pool, BASELINES, more)
    const own = await this.cell(trace, cluster, model, HEXAGENT, pool, more ?? {})
    return [0, 1].map((i) => {
      const values = baselines.map(({ means }) => means[i])
      const best = values.indexOf(Math.min(...values))
      return {
        name: BASELINES[best],
        from: values[best],
        to: own.means[i],
        ratio: versus(own, baselines[best], REQS[i]),
      }
    })
  }

  async #meanReductions(cluster, model, pool, more) {
    const gains = [[], []]
    for (const trace of WORKLOADS) {
      const cells = await this.#strongest(trace, cluster, model, pool, more)
      for (const i of [0, 1]) gains[i].push(reduction(cells[i].from, cells[i].to))
    }
    return gains.map(mean)
  }

  async #reductions(rows, total) {
    const lines = []
    const means = Object.keys(POOLS).map(() => [])
    for (const { model, cluster, theirs } of rows) {
      const cells = []
      for (const [k, pool] of Object.keys(POOLS).entries()) {
        const own = await this.#meanReductions(cluster, model, pool)
        means[k].push(own)
        cells.push(less(own))
      }
      lines.push([`${MODEL_NAMES[model]}, ${CLUSTER_NAMES[cluster]}`, less(theirs), ...cells])
    }
    if (total)
      lines.push([
        'all',
        less(total),
        ...means.map((own) => less([0, 1].map((i) => mean(own.map((pair) => pair[i]))))),
      ])
    return table(['setting', 'paper', ...Object.values(POOLS).map(({ label }) => label)], lines)
  }

  table2() {
    return this.#reductions(paper.TABLE_2, paper.TABLE_2_MEAN)
  }

  /** With the pressures for which only the paper's way is measured. */
  async table4(times) {
    const rows = []
    for (const { model, cluster } of paper.TABLE_4) {
      const cells = []
      for (const k of times) {
        const own = await this.#meanReductions(cluster, model, 'paper', { times: k })
        cells.push(less(own))
      }
      rows.push([`${MODEL_NAMES[model]}, ${CLUSTER_NAMES[cluster]}`, ...cells])
    }
    return [
      await this.#reductions(paper.TABLE_4),
      table(['setting, `--paper`', ...times.map((k) => `× ${k}`)], rows),
    ]
  }

  async table3() {
    const rows = []
    for (const trace of WORKLOADS) {
      const theirs = paper.TABLE_3[trace]
      for (const [i, req] of REQS.entries()) {
        const [from, to] = theirs[req]
        const gain = from === null || to === null ? '' : ` (${less([reduction(from, to)])})`
        const cells = []
        for (const pool of ['paper', 'early', 'late', 'lease']) {
          const own = (await this.#strongest(trace, 'hexagent-hetero-1', 'qwen', pool))[i]
          const order = own.name.split('/')[0]
          cells.push(`${fixed(own.from)} (${order}) → ${fixed(own.to)}: ${change(own.ratio)}`)
        }
        rows.push([
          `${paper.TRACES[trace].name}, ${i === 0 ? 'Req95' : 'Req99'}`,
          `${fixed(from)} → ${fixed(to)}${gain}`,
          ...cells,
        ])
      }
    }
    return table(['trace', 'paper', ...Object.values(POOLS).map(({ label }) => label)], rows)
  }

  /** Geometric mean over the traces of the ratio to no error, and the largest. */
  async table5(errors) {
    const rows = []
    for (const [name, error] of errors) {
      const cells = []
      for (const model of MODEL_IDS) {
        const ratios = [[], []]
        for (const trace of WORKLOADS) {
          const clean = await this.cell(trace, 'hexagent-hetero-1', model, HEXAGENT)
          const wrong = await this.cell(trace, 'hexagent-hetero-1', model, HEXAGENT, 'paper', { error })
          for (const i of [0, 1]) ratios[i].push(wrong.means[i] / clean.means[i])
        }
        cells.push(
          ratios.map((own) => signed(100 * (geometric(own) - 1))).join(' / '),
          ratios.map((own) => signed(100 * (Math.max(...own) - 1))).join(' / '),
        )
      }
      rows.push([name, ...cells])
    }
    return table(
      ['error', ...MODEL_IDS.flatMap((id) => [`${MODEL_NAMES[id]}: mean`, 'largest of the traces'])],
      rows,
    )
  }

  /** What a plan costs here: thread CPU time of its keys, its planning and its leases. */
  async table6() {
    const rows = []
    for (const model of MODEL_IDS) {
      for (const cluster of HETERO) {
        for (const trace of WORKLOADS) {
          const { runs } = await this.cell(trace, cluster, model, HEXAGENT)
          const plans = runs.map((run) => run.plans)
          const waiting = runs.reduce((sum, run) => sum + run.plannedCalls, 0) / (mean(plans) * plans.length)
          rows.push([
            `${MODEL_NAMES[model]}, ${CLUSTER_NAMES[cluster]}, ${paper.TRACES[trace].name}`,
            mean(plans).toFixed(0),
            waiting.toFixed(1),
            fixed(mean(runs.map(({ planUs }) => planUs.mean)), 1),
            fixed(mean(runs.map(({ planUs }) => planUs.p50)), 1),
            fixed(mean(runs.map(({ planUs }) => planUs.p99)), 1),
          ])
        }
      }
    }
    return table(['setting', 'plans', 'calls that wait, mean', 'mean µs', 'P50 µs', 'P99 µs'], rows)
  }
}
