import { native } from '../native.ts'
import { jain } from '../simulator/tenants.ts'
import type { Core } from './core.ts'
import type { Metric } from './metrics.ts'
import type { Snapshot } from './snapshot.ts'

/** As the core has it where no one set it. */
const ALPHA = native.parameterDefaults[native.parameters.indexOf('alpha')]!

/** Of tenants that had any. */
function servedOf({ native: core }: Core): { tokens: number; weight: number }[] {
  const columns = core.attained()
  return Array.from({ length: columns.length / 2 }, (_, tenant) => ({
    tokens: columns[2 * tenant]!,
    weight: columns[2 * tenant + 1]!,
  })).filter(({ tokens }) => tokens > 0)
}

/** Everything a scheduler counts, under the names its peers use. */
export function schedulerMetrics(core: Core, snapshot: Snapshot): Metric[] {
  const { metrics } = core
  const one =
    (kind: 'counter' | 'gauge') =>
    (name: string, help: string, value: number): Metric => ({
      name,
      help,
      kind,
      labels: [],
      values: [{ labels: {}, value }],
    })
  const counter = one('counter')
  const gauge = one('gauge')
  const by = (name: string, help: string, label: string, counts: Map<string, number>): Metric => ({
    name,
    help,
    kind: 'counter',
    labels: [label],
    values: [...counts].map(([key, value]) => ({ labels: { [label]: key }, value })),
  })
  const perInstance = (
    name: string,
    help: string,
    value: (i: Snapshot['instances'][number]) => number,
    kind: 'counter' | 'gauge' = 'gauge',
  ): Metric => ({
    name,
    help,
    kind,
    labels: ['instance'],
    values: snapshot.instances.map((i) => ({ labels: { instance: i.id }, value: value(i) })),
  })
  const histogram = (
    name: string,
    help: string,
    from: { snapshot(): import('./metrics.ts').HistogramSnapshot },
  ): Metric => ({
    name,
    help,
    kind: 'histogram',
    histogram: from.snapshot(),
  })
  const service = servedOf(core)
  const breakers = { closed: 0, 'half-open': 1, open: 2 }
  return [
    gauge('laxity_queue_size', 'Ready calls without a lease', snapshot.queued),
    histogram('laxity_queue_wait_seconds', 'From ready to leased', metrics.queueWait),
    histogram('laxity_decision_duration_seconds', 'One decide: every event of one instant', metrics.decision),
    histogram('laxity_plan_duration_seconds', 'One decide that made plans', metrics.planDuration),
    counter('laxity_plans_total', 'Plans of waiting calls over pairs', snapshot.plans),
    counter('laxity_planned_calls_total', 'Waiting calls that plans looked at', snapshot.plannedCalls),
    histogram(
      'laxity_predicted_ttft_seconds',
      'From lease to first token, as projected at the lease',
      metrics.predictedTtft,
    ),
    histogram('laxity_request_ttft_seconds', 'From lease to first token', metrics.ttft),
    histogram('laxity_request_tpot_seconds', 'Lease to finish per output token', metrics.tpot),
    histogram('laxity_workflow_duration_seconds', 'From opened to ended', metrics.workflowTime),
    histogram('laxity_workflow_ratio', 'Duration over the standalone horizon', metrics.ratio),
    counter('laxity_workflows_total', 'Workflows opened', metrics.workflows),
    counter('laxity_calls_total', 'Calls revealed', metrics.calls),
    {
      name: 'laxity_policy_decisions_total',
      help: 'Leases by policy and reason',
      kind: 'counter',
      labels: ['policy', 'reason'],
      values: [...metrics.leases].flatMap(([policy, reasons]) =>
        [...reasons].map(([reason, value]) => ({ labels: { policy, reason }, value })),
      ),
    },
    by('laxity_rejections_total', 'Calls turned away', 'reason', metrics.rejections),
    by('laxity_outcomes_total', 'Attempts by outcome', 'outcome', metrics.outcomes),
    counter(
      'laxity_workflow_deadline_miss_total',
      'Workflows that ended after their deadline',
      metrics.deadlineMisses,
    ),
    by(
      'laxity_slo_violation_total',
      'Workflows that ended after their deadline; calls rejected because it was out of reach',
      'kind',
      new Map([
        ['workflow', metrics.deadlineMisses],
        ['rejected', metrics.rejections.get('deadline') ?? 0],
      ]),
    ),
    counter(
      'laxity_attained_service_tokens_total',
      'Weighted tokens of finished calls (inputWeight, outputWeight)',
      service.reduce((total, { tokens }) => total + tokens, 0),
    ),
    gauge(
      'laxity_fairness_index',
      'Jain index of that service over its weight, over the tenants that had any',
      jain(service.map(({ tokens, weight }) => tokens / weight)),
    ),
    gauge('laxity_tuner_alpha', 'alpha in force', core.options.parameters.alpha ?? ALPHA),
    counter('laxity_retries_total', 'Attempts after the first', metrics.retries),
    counter(
      'laxity_retries_exhausted_total',
      'Failed calls that were not tried again',
      metrics.retriesExhausted,
    ),
    counter('laxity_lease_double_close_total', 'Closes of leases that were closed', metrics.doubleCloses),
    counter('laxity_lease_lost_total', 'Leases without a sign of life', metrics.lost),
    counter(
      'laxity_kv_lease_expired_total',
      'Leases whose KV waited too long on its prefill instance',
      snapshot.kvExpired,
    ),
    counter('laxity_lease_revoked_total', 'Leases taken back for others', snapshot.revoked),
    counter('laxity_lease_leaked_total', 'Leases collected unclosed', metrics.orphans),
    counter(
      'laxity_telemetry_stale_total',
      'Samples that had gone stale when the next one came',
      metrics.telemetryStale,
    ),
    counter('laxity_telemetry_suspicious_total', 'KV usage 0 with live leases', metrics.telemetrySuspicious),
    gauge(
      'laxity_panic',
      'Instances with an open breaker that is passed over',
      snapshot.instances.filter(
        ({ condition, masked, breaker }) => condition === 'up' && !masked && breaker === 'open',
      ).length,
    ),
    perInstance('laxity_instance_active_leases', 'Sequences leased', (i) => i.leased),
    perInstance('laxity_instance_queue_size', 'Calls waiting', (i) => i.waiting),
    perInstance('laxity_instance_reserved_kv_tokens', 'KV reserved', (i) => i.reservedKv),
    perInstance('laxity_instance_score_penalty', 'Work that no call stands for, ms', (i) => i.correctionMs),
    perInstance('laxity_cb_state', '0 closed, 1 half-open, 2 open', (i) => breakers[i.breaker]),
    perInstance(
      'laxity_cb_transitions_total',
      'Changes of the breaker',
      (i) => i.breakerTransitions,
      'counter',
    ),
  ]
}
