import assert from 'node:assert/strict'
import type { LiveInstance } from '../../lib/scheduler/instances.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { instances, LATENCY, virtual } from '../support/live.ts'
import { problemsOf } from '../unit/model/shared.ts'

type Wrong = [
  what: string,
  given: unknown,
  ...problems: [code: string, place: string | undefined, message: RegExp][],
]

const seen = async (work: () => unknown) =>
  (await problemsOf(work)).map(({ code, place, message }) => [code, place, message] as const)

function agree(
  got: readonly (readonly [string, string | undefined, string])[],
  [, , ...expected]: Wrong,
): void {
  assert.deepEqual(
    got.map(([code, place]) => [code, place]),
    expected.map(([code, place]) => [code, place]),
  )
  for (const [i, [, , message]] of expected.entries()) assert.match(got[i]![2], message)
}

const OPTION = 'ERR_LAXITY_OPTION'
const FIELD = 'ERR_LAXITY_FIELD'

describe('what is wrong with a live scheduler’s options, and where', () => {
  const options: Wrong[] = [
    ['an unknown option', { quueLimit: 5 }, [OPTION, 'quueLimit', /did you mean "queueLimit"\?/]],
    [
      'an unknown part of a policy, and an unknown order',
      { policy: { ordr: 'fcfs', placement: 'eftxp' } },
      [OPTION, 'policy.ordr', /Unknown option/],
      [OPTION, 'policy.order', /Unknown order undefined/],
    ],
    [
      'migration that is no flag',
      { policy: { order: 'fcfs', placement: 'eftxp', migrate: 1 } },
      [OPTION, 'policy.migrate', /Expected true or false/],
    ],
    [
      'migration out of one queue',
      { policy: { order: 'fcfs', placement: 'eftxp', binding: 'at-credit', migrate: true } },
      [OPTION, 'policy.migrate', /needs calls that wait for one unified instance/],
    ],
    [
      'templates that are no lists of stages',
      { templates: { good: [], short: [{ stage: 'a', promptTokens: 1 }], none: 3 } },
      [OPTION, 'templates.short', /got an array/],
      [OPTION, 'templates.none', /got 3 \(number\)/],
    ],
    [
      'pairs that are no object',
      {
        cluster: instances(1, { role: 'prefill' }).concat(instances(1, { id: 'd', role: 'decode' })),
        pairs: 'sglang',
      },
      [OPTION, 'pairs', /got "sglang" \(string\)/],
    ],
    [
      'a tuner that looks for longer than it remembers, over values that are none',
      { autoTune: { windowMs: 2_000, latencyMs: 3_000, values: [0, Number.NaN] } },
      [OPTION, 'autoTune.latencyMs', /longer than `autoTune.windowMs`/],
      [OPTION, 'autoTune.values', /2 to 1000 numbers/],
    ],
    ['a grid that is none', { autoTune: { values: '0:1' } }, [OPTION, 'autoTune.values', /`from:to:step`/]],
  ]
  for (const wrong of options)
    it(wrong[0], async () => {
      agree(await seen(() => new Scheduler({ cluster: instances(1), ...(wrong[1] as object) })), wrong)
    })
})

describe('what is wrong with a live cluster, and where', () => {
  const clusters: Wrong[] = [
    [
      'latencies that are no object, and an unknown field',
      { instances: instances(1), latencies: [], instnces: [] },
      [FIELD, 'cluster.latencies', /got an array/],
      [FIELD, 'cluster.instnces', /Unknown field/],
    ],
    [
      'a latency whose times fall, and one of no kind',
      {
        instances: instances(1),
        latencies: {
          table: {
            kind: 'table',
            decodeBaseMs: 1,
            prefill: [
              [1, 5],
              [9, 4],
            ],
          },
          other: { kind: 'polynomal', decodeBaseMs: 1 },
        },
      },
      [FIELD, 'cluster.latencies.table.prefill', /times never fall/],
      [FIELD, 'cluster.latencies.other.kind', /"constants" or "table"/],
    ],
    [
      'a latency that is not there',
      { instances: [{ latency: 'fsat', kvTokens: 5 }], latencies: { fast: LATENCY } },
      [FIELD, 'cluster.instances[0].latency', /Unknown latency "fsat"; did you mean "fast"\?/],
    ],
    [
      'one id for several',
      [{ id: 'a', gpu: 'a100', count: 2 }],
      [FIELD, 'cluster.instances[0].count', /no `count` beside an `id`/],
    ],
    [
      'chunks of no tokens',
      [{ gpu: 'a100', mode: 'chunked', chunkTokens: 0 }],
      [FIELD, 'cluster.instances[0].chunkTokens', /whole number from 1/],
    ],
    [
      'a role without the size of its KV, and a bootstrap that is none',
      [
        { role: 'prefill', latency: LATENCY, kvTokens: 9, kvBytesPerToken: 1, bootstrap: { hots: 'x' } },
        { role: 'decode', latency: LATENCY, kvTokens: 9 },
      ],
      [FIELD, 'cluster.instances[0].bootstrap', /\{ host\?, port\? \}/],
      [FIELD, 'cluster.instances[1].kvBytesPerToken', /KV of a token in bytes/],
    ],
    [
      'names that are adapters here and models there',
      [
        { gpu: 'a100', model: 'base', adapters: ['sql'] },
        { gpu: 'a100', model: 'sql' },
        { gpu: 'a100', model: 'other', adapters: ['base'] },
        { gpu: 'a100', model: 'third', adapters: ['sql'] },
      ],
      [FIELD, 'cluster.instances[1].model', /"sql" is an adapter of another model/],
      [FIELD, 'cluster.instances[2].adapters', /"base" is a model/],
      [FIELD, 'cluster.instances[3].adapters', /"sql" is an adapter of another model/],
    ],
    [
      'more adapters than a call can tell apart',
      [{ gpu: 'a100', model: 'base', adapters: Array.from({ length: 65 }, (_, i) => `a${i}`) }],
      ['ERR_LAXITY_LIMIT', 'cluster.instances[0].adapters', /At most 64 adapters/],
    ],
  ]
  for (const wrong of clusters)
    it(wrong[0], async () => {
      agree(await seen(() => new Scheduler({ cluster: wrong[1] as LiveInstance[] })), wrong)
    })

  it('an instance that is added later is held to the same', async () => {
    const { scheduler } = virtual()
    const before = JSON.stringify(scheduler.snapshot())
    for (const [instance, code, place] of [
      [{ gpu: 'a100', count: 2 }, FIELD, 'instance.count'],
      [{ gpu: 'a100', role: 'decode' }, FIELD, 'instance.role'],
      [{ latency: 'named', kvTokens: 5 }, FIELD, 'instance.latency'],
    ] as const) {
      const [first] = await seen(() => scheduler.addInstance(instance as unknown as LiveInstance))
      assert.deepEqual(first!.slice(0, 2), [code, place])
    }
    assert.equal(JSON.stringify(scheduler.snapshot()), before)
    await scheduler.close()
  })

  it('takes latencies by name, also for instances that are added later', async () => {
    const fast = { ...LATENCY, decodeBaseMs: 1 }
    const { clock, scheduler } = virtual({
      cluster: { latencies: { fast }, instances: [{ id: 'a', latency: 'fast', kvTokens: 100 }] },
    })
    assert.equal(scheduler.addInstance({ id: 'b', latency: 'fast', kvTokens: 100 }), 'b')
    const [a, b] = ['a', 'b'].map(() => scheduler.estimate({ promptTokens: 10, outputTokens: 5 }))
    assert.deepEqual(a, b)
    scheduler.removeInstance('a')
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    assert.equal(lease.instance, 'b')
    lease.done()
    await clock.advance(0)
    await scheduler.close()
  })
})

describe('calls that are too large or too many', () => {
  it('names the field of a sum that is beyond the limit', async () => {
    const { scheduler } = virtual()
    const workflow = scheduler.workflow()
    assert.deepEqual(
      (await seen(() => workflow.call({ promptTokens: 1, outputTokens: 100_000_000, n: 2 }))).map(
        ([c, p]) => [c, p],
      ),
      [[FIELD, 'n']],
    )
    await scheduler.close()
  })
})
