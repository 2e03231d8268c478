// Runs, each once: a study asks by what sets a run apart, and finds what it has measured already.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { pairedRatio } from '../../dist/compare/intervals.js'
import { compare, generateWorkload, simulate } from '../../dist/index.js'
import { native } from '../../dist/native.js'
import { TRACES } from './paper.js'
import { MODELS } from './settings.js'
import { mean } from './tables.js'

export class Measurements {
  #cells = new Map()
  #tables = new Map()
  #file
  #say

  /** `file`: what an earlier run of the same build has measured; kept up to date. */
  constructor(file, say) {
    this.#file = file
    this.#say = say
    if (file !== undefined && existsSync(file))
      this.#cells = new Map(Object.entries(JSON.parse(readFileSync(file, 'utf8'))))
  }

  async once(key, measure) {
    if (!this.#cells.has(key)) {
      const before = process.cpuUsage()
      this.#cells.set(key, await measure())
      const { user, system } = process.cpuUsage(before)
      this.#say(`${((user + system) / 1e6).toFixed(1)} s  ${key}`)
      if (this.#file !== undefined) writeFileSync(this.#file, JSON.stringify(Object.fromEntries(this.#cells)))
    }
    return this.#cells.get(key)
  }

  /**
   * The paper's arrivals: a burst of its many workflows at its rate, both `times` as many. Req95 and Req99 by seed; seed k draws workflows and
   * arrivals, the same for every policy.
   */
  burst({ trace, cluster, model, policy, seeds, times = 1, options = {} }) {
    const key = ['burst', trace, cluster, model, policy, seeds, times, JSON.stringify(options)].join(' ')
    return this.once(key, async () => {
      const workflows = times * TRACES[trace].workflows
      const rate = times * TRACES[trace].rate
      const runs = []
      for (let seed = 1; seed <= seeds; seed += 1) {
        const [order, placement] = policy.split('/')
        const { metrics, pairs, counts } = await simulate({
          trace: await this.#table(trace, workflows, seed),
          cluster,
          model: MODELS[model],
          policy: placement === undefined ? policy : { order, placement },
          knowledge: 'online',
          arrivals: 'poisson',
          rate,
          seed,
          workers: 0,
          timePlans: true,
          ...options,
        })
        const plan = pairs.planning
        runs.push({
          req95: metrics.sloScale95,
          req99: metrics.sloScale99,
          completed: counts.completed,
          ...(plan && { plans: plan.plans, plannedCalls: plan.plannedCalls, planUs: plan.planUs }),
        })
      }
      return {
        req95: runs.map((run) => run.req95),
        req99: runs.map((run) => run.req99),
        means: [mean(runs.map((run) => run.req95)), mean(runs.map((run) => run.req99))],
        runs,
      }
    })
  }

  /** `compare` at a load, many workflows. Rows by policy. */
  steady({ trace, cluster, model, policies, workflows, seeds, options = {} }) {
    const key = ['steady', trace, cluster, model, policies, workflows, seeds, JSON.stringify(options)].join(
      ' ',
    )
    return this.once(key, async () => {
      const { rows } = await compare({
        workload: trace,
        cluster,
        model: MODELS[model],
        policy: policies,
        workflows,
        seeds,
        load: 0.9,
        workers: 0,
        ...options,
      })
      return rows
    })
  }

  async #table(workload, workflows, seed) {
    const key = `${workload} ${workflows} ${seed}`
    if (!this.#tables.has(key)) this.#tables.set(key, await generateWorkload(workload, { workflows, seed }))
    return this.#tables.get(key)
  }
}

/** Paired over the seeds: own / first. */
export const versus = (own, first, name) =>
  pairedRatio(native, Float64Array.from(own[name]), Float64Array.from(first[name]))
