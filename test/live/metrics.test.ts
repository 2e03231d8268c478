import assert from 'node:assert/strict'
import { Registry } from 'prom-client'
import { registerMetrics } from '../../lib/adapters/prometheus.ts'
import type { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { code, instances, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

function metricOf(scheduler: Scheduler, name: string, labels: Record<string, string> = {}): number {
  const metric = scheduler.metrics().find((one) => one.name === `laxity_${name}`)
  assert.ok(metric !== undefined, name)
  if (metric.kind === 'histogram') return metric.histogram.count
  const found = metric.values.filter((one) =>
    Object.entries(labels).every(([key, value]) => one.labels[key] === value),
  )
  assert.equal(found.length, 1, name)
  return found[0]!.value
}

describe('metrics of the live scheduler', () => {
  it('predicted time to first token, beside what came', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1), lookahead: 1 })
    const workflow = scheduler.workflow()
    // 50 ms of prefill each, one after the other.
    const [a, b] = await Promise.all(
      [1, 2].map(() => workflow.call({ promptTokens: 500, outputTokens: 10, parents: [] })),
    )
    const predicted = scheduler.metrics().find(({ name }) => name === 'laxity_predicted_ttft_seconds')!
    assert.ok(predicted.kind === 'histogram')
    assert.equal(predicted.histogram.count, 2)
    assert.ok(Math.abs(predicted.histogram.sum - 0.15) < 1e-9, `${predicted.histogram.sum}`)
    await clock.advance(50)
    a!.firstToken()
    await clock.advance(50)
    b!.firstToken()
    const seen = scheduler.metrics().find(({ name }) => name === 'laxity_request_ttft_seconds')!
    assert.ok(seen.kind === 'histogram' && Math.abs(seen.histogram.sum - 0.15) < 1e-9)
    a!.done()
    b!.done()
    await scheduler.close()
  })

  it('deadlines missed, and calls turned away for theirs', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(1, { maxSequences: 1 }),
      lookahead: 0,
      hopeless: 'reject',
    })
    const late = scheduler.workflow({ sloMs: 200 })
    const lease = await late.call({ promptTokens: 100, outputTokens: 10 })
    await clock.advance(300)
    lease.done()
    late.end()
    const running = await scheduler.workflow().call({ promptTokens: 100, outputTokens: 10 })
    const hopeless = code(scheduler.workflow({ sloMs: 120 }).call({ promptTokens: 100, outputTokens: 10 }))
    await clock.advance(100)
    assert.equal(await hopeless, 'ERR_LAXITY_DEADLINE')
    running.done()
    assert.equal(metricOf(scheduler, 'slo_violation_total', { kind: 'workflow' }), 1)
    assert.equal(metricOf(scheduler, 'slo_violation_total', { kind: 'rejected' }), 1)
    await scheduler.close()
  })

  it('service attained, and how evenly by weight', async () => {
    const { scheduler } = virtual({
      cluster: instances(2),
      tenantShares: { weights: { a: 2 } },
    })
    assert.equal(metricOf(scheduler, 'fairness_index'), 1)
    const serve = async (tenant: string, times: number) => {
      for (let i = 0; i < times; i += 1) {
        const lease = await scheduler.workflow({ tenant }).call({ promptTokens: 100, outputTokens: 10 })
        lease.done({ outputTokens: 50 })
      }
    }
    await serve('a', 2)
    await serve('b', 1)
    // 100 + 2 × 50 each; a counts half.
    assert.equal(metricOf(scheduler, 'attained_service_tokens_total'), 600)
    assert.equal(metricOf(scheduler, 'fairness_index'), 1)
    await serve('b', 2)
    assert.equal(metricOf(scheduler, 'attained_service_tokens_total'), 1000)
    const [a, b] = [200, 600]
    assert.ok(Math.abs(metricOf(scheduler, 'fairness_index') - (a + b) ** 2 / (2 * (a * a + b * b))) < 1e-12)
    await scheduler.close()
  })

  it('alpha in force, and decisions by policy', async () => {
    const { scheduler } = virtual({ policy: 'hexgen-flow' })
    const once = async () => (await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })).done()
    await once()
    const before = metricOf(scheduler, 'tuner_alpha')
    assert.ok(before >= 0 && before <= 1)
    scheduler.setParameters({ alpha: 0.7 })
    assert.equal(metricOf(scheduler, 'tuner_alpha'), 0.7)
    scheduler.setPolicy('vllm')
    await once()
    await once()
    const policy = (name: string) => metricOf(scheduler, 'policy_decisions_total', { policy: name })
    assert.equal(policy('urgency x workload-balanced x at-reveal'), 1)
    assert.equal(policy('fcfs x round-robin x at-reveal'), 2)
    await scheduler.close()
  })

  it('plans, where a placement makes them', async () => {
    const { scheduler } = virtual({ cluster: pairCluster(2, 2), policy: 'hexagent' })
    assert.equal(metricOf(scheduler, 'plans_total'), 0)
    const leases = await Promise.all(
      [1, 2, 3].map(() => scheduler.workflow().call({ promptTokens: 100, outputTokens: 10 })),
    )
    assert.ok(metricOf(scheduler, 'plans_total') >= 1)
    assert.ok(metricOf(scheduler, 'planned_calls_total') >= 3)
    assert.equal(metricOf(scheduler, 'plan_duration_seconds'), 1)
    for (const lease of leases) lease.cancel()
    await scheduler.close()
  })

  it('reach prom-client under their kinds, and carry no ids', async () => {
    const { scheduler } = virtual({ parameters: { breakerFaults: 1, faultPenaltyMs: 0 } })
    const registry = new Registry()
    registerMetrics(scheduler, registry)
    const workflow = scheduler.workflow({ id: 'secret-session', tenant: 'secret-tenant' })
    const call = (id: string) => workflow.call({ id, promptTokens: 100, outputTokens: 10, parents: [] })
    await (await call('secret-call')).failed({ status: 500, clientBytes: 1 })
    ;(await call('secret-two')).done({ outputTokens: 10 })
    const page = await registry.metrics()
    assert.doesNotMatch(page, /secret/)
    for (const [name, kind] of [
      ['predicted_ttft_seconds', 'histogram'],
      ['plan_duration_seconds', 'histogram'],
      ['plans_total', 'counter'],
      ['slo_violation_total', 'counter'],
      ['attained_service_tokens_total', 'counter'],
      ['cb_transitions_total', 'counter'],
      ['fairness_index', 'gauge'],
      ['tuner_alpha', 'gauge'],
    ])
      assert.match(page, new RegExp(`# TYPE laxity_${name} ${kind}\n`))
    assert.match(page, /laxity_cb_transitions_total\{instance="m\d"\} 1\n/)
    assert.match(page, /laxity_attained_service_tokens_total 120\n/)
    assert.match(
      page,
      /laxity_policy_decisions_total\{policy="ratio x eftxp x at-reveal",reason="best-score"\} /,
    )
    // Scraped twice, nothing doubles.
    assert.match(await registry.metrics(), /laxity_attained_service_tokens_total 120\n/)
    await scheduler.close()
  })
})
