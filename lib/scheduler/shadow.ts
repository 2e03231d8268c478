import { LaxityError } from '../errors.ts'
import { type NativeRun, native } from '../native.ts'
import { Problems } from '../report/problems.ts'
import { type EventLog, readLog, replayable } from './log.ts'
import { type LoggedWorkload, loggedWorkload } from './logged-workload.ts'
import { checkPolicy, type PolicyParts } from './options.ts'

/** Latencies of workflows under one policy. */
export interface ShadowRow {
  policy: string
  /** Whether its times come from the simulator, or from the log. */
  simulated: boolean
  workflows: number
  completed: number
  meanMs: number
  p50Ms: number
  p95Ms: number
  p99Ms: number
  /** Share of the workflows with a deadline that met it; NaN without any. */
  attainment: number
}

export interface ShadowResult {
  /** What happened; then the log's own policy and the other one, both simulated. Compare the last two. */
  recorded: ShadowRow
  own: ShadowRow
  other: ShadowRow
  calls: number
  assumed: LoggedWorkload['assumed']
  /** What is measured and what is simulated, in one sentence each. */
  fromLog: string
  fromSimulator: string
}

const FROM_LOG =
  'arrivals, deadlines, graph, lengths and tool gaps: what clients did, which another policy is taken not to change'
const FROM_SIMULATOR =
  'engines, queues and all times: the log says nothing of what engines would have done under other decisions'

/**
 * A shadow run (CONTRACT 11): a live log's workflows, as they came and with their true lengths and tool gaps, once more
 * under its own policy and under another one, on simulated engines with the latencies that the scheduler believed in.
 *
 * @throws LaxityError ERR_LAXITY_LOG where it is not a live log; ERR_LAXITY_OPTION; ERR_LAXITY_NATIVE
 */
export function shadow(log: EventLog, policy: string | PolicyParts, place = 'log'): ShadowResult {
  if (!('live' in log.header))
    throw new LaxityError(
      'ERR_LAXITY_LOG',
      'Only the log of a live scheduler can be run under another policy',
      place,
    )
  const problems = new Problems()
  const other = checkPolicy(policy, problems, log.header.run.pairs !== undefined)
  problems.throwIfAny()
  return replayable(place, () => shadowed(log, other, place))
}

function shadowed(log: EventLog, other: ReturnType<typeof checkPolicy>, place: string): ShadowResult {
  const { run } = log.header
  const workload = loggedWorkload(log, place)
  const own = {
    order: run.order,
    placement: run.placement as string,
    binding: run.binding,
    migrate: run.migrate === true,
  }
  return {
    recorded: row(nameOf(own), false, workload.recordedMs, workload.deadlineMs),
    own: simulated(workload, run, own, place),
    other: simulated(workload, run, other, place),
    calls: workload.calls,
    assumed: workload.assumed,
    fromLog: FROM_LOG,
    fromSimulator: FROM_SIMULATOR,
  }
}

export async function shadowLog(path: string, policy: string | PolicyParts): Promise<ShadowResult> {
  return shadow(await readLog(path), policy, path)
}

function simulated(
  workload: LoggedWorkload,
  base: NativeRun,
  policy: { order: string; placement: string; binding: NativeRun['binding']; migrate: boolean },
  place: string,
): ShadowRow {
  const trace = new native.Trace(workload.columns)
  if (trace.status !== 0) fail(trace.status, place)
  const latencyMs = new Float64Array(workload.workflows)
  const run: NativeRun = {
    ...base,
    ...policy,
    feedback: 'lease',
    arrivals: 'trace',
    compat: 'none',
    laws: false,
    // Simulated engines never fall silent, and no lease of theirs is taken back.
    parameters: { ...base.parameters, leaseTtlMs: 0, kvParkMs: 0 },
    seed: 0,
    replication: 0,
  }
  const { status } = new native.Simulator(trace, workload.cluster).run(run, { latencyMs })
  if (status !== 0) fail(status, place)
  return row(nameOf(policy), true, latencyMs, workload.deadlineMs)
}

function fail(status: number, place: string): never {
  throw new LaxityError('ERR_LAXITY_NATIVE', native.statusReasons[status] ?? `status ${status}`, place)
}

function nameOf({
  order,
  placement,
  binding,
}: {
  order: string
  placement: string
  binding: string
}): string {
  return `${order} x ${placement} x ${binding}`
}

function row(
  policy: string,
  simulated: boolean,
  latencyMs: Float64Array,
  deadlineMs: Float64Array,
): ShadowRow {
  const done = latencyMs.filter((ms) => Number.isFinite(ms)).sort()
  const quantile = (q: number) => done[Math.max(0, Math.ceil(q * done.length) - 1)] ?? Number.NaN
  let with_ = 0
  let met = 0
  for (const [w, deadline] of deadlineMs.entries()) {
    if (Number.isNaN(deadline)) continue
    with_ += 1
    if (latencyMs[w]! <= deadline) met += 1
  }
  return {
    policy,
    simulated,
    workflows: latencyMs.length,
    completed: done.length,
    meanMs: done.reduce((sum, ms) => sum + ms, 0) / done.length,
    p50Ms: quantile(0.5),
    p95Ms: quantile(0.95),
    p99Ms: quantile(0.99),
    attainment: met / with_,
  }
}
