import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import OpenAI from 'openai'
import { schedulingFetch } from '../../lib/adapters/fetch.ts'
import { newRoom, type PairProtocol } from '../../lib/adapters/pairs.ts'
import type { LiveInstance } from '../../lib/scheduler/instances.ts'
import type { SchedulerOptions } from '../../lib/scheduler/options.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, LATENCY, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

interface Leg {
  role: 'prefill' | 'decode'
  url: string
  bootstrap: number
  process: ChildProcess
  mode(name: string): Promise<void>
  counts(): Promise<Record<string, number>>
}

interface Speed {
  prefillMs?: number
  tokenMs?: number
  kvTokens?: number
  kvLeaseMs?: number
}

const children = new Set<ChildProcess>()

async function leg(
  role: 'prefill' | 'decode',
  { prefillMs = 10, tokenMs = 2, kvTokens = 10_000, kvLeaseMs = 60_000 }: Speed = {},
): Promise<Leg> {
  const script = fileURLToPath(new URL('../support/pair-engine.ts', import.meta.url))
  const numbers = [prefillMs, tokenMs, kvTokens, kvLeaseMs].map(String)
  const child = spawn(process.execPath, ['--import', 'tsx', script, role, ...numbers], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.add(child)
  const [port, bootstrap] = await new Promise<number[]>((resolve) =>
    child.stdout!.once('data', (data) => resolve(String(data).split(' ').map(Number))),
  )
  const url = `http://127.0.0.1:${port}`
  return {
    role,
    url,
    bootstrap: bootstrap!,
    process: child,
    mode: async (name) => void (await (await fetch(`${url}/mode/${name}`)).text()),
    counts: async () => (await (await fetch(`${url}/counts`)).json()) as Record<string, number>,
  }
}

function front(
  legs: readonly Leg[],
  protocol: PairProtocol,
  options: Partial<SchedulerOptions> & { dKv?: number; each?: (role: string) => Partial<LiveInstance> } = {},
) {
  const { dKv = 10_000, each = () => ({}), ...more } = options
  let p = 0
  let d = 0
  const sent: string[] = []
  const ranks: (string | null)[] = []
  const scheduler = new Scheduler({
    cluster: legs.map(({ role, url, bootstrap }) => ({
      id: role === 'prefill' ? `p${p++}` : `d${d++}`,
      url,
      role,
      latency: LATENCY,
      kvTokens: role === 'prefill' ? 10_000 : dKv,
      kvBytesPerToken: 1000,
      ...(role === 'prefill' && { bootstrap: { port: bootstrap } }),
      ...each(role),
    })),
    ...more,
  })
  const client = new OpenAI({
    apiKey: 'k',
    baseURL: 'http://scheduler/v1',
    maxRetries: 0,
    fetch: schedulingFetch(scheduler, {
      protocol,
      fetch: (input, init) => {
        sent.push(String(init?.body))
        ranks.push(new Headers(init?.headers).get('x-data-parallel-rank'))
        return fetch(input, init)
      },
    }),
  })
  return { scheduler, client, sent, ranks }
}

/** About 200 prompt tokens. */
const ask = (more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user' as const, content: 'hello '.repeat(130) }],
  max_tokens: 10,
  ...more,
})

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function until(what: () => Promise<boolean> | boolean, withinMs: number, why: string): Promise<number> {
  const from = performance.now()
  for (;;) {
    if (await what()) return performance.now() - from
    assert.ok(performance.now() - from < withinMs, why)
    await sleep(5)
  }
}

async function streamed(client: OpenAI, more: object = {}): Promise<string> {
  let text = ''
  for await (const part of await client.chat.completions.create({ ...ask(more), stream: true }))
    text += part.choices[0]?.delta.content ?? ''
  return text
}

/** Failure stories of prefill-decode routers, with engines in other processes that speak the protocols over HTTP. */
describe('hazard: prefill-decode pairs over real HTTP', function () {
  this.timeout(60_000)
  let p0: Leg
  let p1: Leg
  let d0: Leg
  let d1: Leg
  before(async () => {
    ;[p0, p1, d0, d1] = await Promise.all([
      // What nobody fetches vLLM's P frees after a second.
      leg('prefill', { kvLeaseMs: 1_000 }),
      leg('prefill', { kvLeaseMs: 1_000 }),
      leg('decode'),
      leg('decode'),
    ])
  })
  afterEach(async () => {
    for (const each of [p0, p1, d0, d1])
      if (each.process.exitCode === null && !each.process.killed) await each.mode('ok')
  })
  after(() => {
    for (const child of children) child.kill('SIGKILL')
  })

  for (const protocol of ['sglang', 'vllm'] as const) {
    describe(protocol, () => {
      it('serves both legs, plain and streamed, and leaves nothing on either engine', async () => {
        const { scheduler, client } = front([p0, p1, d0, d1], protocol)
        const answers = await Promise.all([
          ...Array.from({ length: 12 }, () => streamed(client)),
          client.chat.completions.create(ask()).then(({ choices }) => choices[0]!.message.content),
        ])
        for (const text of answers) assert.equal(text, 'w '.repeat(10))
        await until(
          async () =>
            (await Promise.all([p0, p1, d0, d1].map((l) => l.counts()))).every(({ kv }) => kv === 0),
          3_000,
          'KV is left',
        )
        const [a, b] = [await p0.counts(), await p1.counts()]
        assert.ok(a.prefills! >= 4 && b.prefills! >= 4, `${a.prefills} ${b.prefills}`)
        await sleep(20)
        assertEmpty(scheduler)
        await scheduler.close()
      })

      for (const [broken, how] of [
        ['prefill', '500'],
        ['prefill', 'reset'],
        ['decode', '500'],
        ['decode', 'reset'],
      ] as const) {
        it(`story 8: half a pair dies (${broken} ${how}): the other half is aborted at once, both are free, another pair serves`, async () => {
          const victim = broken === 'prefill' ? p0 : d0
          await victim.mode(how)
          const { scheduler, client } = front([p0, p1, d0, d1], protocol, {
            policy: { order: 'fcfs', placement: 'least-loaded' },
          })
          const aborted = (await (broken === 'prefill' ? d0 : p0).counts()).aborted!
          assert.equal(await streamed(client), 'w '.repeat(10))
          if (protocol === 'sglang') {
            // The other half waited for a peer that never came; in the real engine for half an hour.
            const took = await until(
              async () => (await (broken === 'prefill' ? d0 : p0).counts()).aborted! > aborted,
              100,
              'the sibling was not aborted',
            )
            assert.ok(took < 100)
          }
          await until(
            async () =>
              (await Promise.all([p0, p1, d0, d1].map((l) => l.counts()))).every(({ kv }) => kv === 0),
            3_000,
            'KV is left',
          )
          await sleep(20)
          const { instances } = scheduler.snapshot()
          for (const { reservedKv, leased } of instances) assert.deepEqual([reservedKv, leased], [0, 0])
          const faults = scheduler.metrics().find(({ name }) => name === 'laxity_outcomes_total')!
          assert.ok('values' in faults && faults.values.some(({ labels }) => labels.outcome === 'fault'))
          await scheduler.close()
        })
      }

      it('story 8b: both halves reserved, one stalls, the client leaves: everything is released within 100 ms', async () => {
        await d0.mode('stall')
        const { scheduler, client } = front([p0, d0], protocol)
        const leave = new AbortController()
        const request = client.chat.completions.create(ask({ stream: true }), { signal: leave.signal })
        await until(async () => (await d0.counts()).running === 1, 2_000, 'D was not asked')
        assert.ok(scheduler.snapshot().instances.every(({ leased }) => leased === 1) || protocol === 'vllm')
        leave.abort()
        await assert.rejects(Promise.resolve(request))
        await until(
          async () => (await d0.counts()).running === 0 && (await p0.counts()).running === 0,
          100,
          'not aborted',
        )
        await sleep(10)
        assertEmpty(scheduler)
        await scheduler.close()
      })

      it('tells each engine its rank and its priority, in its own polarity and field', async () => {
        const { scheduler, client, sent, ranks } = front([p0, d0], protocol, {
          each: (role) =>
            role === 'prefill'
              ? { rank: 3, ranks: 8, priority: { sign: -1 } }
              : { rank: 1, priority: { sign: 1, field: 'nvext.agent_hints.priority' } },
        })
        for (let i = 0; i < 8; i += 1) assert.equal(await streamed(client), 'w '.repeat(10))
        for (const [i, text] of sent.entries()) {
          const body = JSON.parse(text)
          if (ranks[i] === '3') {
            assert.ok(Number.isInteger(body.priority) && body.nvext === undefined)
          } else {
            assert.equal(ranks[i], '1')
            assert.equal(body.priority, undefined)
            assert.ok(Number.isInteger(body.nvext.agent_hints.priority))
          }
          const room = /"bootstrap_room":(\d+)/.exec(text)?.[1]
          assert.equal(
            room === undefined ? undefined : BigInt(room) % 8n,
            protocol === 'sglang' ? 3n : undefined,
          )
        }
        assert.equal(sent.length, 16)
        assert.deepEqual((await p0.counts()).negative, 0)
        await scheduler.close()
      })

      it('story 13: never again after the first byte: the client sees the failure', async () => {
        await d0.mode('cut')
        const { scheduler, client } = front([p0, d0], protocol)
        const before = (await p0.counts()).prefills!
        await assert.rejects(streamed(client))
        assert.equal((await p0.counts()).prefills, before + 1)
        await sleep(20)
        assertEmpty(scheduler)
        await scheduler.close()
      })

      it('story 16: clients that leave in any state leave no KV and no lease', async () => {
        const { scheduler, client } = front([p0, p1, d0, d1], protocol)
        await Promise.all(
          Array.from({ length: 40 }, async (_, i) => {
            const leave = new AbortController()
            setTimeout(() => leave.abort(), i * 3)
            try {
              for await (const _part of await client.chat.completions.create(
                { ...ask(), stream: true },
                {
                  signal: leave.signal,
                },
              ));
            } catch {}
          }),
        )
        await until(() => scheduler.snapshot().activeCalls === 0, 2_000, 'calls are left')
        await sleep(20)
        assertEmpty(scheduler)
        const engines = [p0, p1, d0, d1]
        await until(
          async () => (await Promise.all(engines.map((l) => l.counts()))).every(({ kv }) => kv === 0),
          4_000,
          'KV is left',
        )
        await scheduler.close()
      })

      it('story 22: a decode instance that is full is not asked: no call waits there, none hangs', async () => {
        const [p, d] = await Promise.all([
          leg('prefill', { prefillMs: 2 }),
          leg('decode', { kvTokens: 700, tokenMs: 3 }),
        ])
        const { scheduler, client } = front([p, d], protocol, { dKv: 650 })
        // Room for three of 211 + 10 tokens; 30 at once.
        const answers = await Promise.all(Array.from({ length: 30 }, () => streamed(client)))
        for (const text of answers) assert.equal(text, 'w '.repeat(10))
        const { kvPeak, queued } = await d.counts()
        assert.ok(kvPeak! > 210 && kvPeak! <= 700, `${kvPeak}`)
        assert.equal(queued, 0)
        await sleep(20)
        assertEmpty(scheduler)
        await scheduler.close()
      })

      it('goes on when an engine of either role is killed', async () => {
        const [p, d] = await Promise.all([leg('prefill'), leg('decode')])
        const { scheduler, client } = front([p, p1, d, d1], protocol)
        const running = Array.from({ length: 10 }, () =>
          client.chat.completions.create(ask()).then(
            () => 'served',
            () => 'failed',
          ),
        )
        await sleep(15)
        p.process.kill('SIGKILL')
        d.process.kill('SIGKILL')
        scheduler.failInstance('p0')
        scheduler.failInstance('d0')
        const ends = await Promise.all(running)
        assert.deepEqual(new Set(ends), new Set(['served']))
        await sleep(20)
        assertEmpty(scheduler)
        await scheduler.close()
      })
    })
  }

  it('story 9: KV that waited half its lease for room to decode is never fetched: the prompt is computed again', async () => {
    const [p, d] = await Promise.all([leg('prefill', { kvLeaseMs: 400 }), leg('decode', { tokenMs: 40 })])
    const { scheduler, client } = front([p, d], 'vllm', { dKv: 300, pairs: { kvLeaseMs: 400 } })
    // The first one decodes for 600 ms; the second's KV would be gone after 400.
    const answers = await Promise.all(Array.from({ length: 2 }, () => streamed(client, { max_tokens: 15 })))
    for (const text of answers) assert.equal(text, 'w '.repeat(15))
    const { wrong } = await d.counts()
    assert.equal(wrong, 0)
    const { prefills } = await p.counts()
    assert.ok(prefills! >= 3, `${prefills}`)
    const expired = scheduler.metrics().find(({ name }) => name === 'laxity_kv_lease_expired_total')!
    assert.ok('values' in expired && expired.values[0]!.value >= 1)
    await sleep(20)
    assertEmpty(scheduler)
    await scheduler.close()
    // The same without the bound shows that the engine would have answered wrongly, with 200.
    const careless = front([p, d], 'vllm', { dKv: 300, pairs: { kvLeaseMs: 0 } })
    const wrongly = await Promise.all(
      Array.from({ length: 2 }, () => streamed(careless.client, { max_tokens: 15 })),
    )
    assert.ok(wrongly.some((text) => text.startsWith('WRONG')))
    await careless.scheduler.close()
  })

  it('story 14: rooms are new for each attempt: a million are unique, 63 bits, never negative', async () => {
    const rooms = new Set<bigint>()
    const LIMIT = 2n ** 63n
    let most = 0n
    let outside = 0
    for (let i = 0; i < 1_000_000; i += 1) {
      const room = newRoom()
      if (room < 0n || room >= LIMIT) outside += 1
      if (room > most) most = room
      rooms.add(room)
    }
    assert.equal(rooms.size, 1_000_000)
    assert.equal(outside, 0)
    assert.ok(most > 2n ** 53n) // so they must not pass through a JavaScript number
    for (let i = 0; i < 10_000; i += 1) {
      const ranks = 1 + (i % 64)
      const room = newRoom(i % ranks, ranks)
      assert.ok(room >= 0n && room < LIMIT && room % BigInt(ranks) === BigInt(i % ranks))
    }
    // Over retries: d0 fails, both legs get another room each time.
    await d0.mode('500')
    const { scheduler, client, sent } = front([p0, d0], 'sglang', { parameters: { breakerFaults: 0 } })
    for (let i = 0; i < 5; i += 1) await assert.rejects(client.chat.completions.create(ask()))
    const asked = sent.map((body) => /"bootstrap_room":(\d+)/.exec(body)![1])
    assert.ok(asked.length >= 20, `${asked.length}`)
    assert.equal(new Set(asked).size, asked.length / 2)
    const { duplicates, negative } = await p0.counts()
    assert.deepEqual([duplicates, negative], [0, 0])
    await scheduler.close()
  })

  it('story 15: is not ready without a decode instance, and serves the first call after an idle while', async () => {
    const { clock, scheduler } = virtual({ cluster: pairCluster(1, 1) })
    scheduler.failInstance('d0')
    assert.equal(scheduler.ready(), false)
    scheduler.restoreInstance('d0')
    assert.equal(scheduler.ready(), true)
    await clock.advance(600_000)
    const lease = await scheduler.workflow().call({ promptTokens: 100, outputTokens: 10 })
    assert.equal(await lease.admitted(), 'd0')
    lease.done()
    await scheduler.close()
  })

  it('story 4, story 5: bursts spread over both roles, whatever has answered', async () => {
    for (const policy of ['laxity', { order: 'fcfs', placement: 'least-loaded' }] as const) {
      const { clock, scheduler } = virtual({
        policy,
        cluster: pairCluster(4, 4, {
          p: { kvTokens: 1_000_000, maxSequences: 64 },
          d: {
            kvTokens: 1_000_000,
            maxSequences: 64,
            latency: { ...LATENCY, decodePerSequenceMs: 1 },
          },
        }),
        lookahead: 50,
      })
      const count = new Map<string, number>()
      for (let i = 0; i < 100; i += 1)
        void scheduler
          .workflow()
          .call({ promptTokens: 1_000, outputTokens: 10 })
          .then(({ prefill, decode }) => {
            for (const id of [prefill, decode]) count.set(id, (count.get(id) ?? 0) + 1)
          })
      await clock.advance(0)
      assert.equal(
        [...count.values()].reduce((a, b) => a + b),
        200,
      )
      for (const id of ['p0', 'p1', 'p2', 'p3'])
        assert.ok(Math.abs(count.get(id)! - 25) <= 1, `${id}: ${count.get(id)}`)
      for (const id of ['d0', 'd1', 'd2', 'd3'])
        assert.ok((count.get(id) ?? 0) <= 50, `${id}: ${count.get(id)}`)
      await scheduler.close()
    }
  })
})
