import { arrivalsText } from '../simulator/read-arrivals.ts'
import type { TraceTable } from '../traces/table.ts'
import { objectiveName } from '../tuning/objective.ts'
import type { SweepPoint, SweepResult } from '../tuning/sweep.ts'
import { chart } from './chart.ts'
import { table } from './table.ts'
import { tenantTable } from './tenant-table.ts'
import { count, duration, over, percent, significant } from './units.ts'

/** A sweep for people: what was simulated, a row per alpha, the curve of the objective, the choice. */
export function sweepReport(result: SweepResult): string {
  const best = result.points.findIndex((point) => point.alpha === result.best.alpha)
  const objective = objectiveOf(result)
  // A line over what was eliminated would show what was not measured.
  const curve =
    result.eliminated.length > 0
      ? ''
      : chart({
          x: result.points.map((point) => point.alpha),
          y: result.points.map(objective.value),
          marked: best,
          format: objective.format,
          xName: 'alpha',
          yName: objective.title,
        })
  const parts = [
    heading(result),
    pointTable(result),
    eliminatedText(result),
    curve,
    boundText(result),
    bestTenants(result.points[best]!),
    verdict(result, objective.format(objective.value(result.points[best]!))),
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

/** Where a trace came from, and what its prompts hold where it says so. */
export function traceName({ source, context }: Pick<TraceTable, 'source' | 'context'>): string {
  if (context === undefined) return source
  return `${source}, ${context === 'new' ? 'new tokens only' : 'full context'}`
}

/** What was assumed: results are comparable only where this line agrees. */
export function policyLine(
  result: Pick<
    SweepResult,
    'policy' | 'knowledge' | 'feedback' | 'arrivals' | 'rate' | 'arrivalShape' | 'error'
  >,
): string {
  const { policy, knowledge, feedback, arrivals, rate, error } = result
  const { order, placement, binding, migrate } = policy
  const moves = migrate ? ' with migration' : ''
  const traffic =
    rate === undefined ? 'recorded arrivals' : `${arrivalsText(arrivals, result.arrivalShape)} at ${rate}/s`
  const wrong = error === undefined ? '' : `, errors ${error}`
  return `${order} × ${placement} × ${binding}${moves}, knowledge ${knowledge}, feedback ${feedback}, ${traffic}${wrong}`
}

function heading(result: SweepResult): string {
  const { trace, cluster, replications } = result
  const size = `${count(trace.workflows)} workflows, ${count(trace.calls)} calls`
  return `${traceName(trace)}: ${size}, on ${cluster}\n${policyLine(result)}, ${count(replications)} replication${replications > 1 ? 's' : ''}`
}

function pointTable({ points, best }: SweepResult): string {
  const note = (alpha: number) => {
    if (alpha === best.alpha) return 'best'
    return best.indistinguishable.includes(alpha) ? '≈ best' : ''
  }
  const rows = points.map((point) => [
    String(point.alpha),
    duration(point.p95Ms),
    point.ci95Ms === null ? '' : `${duration(point.ci95Ms[0])} … ${duration(point.ci95Ms[1])}`,
    duration(point.p99Ms),
    duration(point.meanMs),
    significant(point.sloScale95),
    significant(point.throughputPerS),
    note(point.alpha),
  ])
  return table(['alpha', 'P95', '95 % interval', 'P99', 'mean', 'SLO95', 'workflows/s', ''], rows)
}

/** Every alpha's distance from what no scheduler can be below; the best one is marked as in the table above. */
function boundText({ points, best }: SweepResult): string {
  const [first] = points
  if (first?.bound === undefined) return ''
  const { bound95, bound99, bound100 } = first.bound
  const least = [bound95, bound99, bound100].map(significant)
  const rows = points.map(({ alpha, bound }) => [
    String(alpha),
    over(bound?.over95),
    over(bound?.over99),
    over(bound?.over100),
    significant(bound?.req100 ?? Number.NaN),
    alpha === best.alpha ? 'best' : '',
  ])
  return [
    `No scheduler below Req95 ${least[0]}, Req99 ${least[1]}, largest ${least[2]} (certified, docs/bounds.md). Ratios to that, geometric`,
    'means over the replications; –: calls were evicted or workflows never ended.',
    '',
    table(['alpha', 'Req95 / bound', 'Req99 / bound', 'largest / bound', 'largest', ''], rows),
  ].join('\n')
}

function eliminatedText({ eliminated }: SweepResult): string {
  const rounds = [...new Set(eliminated.map(({ round }) => round))]
  const lines = rounds.map((round) => {
    const gone = eliminated.filter((arm) => arm.round === round)
    const { replications } = gone[0]!
    const after = `${count(replications)} replication${replications > 1 ? 's' : ''}`
    return `Eliminated in round ${round}, after ${after}: ${gone.map(({ alpha }) => alpha).join(', ')}.`
  })
  return lines.join('\n')
}

function bestTenants({ alpha, tenants, fairness }: SweepPoint): string {
  if (tenants === undefined || fairness === undefined) return ''
  return `Tenants at alpha ${alpha}:\n${tenantTable(tenants, fairness)}`
}

function verdict(
  { best, points, eliminated, replications, runs, timing, trace }: SweepResult,
  value: string,
): string {
  const equals =
    replications < 2
      ? 'one replication tells no alpha from another'
      : best.indistinguishable.length === 0
        ? 'better than every other alpha (paired 95 % intervals)'
        : `not distinguishable from it: ${best.indistinguishable.join(', ')}`
  const where =
    timing.workers === 0 ? 'in one thread' : `on ${timing.workers} worker${timing.workers > 1 ? 's' : ''}`
  const grid = (points.length + eliminated.length) * replications
  const saved = runs < grid ? ` (the grid: ${count(grid)})` : ''
  const rate =
    timing.cpuMs > 0 ? `, ${significant(timing.simulatedCalls / timing.cpuMs / 1000)} M calls/s per core` : ''
  const cost = `${count(runs)} runs${saved} of ${count(trace.calls)} calls in ${duration(timing.sweepMs)} ${where}${rate}`
  return `Best alpha: ${best.alpha} (${value}); ${equals}.\n${cost}.`
}

interface Shown {
  title: string
  value: (point: SweepPoint) => number
  format: (value: number) => string
}

function objectiveOf({ objective }: SweepResult): Shown {
  if (typeof objective === 'object') {
    const value = (point: SweepPoint) =>
      point.attainment.find(([scale]) => scale === objective.attainment)?.[1] ?? 0
    return { title: objectiveName(objective), value, format: percent }
  }
  switch (objective) {
    case 'p95':
      return { title: 'P95 latency', value: (point) => point.p95Ms, format: duration }
    case 'p99':
      return { title: 'P99 latency', value: (point) => point.p99Ms, format: duration }
    case 'mean':
      return { title: 'mean latency', value: (point) => point.meanMs, format: duration }
    case 'sloScale95':
      return { title: '95 % SLO scale', value: (point) => point.sloScale95, format: significant }
  }
}
