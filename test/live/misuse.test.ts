import assert from 'node:assert/strict'
import { Lease } from '../../lib/scheduler/lease.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, code, instances, virtual } from '../support/live.ts'

const ODD: unknown[] = [
  null,
  0,
  -1,
  1.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  1e300,
  '',
  'x'.repeat(300),
  'text',
  true,
  [],
  {},
  () => 1,
  Symbol('s'),
  10n,
]

/** Every form of `remaining` that has this in it, but those that are right. */
function remainingForms(odd: unknown): object[] {
  const isTime = typeof odd === 'number' && odd >= 0 && odd <= 1e12
  const isSigma = typeof odd === 'number' && odd > 0 && odd <= 10
  return [
    ...(isTime ? [] : [{ exactMs: odd }, { quantileMs: odd, q: 0.02 }, { estimateMs: odd, sigma: 1 }]),
    ...(isSigma ? [] : [{ estimateMs: 1, sigma: odd }]),
    { quantileMs: 1, q: odd },
    { quantileMs: odd },
    { estimateMs: odd },
    { meanMs: odd },
    { exactMs: 1, sigma: odd },
  ]
}

/** Everything that can be called, with everything it may not be called with: a coded error, and the state as it was. */
describe('misuse', () => {
  it('of the constructor: every problem at once, each with its place', async () => {
    for (const options of ODD)
      assert.match((await code(() => new Scheduler(options as never)))!, /^ERR_LAXITY_/)
    const keys = [
      'policy',
      'parameters',
      'lookahead',
      'passThrough',
      'tieSeed',
      'templates',
      'queueLimit',
      'tenantQueueLimit',
      'queueTimeoutMs',
      'hopeless',
      'leaseTtlMs',
      'workflowIdleMs',
      'receipts',
      'onReceipt',
      'log',
      'durable',
      'detectLeaks',
      'clock',
    ]
    for (const key of keys) {
      let refused = 0
      for (const value of [null, -1, 'nonsense?', 1e300, Symbol('s'), ['x']]) {
        if (key === 'log' && typeof value === 'string') continue
        const seen = await code(() => new Scheduler({ cluster: instances(1), [key]: value } as never))
        if (seen === undefined) continue
        assert.match(seen, /^ERR_LAXITY_/, key)
        refused += 1
      }
      assert.ok(refused >= 4, key)
    }
    const fields = [
      'id',
      'url',
      'gpu',
      'latency',
      'model',
      'adapters',
      'kvTokens',
      'maxSequences',
      'count',
      'mode',
      'role',
      'priority',
      'nonsense',
    ]
    for (const field of fields) {
      for (const value of [null, -1, 1e300, {}, true]) {
        const seen = await code(() => new Scheduler({ cluster: [{ gpu: 'a100', [field]: value } as never] }))
        assert.match(seen!, /^ERR_LAXITY_/, `${field} ${String(value)}`)
      }
    }
    assert.equal(await code(() => new Scheduler({ cluster: [] })), 'ERR_LAXITY_EMPTY')
    assert.equal(await code(() => new Scheduler({ cluster: 'nowhere' })), 'ERR_LAXITY_OPTION')
    assert.equal(
      await code(
        () =>
          new Scheduler({
            cluster: [
              { id: 'a', gpu: 'a100' },
              { id: 'a', gpu: 'a100' },
            ],
          }),
      ),
      'ERR_LAXITY_DUPLICATE',
    )
    assert.equal(
      await code(() => new Scheduler({ cluster: instances(1), parameters: { alpha: 5 } })),
      'ERR_LAXITY_OPTION',
    )
    try {
      new Scheduler({ cluster: [{ gpu: 'h900' }, { gpu: 'a100', kvTokens: -1 }] })
      assert.fail('accepted')
    } catch (error) {
      assert.match((error as Error).message, /^2 problems: .*instances\[0\]\.gpu.*instances\[1\]\.kvTokens/)
    }
  })

  it('of everything else', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(2),
      templates: { plan: [{ stage: 'a', promptTokens: 1, outputTokens: 1 }] },
    })
    const workflow = scheduler.workflow({ id: 'w' })
    const held = await workflow.call({ id: 'held', promptTokens: 10, outputTokens: 5 })
    const state = () => JSON.stringify({ ...scheduler.snapshot(), nowMs: 0 })
    const before = state()
    const rejects = async (what: string, run: () => unknown) => {
      const seen = await code(async () => run())
      assert.match(seen ?? `${what} was accepted`, /^ERR_LAXITY_/, what)
      assert.equal(state(), before, what)
    }
    const good = { promptTokens: 10, outputTokens: 5 }
    for (const [i, odd] of ODD.entries()) {
      const name = `${i}: ${String(odd)}`
      const call = (field: string, value: unknown) =>
        rejects(`call ${field} ${name}`, () => workflow.call({ ...good, [field]: value } as never))
      await call('promptTokens', odd)
      if (odd !== undefined) {
        for (const field of ['outputTokens', 'highOutputTokens', 'maxOutputTokens', 'n'])
          await call(field, odd)
        if (typeof odd !== 'string' || odd.length > 256 || odd.length === 0)
          for (const field of ['id', 'stage', 'model']) await call(field, odd)
        if (typeof odd !== 'boolean') await call('stream', odd)
        if (!Array.isArray(odd)) await call('parents', odd)
        await call('parents', [odd])
        if (odd !== 0 && !(typeof odd === 'object' && odd !== null)) await call('cachedTokens', odd)
        await call('signal', odd)
        for (const form of [odd, ...remainingForms(odd)]) {
          await call('remaining', form)
          await rejects(`workflow ${name}`, () => scheduler.workflow({ remaining: form as never }))
          await rejects(`update ${name}`, () => workflow.update({ remaining: form as never }))
        }
      }
      if (!(typeof odd === 'object' && odd !== null && !Array.isArray(odd))) {
        await rejects(`call ${name}`, () => workflow.call(odd as never))
        await rejects(`estimate ${name}`, () => scheduler.estimate(odd as never))
        await rejects(`outcome ${name}`, () => held.failed(odd as never))
      }
      if (!(typeof odd === 'number' && odd >= 0 && odd <= 1e12)) {
        await rejects(`sloMs ${name}`, () => scheduler.workflow({ sloMs: odd as never }))
        if (odd !== null) await rejects(`update ${name}`, () => workflow.update({ sloMs: odd as never }))
        await rejects(`predictedMs ${name}`, () => workflow.update({ predictedMs: odd as never }))
        await rejects(`predictedMs ${name}`, () => scheduler.workflow({ predictedMs: odd as never }))
        await rejects(`drainMs ${name}`, () => scheduler.close({ drainMs: (odd ?? -1) as never }))
      }
      await rejects(`template ${name}`, () => scheduler.workflow({ template: odd as never }))
      await rejects(`signal ${name}`, () => scheduler.workflow({ signal: odd as never }))
      if (typeof odd !== 'string' || odd.length > 256 || odd === '') {
        await rejects(`workflow id ${name}`, () => scheduler.workflow({ id: odd as never }))
        await rejects(`tenant ${name}`, () => scheduler.workflow({ tenant: odd as never }))
      }
      for (const change of [
        'drainInstance',
        'restoreInstance',
        'removeInstance',
        'failInstance',
        'queue',
      ] as const)
        await rejects(`${change} ${name}`, () => scheduler[change](odd as never))
      if (!(typeof odd === 'object' && odd !== null && !Array.isArray(odd)))
        await rejects(`addInstance ${name}`, () => scheduler.addInstance(odd as never))
      await rejects(`setPolicy ${name}`, () => scheduler.setPolicy(odd as never))
      if (!(typeof odd === 'object' && odd !== null))
        await rejects(`setParameters ${name}`, () => scheduler.setParameters((odd ?? 1) as never))
      await rejects(`setParameters alpha ${name}`, () =>
        scheduler.setParameters({ alpha: odd === 0 ? -5 : (odd as never) }),
      )
      await rejects(`telemetry ${name}`, () => scheduler.telemetry(odd as never, {}))
      if (odd !== 0)
        await rejects(`running ${name}`, () => scheduler.telemetry('m0', { running: odd as never }))
      if (odd !== 0)
        await rejects(`usage ${name}`, () => scheduler.telemetry('m0', { kvUsage: odd as never }))
      await rejects(`attach ${name}`, () => scheduler.attach(odd as never))
      if (odd !== 0) {
        await rejects(`done ${name}`, () => held.done({ outputTokens: odd as never }))
        await rejects(`progress ${name}`, () => held.progress(odd as never))
      }
      for (const field of ['class', 'status', 'clientBytes', 'retryAfterMs'])
        if (odd !== 0 && !(field === 'retryAfterMs' && odd === 1.5))
          await rejects(`outcome ${field} ${name}`, () => held.failed({ [field]: odd } as never))
    }
    await rejects('an ok failure', () => held.failed({ status: 200 }))
    await rejects('an unknown parent', () => workflow.call({ ...good, parents: ['nobody'] }))
    await rejects('a cache nowhere', () => workflow.call({ ...good, cachedTokens: { nowhere: 3 } }))

    // A lease of another workflow, and of another scheduler, is no parent.
    const other = virtual()
    const stranger = await other.scheduler.workflow({ id: 'w2' }).call(good)
    assert.ok(stranger instanceof Lease)
    await rejects('a foreign parent', () => workflow.call({ ...good, parents: [stranger] }))

    // After the end.
    assert.equal(held.done(), true)
    workflow.end()
    assert.equal(await code(workflow.call(good)), 'ERR_LAXITY_CLOSED')
    assert.equal(await code(() => workflow.update({ sloMs: 5 })), 'ERR_LAXITY_CLOSED')
    workflow.end()
    assertEmpty(scheduler)
    await scheduler.close()
    assert.equal(await code(() => scheduler.workflow()), 'ERR_LAXITY_CLOSED')
    assert.deepEqual(await scheduler.close(), await scheduler.close())
    assert.equal(clock.timers, 0)
  })

  it('of names without end: tables stay bounded, everything beyond shares one id', async () => {
    const { scheduler } = virtual({
      cluster: instances(1, { maxSequences: 60_000, kvTokens: 1_000_000_000 }),
      lookahead: 1000,
    })
    for (let i = 0; i < 70_000; i += 1) {
      const workflow = scheduler.workflow({ tenant: `t${i}` })
      const lease = await workflow.call({ stage: `s${i}`, promptTokens: 1, outputTokens: 1 })
      lease.done({ outputTokens: 1 })
      workflow.end()
    }
    assertEmpty(scheduler)
  }).timeout(60_000)
})
