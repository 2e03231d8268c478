import assert from 'node:assert/strict'
import { schedulingInterceptor } from '../../lib/adapters/undici.ts'
import {
  classify,
  createHandler,
  identify,
  ManualClock,
  parseLoads,
  parseTelemetry,
  shadowLog,
  sharedScheduler,
} from '../../lib/index.ts'
import { Lease } from '../../lib/scheduler/lease.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { Workflow } from '../../lib/scheduler/workflow.ts'
import { code, instances, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

/** What every case may use: a scheduler at work, one that is closed, and strangers. */
interface Stage {
  scheduler: Scheduler
  workflow: Workflow
  lease: Lease
  instance: string
  removed: string
  endedWorkflow: Workflow
  closedLease: Lease
  closed: Scheduler
  /** Of another scheduler, under the same names. */
  foreignWorkflow: Workflow
  foreignLease: Lease
}

type Run = (stage: Stage, value: never) => unknown
interface Case {
  what: string
  /** `nothing`: it is no error to do it again, and nothing happens. */
  expect: 'error' | 'nothing'
  run(stage: Stage): unknown
}

function show(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}
function each(kind: string, values: readonly unknown[], run: Run): Case[] {
  return values.map((value) => ({
    what: `${kind}: ${show(value).slice(0, 40)}`,
    expect: 'error',
    run: (stage) => run(stage, value as never),
  }))
}

const OBJECTS = [null, 5, 'text', true, 10n, Symbol('s'), () => 1]
const LONG = 'x'.repeat(300)
const names = (run: Run) => each('type', [null, 5, true, 10n, Symbol('s'), {}, [], '', LONG], run)
const ids = (run: Run) => [...names(run), ...each('unknown', ['nobody'], run)]
const numbers = (run: Run) => [
  ...each('type', [null, '5', true, 10n, Symbol('s'), {}, [], Number.NaN], run),
  ...each('negative', [-1, -1e300, Number.NEGATIVE_INFINITY], run),
  ...each('huge', [1e300, Number.POSITIVE_INFINITY], run),
]
const wholes = (run: Run) => [...numbers(run), ...each('fraction', [1.5, 2 ** 53], run)]
const objects = (run: Run) => each('type', OBJECTS, run)
const flags = (run: Run) => each('type', [null, 0, 'true', {}], run)
const once = (what: string, run: (stage: Stage) => unknown, expect: Case['expect'] = 'error'): Case[] => [
  { what, expect, run },
]

const CALL = { promptTokens: 10, outputTokens: 5 }
const call =
  (field: string): Run =>
  ({ workflow }, value) =>
    workflow.call({ ...CALL, [field]: value })
const open =
  (field: string): Run =>
  ({ scheduler }, value) =>
    scheduler.workflow({ [field]: value })
const failed =
  (field: string): Run =>
  ({ lease }, value) =>
    lease.failed({ [field]: value })
const change = (name: 'drainInstance' | 'restoreInstance' | 'removeInstance' | 'failInstance'): Case[] => [
  ...ids(({ scheduler }, id) => scheduler[name](id)),
  ...(name === 'failInstance' ? [] : once('removed before', (s) => s.scheduler[name](s.removed))),
  ...once('after the end', ({ closed, instance }) => closed[name](instance)),
]

/** Every method, with everything that may be wrong about it. */
const CASES: Record<string, Record<string, Case[]>> = {
  Scheduler: {
    workflow: [
      ...objects(({ scheduler }, options) => scheduler.workflow(options)),
      ...names(open('id')),
      ...names(open('tenant')),
      ...numbers(open('sloMs')),
      ...ids(open('template')),
      ...objects(open('remaining')),
      ...numbers(open('predictedMs')),
      ...objects(open('signal')),
      ...once('after the end', ({ closed }) => closed.workflow()),
    ],
    attach: [
      ...ids(({ scheduler }, id) => scheduler.attach(id)),
      ...once('not detached', ({ scheduler, lease }) => scheduler.attach(lease.id)),
      ...once('of a workflow unknown', ({ scheduler, lease }) => scheduler.attach(lease.id, 'nobody')),
    ],
    addInstance: [
      ...objects(({ scheduler }, instance) => scheduler.addInstance(instance)),
      ...wholes(({ scheduler }, kvTokens) => scheduler.addInstance({ id: 'new', gpu: 'a100', kvTokens })),
      ...wholes(({ scheduler }, rank) => scheduler.addInstance({ url: 'http://n', rank })),
      ...wholes(({ scheduler }, ranks) => scheduler.addInstance({ url: 'http://n', rank: 0, ranks })),
      ...each(
        'type',
        [null, {}, { sign: 2 }, { sign: 1, min: 2, max: 1 }, { sign: 1, field: 'a..b' }],
        (s, priority) => s.scheduler.addInstance({ url: 'http://n', priority }),
      ),
      ...flags(({ scheduler }, revoke) => scheduler.addInstance({ url: 'http://n', revoke })),
      ...once('there already', ({ scheduler, instance }) =>
        scheduler.addInstance({ id: instance, gpu: 'a100' }),
      ),
      ...once('after the end', ({ closed }) => closed.addInstance({ id: 'new', gpu: 'a100' })),
    ],
    drainInstance: change('drainInstance'),
    restoreInstance: change('restoreInstance'),
    removeInstance: change('removeInstance'),
    failInstance: change('failInstance'),
    setPolicy: [
      ...objects(({ scheduler }, policy) => scheduler.setPolicy(policy)),
      ...ids(({ scheduler }, order) => scheduler.setPolicy({ order, placement: 'round-robin' })),
      ...ids(({ scheduler }, placement) => scheduler.setPolicy({ order: 'edf', placement })),
      ...ids(({ scheduler }, binding) =>
        scheduler.setPolicy({ order: 'edf', placement: 'round-robin', binding }),
      ),
      ...once('after the end', ({ closed }) => closed.setPolicy('laxity')),
    ],
    setParameters: [
      ...objects(({ scheduler }, parameters) => scheduler.setParameters(parameters)),
      ...numbers(({ scheduler }, alpha) => scheduler.setParameters({ alpha })),
      ...numbers(({ scheduler }, retryBackoffMs) => scheduler.setParameters({ retryBackoffMs })),
      ...once('unknown', ({ scheduler }) => scheduler.setParameters({ nobody: 1 })),
      ...once('after the end', ({ closed }) => closed.setParameters({ alpha: 0.5 })),
    ],
    telemetry: [
      ...ids(({ scheduler }, id) => scheduler.telemetry(id, {})),
      ...objects(({ scheduler, instance }, sample) => scheduler.telemetry(instance, sample)),
      ...wholes(({ scheduler, instance }, waiting) => scheduler.telemetry(instance, { waiting })),
      ...wholes(({ scheduler, instance }, running) => scheduler.telemetry(instance, { running })),
      ...numbers(({ scheduler, instance }, kvUsage) => scheduler.telemetry(instance, { kvUsage })),
      ...once('after the end', ({ closed, instance }) => closed.telemetry(instance, { running: 1 })),
    ],
    ready: ids(({ scheduler }, model) => scheduler.ready(model)),
    homeOf: [
      ...names(({ scheduler }, id) => scheduler.homeOf(id)),
      ...ids(({ scheduler }, model) => scheduler.homeOf('session', model)),
    ],
    estimate: [
      ...objects(({ scheduler }, options) => scheduler.estimate(options)),
      ...wholes(({ scheduler }, promptTokens) => scheduler.estimate({ promptTokens })),
      ...ids(({ scheduler }, model) => scheduler.estimate({ ...CALL, model })),
      ...objects(({ scheduler }, workflow) => scheduler.estimate({ ...CALL, workflow })),
      ...once('foreign', ({ scheduler, foreignWorkflow }) =>
        scheduler.estimate({ ...CALL, workflow: foreignWorkflow }),
      ),
    ],
    queue: ids(({ scheduler }, id) => scheduler.queue(id)),
    lengths: [
      ...names(({ scheduler }, stage) => scheduler.lengths(stage)),
      ...ids(({ scheduler }, template) => scheduler.lengths('plan', template)),
    ],
    template: ids(({ scheduler }, name) => scheduler.template(name)),
    on: [
      ...ids(({ scheduler }, event) => scheduler.on(event, () => {})),
      ...each('type', [null, 5, 'text', {}, undefined], ({ scheduler }, listener) =>
        scheduler.on('lost', listener),
      ),
    ],
    off: [
      ...ids(({ scheduler }, event) => scheduler.off(event, () => {})),
      ...each('type', [null, 5, 'text', {}, undefined], ({ scheduler }, listener) =>
        scheduler.off('lost', listener),
      ),
    ],
    close: [
      ...objects(({ scheduler }, options) => scheduler.close(options)),
      ...numbers(({ scheduler }, drainMs) => scheduler.close({ drainMs })),
      ...once('twice', ({ closed }) => closed.close(), 'nothing'),
    ],
    snapshot: once('after the end', ({ closed }) => closed.snapshot(), 'nothing'),
    metrics: once('after the end', ({ closed }) => closed.metrics(), 'nothing'),
    audit: once('after the end', ({ closed }) => closed.audit(), 'nothing'),
    'Symbol(Symbol.asyncDispose)': once('twice', ({ closed }) => closed[Symbol.asyncDispose](), 'nothing'),
  },
  Workflow: {
    call: [
      ...objects(({ workflow }, options) => workflow.call(options)),
      ...names(call('id')),
      ...names(call('stage')),
      ...ids(call('model')),
      ...wholes(call('promptTokens')),
      ...wholes(call('outputTokens')),
      ...wholes(call('highOutputTokens')),
      ...wholes(call('maxOutputTokens')),
      ...wholes(call('n')),
      ...objects(call('remaining')),
      ...flags(call('stream')),
      ...objects(call('signal')),
      ...each('type', [null, 5, 'text', {}, [null], [5], [{}]], call('parents')),
      ...each('unknown', [['nobody'], ['#99']], call('parents')),
      ...each('type', [null, 'text', true, -1, 1.5, 1e300, { nobody: 1 }, { m0: -1 }], call('cachedTokens')),
      ...once('a foreign parent', ({ workflow, foreignLease }) =>
        workflow.call({ ...CALL, parents: [foreignLease] }),
      ),
      ...once('an id that is over', ({ workflow, closedLease }) =>
        workflow.call({ ...CALL, id: closedLease.id }),
      ),
      ...once('after the end', ({ endedWorkflow }) => endedWorkflow.call(CALL)),
    ],
    update: [
      ...objects(({ workflow }, value) => workflow.update(value)),
      ...numbers(({ workflow }, sloMs) =>
        sloMs === null ? workflow.update(sloMs) : workflow.update({ sloMs }),
      ),
      ...numbers(({ workflow }, exactMs) =>
        workflow.update({ remaining: { exactMs } as { exactMs: number } }),
      ),
      ...once('after the end', ({ endedWorkflow }) => endedWorkflow.update({ sloMs: 5 })),
    ],
    end: once('twice', ({ endedWorkflow }) => endedWorkflow.end(), 'nothing'),
    'Symbol(Symbol.asyncDispose)': once('twice', (s) => s.endedWorkflow[Symbol.asyncDispose](), 'nothing'),
  },
  Lease: {
    firstToken: once('closed', ({ closedLease }) => closedLease.firstToken(), 'nothing'),
    transferDone: once('closed', ({ closedLease }) => closedLease.transferDone(), 'nothing'),
    progress: [
      ...wholes(({ lease }, tokens) => lease.progress(tokens)),
      ...once('closed', ({ closedLease }) => closedLease.progress(5), 'nothing'),
    ],
    // On unified instances it is told at once, even then.
    admitted: once('closed', ({ closedLease }) => closedLease.admitted().catch(() => {}), 'nothing'),
    done: [
      ...objects(({ lease }, result) => lease.done(result)),
      ...wholes(({ lease }, outputTokens) => lease.done({ outputTokens })),
      ...once('twice', ({ closedLease }) => assert.equal(closedLease.done(), false), 'nothing'),
    ],
    cancel: once('twice', ({ closedLease }) => assert.equal(closedLease.cancel(), false), 'nothing'),
    failed: [
      ...objects(({ lease }, outcome) => lease.failed(outcome)),
      ...ids(failed('class')),
      ...wholes(failed('status')),
      ...once('an ok outcome', ({ lease }) => lease.failed({ status: 200 })),
      ...wholes(failed('clientBytes')),
      ...numbers(failed('retryAfterMs')),
      ...ids(failed('leg')),
      ...flags(failed('kvOnPrefill')),
      ...once(
        'twice',
        async ({ closedLease }) => assert.equal(await closedLease.failed({}), null),
        'nothing',
      ),
    ],
    'Symbol(Symbol.dispose)': once('closed', ({ closedLease }) => closedLease[Symbol.dispose](), 'nothing'),
  },
}

/** Not for callers: marked internal in their declarations. */
const INTERNAL = ['find', 'parentsOf', 'forgetSignal', 'isOf', 'takeAway', 'admit', 'callOf']

async function stage(paired: boolean): Promise<Stage> {
  const cluster = () =>
    (paired ? pairCluster(2, 1) : instances(2)).map((instance) => ({ ...instance, model: 'llm' }))
  const options = {
    cluster: cluster(),
    templates: { chain: [{ stage: 'a', promptTokens: 1, outputTokens: 1 }] },
  }
  const { clock, scheduler } = virtual(options)
  const [instance, removed] = paired ? ['p0', 'p1'] : ['m0', 'm1']
  const { scheduler: other } = virtual(options)
  const { scheduler: closed } = virtual(options)
  await closed.close()
  const workflow = scheduler.workflow({ id: 'w', sloMs: 60_000 })
  const closedLease = await workflow.call({ ...CALL, id: 'closed' })
  closedLease.done()
  const lease = await workflow.call({ ...CALL, id: 'held' })
  const foreignWorkflow = other.workflow({ id: 'w' })
  const foreignLease = await foreignWorkflow.call({ ...CALL, id: 'held' })
  const endedWorkflow = scheduler.workflow({ id: 'ended' })
  endedWorkflow.end()
  scheduler.removeInstance(removed!)
  await clock.advance(0)
  return {
    scheduler,
    workflow,
    lease,
    instance: instance!,
    removed: removed!,
    endedWorkflow,
    closedLease,
    closed,
    foreignWorkflow,
    foreignLease,
  }
}

describe('every public method, given what it cannot take', () => {
  it('is in this table', () => {
    for (const [name, { prototype }] of Object.entries({ Scheduler, Workflow, Lease })) {
      const methods = Reflect.ownKeys(prototype).filter((key) => {
        const { value } = Object.getOwnPropertyDescriptor(prototype, key)!
        return typeof value === 'function' && key !== 'constructor' && !INTERNAL.includes(String(key))
      })
      // Node 20 has its own name for what is standard later.
      const seen = methods.map((key) => String(key).replace('nodejs.', 'Symbol.'))
      assert.deepEqual(seen.sort(), Object.keys(CASES[name]!).sort(), name)
    }
  })

  for (const paired of [false, true]) {
    for (const [type, methods] of Object.entries(CASES)) {
      it(`${type}${paired ? ' of pairs' : ''}: says so with a code, and changes nothing`, async () => {
        const at = await stage(paired)
        const state = () => JSON.stringify([at.scheduler.snapshot(), at.closed.snapshot()])
        const before = state()
        for (const [method, cases] of Object.entries(methods)) {
          for (const { what, expect, run } of cases) {
            const seen = await code(async () => run(at))
            const place = `${type}.${method}, ${what}`
            if (expect === 'error') assert.match(seen ?? 'accepted', /^ERR_LAXITY_/, place)
            else assert.equal(seen, undefined, place)
            assert.equal(state(), before, place)
          }
        }
        assert.ok(at.scheduler.audit())
        assert.equal(at.lease.done(), true)
        await at.scheduler.close()
      })
    }
  }

  it('so do functions and the clock', async () => {
    const { scheduler } = virtual()
    const clock = new ManualClock()
    const bad: [string, (value: never) => unknown][] = [
      ['classify', (value) => classify(value)],
      ['parseTelemetry', (value) => parseTelemetry(value)],
      ['parseLoads', (value) => parseLoads(value)],
      ['identify headers', (value) => identify(value, {})],
      ['identify options', (value) => identify({}, {}, value)],
      ['sharedScheduler', (value) => sharedScheduler(value)],
      ['createHandler', (value) => createHandler(value)],
      ['createHandler options', (value) => createHandler(scheduler, value)],
      ['schedulingInterceptor', (value) => schedulingInterceptor(value)],
      ['schedulingInterceptor options', (value) => schedulingInterceptor(scheduler, value)],
      ['restore', (value) => Scheduler.restore(value)],
      ['ManualClock', (value) => new ManualClock(value)],
      ['advance', (value) => clock.advance(value)],
      ['setTimer', (value) => clock.setTimer(value, 5)],
      ['shadowLog', (value) => shadowLog(value, 'laxity')],
      ['replayLog', (value) => replayLog(value)],
    ]
    for (const [name, run] of bad) {
      for (const value of [null, true, -5, Number.NaN, 'nonsense?', Symbol('s'), 10n]) {
        if (name === 'parseTelemetry' && typeof value === 'string') continue // a page without metrics
        assert.match(
          (await code(async () => run(value as never))) ?? 'accepted',
          /^ERR_LAXITY_/,
          `${name} ${show(value)}`,
        )
      }
    }
    assert.equal(clock.now(), 0)
  })
})
