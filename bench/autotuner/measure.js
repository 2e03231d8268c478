// What the page reports: the tuner in the scenario, each phase replayed, stationary hours, detection delays.
import { simulate } from '../../dist/index.js'
import { build, CLUSTER, PHASES, POLICY, starts } from './scenario.js'
import { seedOf } from './seeds.js'

export const ALPHAS = Array.from({ length: 11 }, (_, i) => i / 10)
export const DEFAULT_ALPHA = 0.3
const RUN = { cluster: CLUSTER, arrivals: 'trace', workers: 0 }

export function mean(values) {
  let sum = 0
  for (const value of values) sum += value
  return sum / values.length
}

export function p95(values) {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.ceil(0.95 * sorted.length) - 1]
}

/** P95 in s by phase, over the workflows that arrived in it. */
function byPhase({ latencyMs }, phaseOf) {
  return PHASES.map((_, p) => p95(latencyMs.filter((_, w) => phaseOf[w] === p)) / 1000)
}

/** The whole scenario: tuned, every fixed alpha, and `laxity` untuned. `set` of seeds.js, `tuner`: its options. */
export async function scenario(set, i, tuner = {}, { tunedOnly = false } = {}) {
  const seed = seedOf(set, 'scenario', i)
  const { trace, phaseOf, script, endMs } = await build(PHASES, seed)
  const own = { ...RUN, trace, script }
  const tuned = await simulate({ ...own, ...POLICY, alpha: DEFAULT_ALPHA, autoTune: { ...tuner, seed } })
  if (tunedOnly) return { inForce: inForce(tuned.tuning.events, endMs) }
  const fixed = []
  for (const alpha of ALPHAS) fixed.push(byPhase(await simulate({ ...own, ...POLICY, alpha }), phaseOf))
  const laxity = byPhase(await simulate({ ...own, policy: 'laxity' }), phaseOf)
  return {
    tuned: byPhase(tuned, phaseOf),
    fixed,
    laxity,
    events: tuned.tuning.events,
    runs: tuned.tuning.runs,
    cpuMs: tuned.timing.cpuMs,
    inForce: inForce(tuned.tuning.events, endMs),
  }
}

/** By phase: share of its time under each alpha, and the alpha at its end. */
function inForce(events, endMs) {
  const begins = starts(PHASES)
  const changes = [{ atMs: 0, value: DEFAULT_ALPHA }]
  for (const { kind, atMs, to } of events) if (kind === 'applied') changes.push({ atMs, value: to })
  return begins.map((from, p) => {
    const until = begins[p + 1] ?? endMs
    const shares = new Map()
    let last = DEFAULT_ALPHA
    for (const [i, { atMs, value }] of changes.entries()) {
      const begin = Math.max(from, atMs)
      const end = Math.min(until, changes[i + 1]?.atMs ?? endMs)
      if (end <= begin) continue
      shares.set(value, (shares.get(value) ?? 0) + (end - begin) / (until - from))
      last = value
    }
    return { shares: [...shares], last }
  })
}

/** Mean P95 in s of every alpha in each phase alone, over common seeds. */
export async function replayPhases(set, seeds, onProgress) {
  const costs = []
  for (const [p, phase] of PHASES.entries()) {
    const alone = { ...phase, steps: phase.state ?? [] }
    const sums = ALPHAS.map(() => 0)
    for (let i = 0; i < seeds; i += 1) {
      const { trace, script } = await build([alone], seedOf(set, 'phases', i), p)
      for (const [a, alpha] of ALPHAS.entries()) {
        const { metrics } = await simulate({ ...RUN, ...POLICY, trace, script, alpha })
        sums[a] += metrics.p95Ms / 1000 / seeds
      }
    }
    costs.push(sums)
    onProgress(phase.name)
  }
  return costs
}

/** Alarms and switches of stationary hours; the first 500 s of each do not count. */
export async function stationary(set, rate, alpha, hours, detectors, tuner = {}) {
  const skipMs = 500_000
  const counts = {}
  let switches = 0
  let restarts = 0
  for (let i = 0; i < hours; i += 1) {
    const seed = seedOf(set, 'stationary', i)
    const phase = { name: 'stationary', seconds: 4100, rate, workload: 'chess:1', steps: [] }
    const { trace } = await build([phase], seed)
    const autoTune = { ...tuner, seed, detectors }
    const { tuning } = await simulate({ ...RUN, ...POLICY, trace, alpha, autoTune })
    for (const { atMs, kind, reason } of tuning.events) {
      if (atMs < skipMs || atMs >= skipMs + 3_600_000) continue
      if (kind === 'trigger') counts[reason] = (counts[reason] ?? 0) + 1
      if (kind === 'applied') switches += 1
      if (kind !== 'kept') restarts += 1
    }
  }
  return { rate, alpha, hours, counts, switches, restarts }
}

/** Seconds from a doubling of every service time to the first alarm of a service detector. */
export async function doubled(set, rate, seeds) {
  const delays = []
  const gpus = ['a100', 'a100', 'a6000', 'l40s', 'a100', 'a100', 'a6000', 'l40s']
  const cluster = { name: 'eight', instances: gpus.map((gpu) => ({ gpu })) }
  const atMs = 600_000
  for (let i = 0; i < seeds; i += 1) {
    const seed = seedOf(set, 'doubled', i)
    const phase = { name: 'doubled', seconds: 900, rate, workload: 'chess:1', steps: [] }
    const { trace } = await build([phase], seed)
    const script = gpus.map((_, instance) => ({ atMs, instance, kind: 'speed', factor: 2 }))
    const autoTune = { seed, replications: 4, calibrationRuns: 2 }
    const { tuning } = await simulate({ ...RUN, cluster, ...POLICY, trace, script, alpha: 0.1, autoTune })
    const alarm = tuning.events.find(({ reason, atMs: t }) => reason === 'service-up' && t >= atMs)
    delays.push(alarm === undefined ? Number.POSITIVE_INFINITY : (alarm.atMs - atMs) / 1000)
  }
  return delays.sort((a, b) => a - b)
}
