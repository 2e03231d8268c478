import type { PlanUse, SimulationResult } from '../simulator/result.ts'
import type { TuningEvent } from '../tuning/auto-events.ts'
import type { Tuning } from '../tuning/auto-simulate.ts'
import { sacrificeText } from './sacrifice-text.ts'
import { policyLine, traceName } from './sweep-report.ts'
import { table } from './table.ts'
import { tenantTable } from './tenant-table.ts'
import { count, duration, percent, significant } from './units.ts'

/** A simulation for people. */
export function simulationReport(
  result: SimulationResult,
  show: { perWorkflow: boolean; mix: boolean },
): string {
  const parts = [heading(result), metricTable(result)]
  if (result.fairness !== undefined) parts.push(tenantTable(result.tenants, result.fairness))
  if (result.sacrifice !== undefined) parts.push(sacrificeText(result.sacrifice, result.counts.workflows))
  if (result.tuning !== undefined) parts.push(tuningTable(result.tuning))
  if (show.mix) parts.push(mixTable(result))
  if (show.perWorkflow) parts.push(workflowTable(result))
  parts.push(`Simulated in ${duration(result.timing.cpuMs)}.`)
  return `${parts.join('\n\n')}\n`
}

function heading(result: SimulationResult): string {
  const { trace, cluster } = result
  const size = `${count(trace.workflows)} workflows, ${count(trace.calls)} calls`
  const declared = result.remaining === null ? '' : `, remaining ${result.remaining}`
  return `${traceName(trace)}: ${size}, on ${cluster.name}\n${policyLine(result)}${declared}`
}

function metricTable({ metrics, counts, cache, pairs }: SimulationResult): string {
  const rows = [
    ['mean latency', duration(metrics.meanMs)],
    ['P50', duration(metrics.p50Ms)],
    ['P95', duration(metrics.p95Ms)],
    ['P99', duration(metrics.p99Ms)],
    ['95 % SLO scale', significant(metrics.sloScale95)],
    ['99 % SLO scale', significant(metrics.sloScale99)],
    ['workflows/s', significant(metrics.throughputPerS)],
    ['makespan', duration(metrics.makespanMs)],
    ['completed', `${count(counts.completed)} of ${count(counts.workflows)}`],
  ]
  if (counts.rejected > 0) rows.push(['rejected calls', count(counts.rejected)])
  const evictions = counts.evictions + counts.hiddenEvictions
  if (evictions > 0) rows.push(['evictions', count(evictions)])
  if (cache !== undefined) {
    rows.push(['prefix cache, tokens', percent(cache.hitRate)])
    rows.push(['prefix cache, calls', `${count(cache.hits)} of ${count(cache.hits + cache.misses)}`])
  }
  if (pairs !== undefined) {
    rows.push(['prefill busy', percent(pairs.prefillUtilisation)])
    rows.push(['decode busy', percent(pairs.decodeUtilisation)])
    rows.push(['decode KV, peak', percent(pairs.decodeKvPeak)])
    if (pairs.planning !== undefined) rows.push(...planRows(pairs.planning))
  }
  return table(['metric', 'value'], rows)
}

function planRows({ planning, latencyMs, plans, plannedCalls, planUs }: PlanUse): string[][] {
  const late = planning === 'sync' ? '' : `, ${planning}, after ${duration(latencyMs)}`
  const rows = [['plans', `${count(plans)}${late}`]]
  if (plans > 0) rows.push(['calls that waited, per plan', significant(plannedCalls / plans)])
  if (planUs === undefined) return rows
  rows.push(['plan, mean', duration(planUs.mean / 1000)])
  rows.push(['plan, P99', duration(planUs.p99 / 1000)])
  return rows
}

function tuningTable({ parameter, events, runs, best, regret }: Tuning): string {
  const rows = events.map((e) => [
    duration(e.atMs),
    e.kind,
    e.reason,
    e.kind === 'applied' ? `${significant(e.from)} → ${significant(e.to)}` : significant(e.from),
    evidence(e),
  ])
  const sign = regret < 0 ? 'below' : 'above'
  return [
    `Auto-tuner: ${count(runs)} simulations in ${count(events.filter(({ kind }) => kind !== 'trigger').length)} sweeps`,
    table(['t', 'what', 'why', parameter, 'evidence'], rows),
    `P95 ${percent(Math.abs(regret))} ${sign} that of the best fixed ${parameter} in hindsight, ${significant(best.value)} (${duration(best.p95Ms)})`,
  ].join('\n')
}

function evidence({ kind, reason, statistic, threshold, gain, p }: TuningEvent): string {
  if (kind !== 'trigger') return `gain ${percent(gain)}, p ${significant(p)}`
  if (reason === 'instance') return ''
  if (reason === 'welch') return `t ${significant(statistic)}, p ${significant(p)}`
  return `${significant(statistic)} > ${significant(threshold)}`
}

function mixTable(result: SimulationResult): string {
  const { stages, instances } = result.stageMix()
  const head = ['stage mix, %', ...instances.map(({ index, label }) => `${index} ${label}`)]
  const rows = stages.map((stage, row) => [stage, ...instances.map(({ shares }) => shares[row]!.toFixed(1))])
  rows.push(['calls', ...instances.map(({ calls }) => count(calls))])
  return table(head, rows)
}

function workflowTable(result: SimulationResult): string {
  const rows = Array.from(result.workflows(), ({ id, arrivalMs, latencyMs, baseMs, scale }) => [
    id,
    duration(arrivalMs),
    duration(latencyMs),
    duration(baseMs),
    significant(scale),
  ])
  return table(['workflow', 'arrival', 'latency', 'base', 'scale'], rows)
}
