// The sections of docs/hexgen-flow.md. Each takes the traces and returns text.
import { simulate, sweep } from '../../dist/index.js'
import * as paper from './paper.js'
import {
  ALPHAS,
  BASELINES,
  CLUSTERS,
  HEXGEN,
  measureAll,
  POLICIES,
  RATES,
  REPLICATIONS,
  SCORING_SEED,
  tuneAlpha,
} from './settings.js'
import { change, fixed, grid, policyTable, seconds, table } from './tables.js'

const SHORT = { 'hexgen-hetero-1': 'hetero-1', 'hexgen-hetero-2': 'hetero-2', 'hexgen-homo': 'homo' }
const TUNED = 'HexGen-Flow (α tuned)'

export class Study {
  #traces
  #cells = new Map()
  #say

  constructor(traces, say) {
    this.#traces = traces
    this.#say = say
  }

  run(number, cluster, rate, mode) {
    return { trace: this.#traces[number], cluster, rate, mode }
  }

  /** The cells of one setting, measured once. */
  async cells(number, cluster, rate, mode = 'prefill-first') {
    const key = `trace ${number}, ${SHORT[cluster]}, ${rate}/s, ${mode}`
    if (!this.#cells.has(key)) {
      this.#say(key)
      this.#cells.set(key, await measureAll(this.run(number, cluster, rate, mode)))
    }
    return this.#cells.get(key)
  }
}

async function settingsOf(study, mode) {
  const settings = []
  for (const number of [1, 3]) {
    for (const cluster of CLUSTERS) {
      for (const rate of RATES) {
        const cells = await study.cells(number, cluster, rate, mode)
        settings.push({ name: `trace ${number}, ${SHORT[cluster]}, ${rate}/s`, number, cluster, rate, cells })
      }
    }
  }
  return settings
}

export async function mainGrid(study, mode) {
  const settings = await settingsOf(study, mode)
  const names = Object.keys(POLICIES)
  const of = (setting) => setting.cells
  return `SLO scale 95 (base: the template's mean time on the cluster):

${grid(settings, names, of, (cell) => fixed(cell.sloScale95))}

P95, s:

${grid(settings, names, of, (cell) => seconds(cell.p95Ms))}

Throughput, workflows/s:

${grid(settings, names, of, (cell) => fixed(cell.throughputPerS, 3))}`
}

/** The paper's four headline settings. */
export async function headlines(study, mode) {
  const rows = []
  for (const { trace, cluster, rate, baseline, theirs } of paper.SLO_SCALES) {
    const cells = await study.cells(trace, cluster, rate, mode)
    const scale = (name) => cells[name].sloScale95
    const name =
      baseline === 'strongest' ? BASELINES.reduce((a, b) => (scale(b) < scale(a) ? b : a)) : baseline
    const [from, to] = theirs
    rows.push([
      `trace ${trace}, ${SHORT[cluster]}, ${rate}/s`,
      baseline === 'strongest' ? `strongest (here ${name})` : name,
      `${from} → ${to} (${change(from, to)})`,
      `${fixed(scale(name))} → ${fixed(scale(TUNED))} (${change(scale(name), scale(TUNED))})`,
      `${fixed(scale('laxity (untuned)'))}`,
    ])
  }
  return table(['setting', 'baseline', 'paper', 'here', '`laxity` untuned'], rows)
}

export async function ablation(study, mode) {
  const settings = await settingsOf(study, mode)
  const rows = settings.map(({ name, cells }) => {
    const p95 = (policy) => cells[policy].p95Ms
    const base = p95('vLLM')
    return [
      name,
      seconds(base),
      change(base, p95('WB + FCFS (α tuned)')),
      change(base, p95('RR + PQ')),
      change(base, p95(TUNED)),
      fixed(cells[TUNED].throughputPerS / cells.vLLM.throughputPerS),
    ]
  })
  return table(
    ['setting', 'RR + FCFS P95 s', 'WB + FCFS', 'RR + PQ', 'WB + PQ', 'throughput WB + PQ over vLLM'],
    rows,
  )
}

/** Table 2. */
export async function stageMix(study) {
  const run = study.run(3, 'hexgen-hetero-2', 0.5, 'prefill-first')
  const { alpha } = await tuneAlpha(run, HEXGEN)
  const parts = []
  for (const placement of ['round-robin', 'workload-balanced']) {
    const result = await simulate({ ...run, order: 'urgency', placement, alpha, perCall: true })
    const { stages, instances } = result.stageMix()
    const theirs = paper.STAGE_MIX[placement]
    parts.push(
      `\`${placement}\`${placement === 'workload-balanced' ? ` (α ${alpha})` : ''}, per cent of each instance's calls, here (paper):\n\n${table(
        ['stage', ...instances.map(({ index, label }) => `I${index + 1} ${label}`)],
        stages.map((stage, row) => [
          stage,
          ...instances.map(({ shares }, m) => `${fixed(shares[row], 1)} (${theirs[row]?.[m] ?? '–'})`),
        ]),
      )}`,
    )
  }
  return parts.join('\n\n')
}

/** Table 4. */
export async function tuningCost(study) {
  const rows = []
  for (const { cluster, rate, seconds: theirs } of paper.TUNING_S) {
    const cells = [`${SHORT[cluster]}, ${rate}/s`]
    for (const number of [1, 2, 3]) {
      const run = study.run(number, cluster, rate, 'prefill-first')
      const { timing } = await sweep({ ...run, ...HEXGEN, alphas: ALPHAS, replications: 1, workers: 0 })
      cells.push(`${fixed(timing.cpuMs, 1)} ms (${theirs[number - 1]} s)`)
    }
    rows.push(cells)
  }
  return table(['setting', 'trace 1', 'trace 2', 'trace 3'], rows)
}

/** Mean P95 over alpha: the curve behind "best alpha by cluster". */
export async function bestAlpha(study, mode) {
  const rows = []
  for (const number of [1, 3]) {
    for (const cluster of CLUSTERS) {
      for (const rate of RATES) {
        const { alpha, indistinguishable, points } = await tuneAlpha(
          study.run(number, cluster, rate, mode),
          HEXGEN,
        )
        rows.push([
          `trace ${number}, ${SHORT[cluster]}, ${rate}/s`,
          paper.BEST_ALPHA[cluster] ?? '–',
          alpha,
          indistinguishable.join(', ') || '–',
          points.map((point) => seconds(point.p95Ms)).join(' / '),
        ])
      }
    }
  }
  return table(
    ['setting', 'paper', 'here', 'not distinguishable from it', 'P95 s at α 0 / 0.1 / … / 1'],
    rows,
  )
}

/** One setting under every policy. */
export async function oneSetting(run, policies = POLICIES) {
  return policyTable(await measureAll(run, policies), 'vLLM')
}

/**
 * P95 over the error of the predicted lengths. A policy stops paying where it is no longer better than vLLM, which
 * predicts nothing.
 */
export async function errorSweep(run, levels, policies) {
  const rows = []
  const paying = new Map(Object.keys(policies).map((name) => [name, levels.map(() => true)]))
  for (const [k, { name: level, error }] of levels.entries()) {
    const cells = await measureAll({ ...run, ...(error && { error }) }, policies)
    rows.push([level, ...Object.values(cells).map((cell) => seconds(cell.p95Ms))])
    for (const [name, cell] of Object.entries(cells)) paying.get(name)[k] = cell.p95Ms < cells.vLLM.p95Ms
  }
  const verdict = [...paying].filter(([name]) => name !== 'vLLM')
  return `${table(['error', ...Object.keys(policies)], rows)}

${verdict
  .map(([name, list]) => {
    const first = list.indexOf(false)
    return `* ${name}: ${first < 0 ? 'still better than vLLM at the largest error' : `no longer better than vLLM at ${levels[first].name}`}`
  })
  .join('\n')}`
}

/** t_comp of a call alone on a GPU with constants, ms. */
function alone({ prefillBaseMs, prefillPerTokenMs, decodeBaseMs, decodePerContextMs }, prompt, output) {
  const steps = output - 1
  const context = steps * (prompt + 1 + (steps - 1) / 2)
  return prefillBaseMs + prefillPerTokenMs * prompt + decodeBaseMs * steps + decodePerContextMs * context
}

/** Table 3: the first moment at which seven calls wait on one instance, all late, and PQ and FCFS differ. */
export async function queueSnapshot(study) {
  const run = { ...study.run(3, 'hexgen-hetero-2', 1.0, 'chunked'), knowledge: 'online' }
  const { alpha } = await tuneAlpha(run, HEXGEN)
  const result = await simulate({ ...run, ...HEXGEN, alpha, perCall: true })
  const { columns } = result.trace
  const { instance, readyMs, leasedMs } = result.perCall
  const owner = new Uint32Array(result.trace.calls)
  for (let w = 0; w < result.trace.workflows; w += 1)
    owner.fill(w, columns.firstCall[w], columns.firstCall[w + 1])

  // Under `online` nothing below the call is known: its budget is all that is left, U = t_comp − (D − t).
  const urgency = (call, t) => {
    const { latencies, instances } = result.cluster
    const model = latencies[instances[instance[call]].latency]
    const deadline = result.arrivalMs[owner[call]] + 5 * result.baseMs[owner[call]]
    return alone(model, columns.promptTokens[call], columns.outputTokens[call]) - (deadline - t)
  }
  const moments = [...leasedMs.keys()].sort((a, b) => leasedMs[a] - leasedMs[b])
  for (const leased of moments) {
    const t = leasedMs[leased]
    const waiting = [...readyMs.keys()].filter(
      (call) => instance[call] === instance[leased] && readyMs[call] < t && leasedMs[call] >= t,
    )
    if (waiting.length !== 7 || waiting.some((call) => urgency(call, t) <= 0)) continue
    waiting.sort((a, b) => readyMs[a] - readyMs[b])
    const most = waiting.reduce((a, b) => (urgency(b, t) > urgency(a, t) ? b : a))
    if (most === waiting[0] || most !== leased) continue
    return `Queue of instance ${instance[leased] + 1} at ${seconds(t)} s (trace 3, hetero-2, 1.0/s, chunked, α ${alpha}, knowledge \`online\`, so a call's
budget is all that its workflow has left). PQ leases call ${waiting.indexOf(most) + 1}, FCFS would lease call 1; every waiting call is
predicted late. In brackets a snapshot of the paper, where PQ runs call 6.

${table(
  ['call', ...waiting.map((_, i) => i + 1)],
  [
    ['ready at, s', ...waiting.map((call, i) => `${seconds(readyMs[call])} (${paper.QUEUE[i][0]})`)],
    ['urgency, s', ...waiting.map((call, i) => `${seconds(urgency(call, t))} (${paper.QUEUE[i][1]})`)],
  ],
)}`
  }
  return 'No such moment: in this run no queue holds seven late calls of which PQ and FCFS choose different ones.'
}

/** Two tenants: the SLO scale and the attainment of each. */
export async function tenantSetting(run, tenants) {
  const rows = []
  for (const [name, { tune, ...policy }] of Object.entries(POLICIES)) {
    const alpha = tune ? (await tuneAlpha({ ...run, tenants }, policy)).alpha : 0.3
    const { points } = await sweep({
      ...run,
      ...policy,
      tenants,
      tenantSplit: 'blocks',
      alphas: [alpha],
      replications: REPLICATIONS,
      seed: SCORING_SEED,
    })
    const [point] = points
    rows.push([
      name,
      ...point.tenants.flatMap((tenant) => [
        fixed(tenant.sloScale95),
        `${fixed(100 * tenant.attainment, 1)} %`,
      ]),
      fixed(point.fairness.attainment, 3),
    ])
  }
  const names = tenants.split(',').map((tenant) => tenant.split('=')[0])
  return table(
    ['policy', ...names.flatMap((name) => [`${name}: SLO scale 95`, 'attained']), 'Jain index'],
    rows,
  )
}
