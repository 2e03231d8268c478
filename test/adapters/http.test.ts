import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import OpenAI from 'openai'
import { Agent, fetch as undiciFetch } from 'undici'
import { schedulingRoute } from '../../lib/adapters/fastify.ts'
import { schedulingFetch } from '../../lib/adapters/fetch.ts'
import type { HandlerOptions } from '../../lib/adapters/handler.ts'
import { schedulingHandler } from '../../lib/adapters/hono.ts'
import { schedulingMiddleware } from '../../lib/adapters/node.ts'
import { schedulingInterceptor } from '../../lib/adapters/undici.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { type Engine, engine } from '../support/engines.ts'
import { assertEmpty } from '../support/live.ts'

/** One front of each kind: what a client must be given to talk through it. */
type Front = (
  scheduler: Scheduler,
  options?: HandlerOptions,
) => Promise<{ client: OpenAI; url?: string; close(): void }>

const FRONTS: Record<string, Front> = {
  fetch: async (scheduler, options) => ({
    client: new OpenAI({
      apiKey: 'k',
      baseURL: 'http://scheduler/v1',
      maxRetries: 0,
      fetch: schedulingFetch(scheduler, options),
    }),
    close: () => {},
  }),
  undici: async (scheduler, options) => {
    const agent = new Agent()
    const dispatcher = agent.compose(schedulingInterceptor(scheduler, options))
    return {
      client: new OpenAI({
        apiKey: 'k',
        baseURL: 'http://scheduler/v1',
        maxRetries: 0,
        fetch: ((input: string, init?: object) => undiciFetch(input, { ...init, dispatcher })) as never,
      }),
      close: () => void agent.destroy(),
    }
  },
  "undici behind Node's fetch": async (scheduler, options) => {
    const agent = new Agent()
    const dispatcher = agent.compose(schedulingInterceptor(scheduler, options))
    return {
      client: new OpenAI({
        apiKey: 'k',
        baseURL: 'http://scheduler/v1',
        maxRetries: 0,
        fetchOptions: { dispatcher } as never,
      }),
      close: () => void agent.destroy(),
    }
  },
  hono: async (scheduler, options) => {
    const app = new Hono()
    app.post('/v1/chat/completions', schedulingHandler(scheduler, options))
    const server = await new Promise<Server>((resolve) => {
      const made = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(made as Server))
    })
    return through(server)
  },
  express: async (scheduler, options) => {
    const app = express()
    app.get('/alive', (_, res) => void res.send('yes'))
    app.use(schedulingMiddleware(scheduler, options))
    app.use((_, res) => void res.status(418).send('passed by'))
    return through(await listen(createServer(app)))
  },
  'express behind a body parser': async (scheduler, options) => {
    const app = express()
    app.use(express.json())
    app.use(schedulingMiddleware(scheduler, options))
    return through(await listen(createServer(app)))
  },
  fastify: async (scheduler, options) => {
    const app = Fastify()
    app.register(
      async (api) => {
        api.post('/chat/completions', schedulingRoute(scheduler, options))
      },
      { prefix: '/v1' },
    )
    await app.listen({ port: 0, host: '127.0.0.1' })
    return through(app.server)
  },
  'node:http': async (scheduler, options) =>
    through(await listen(createServer(schedulingMiddleware(scheduler, options)))),
}

function listen(server: Server): Promise<Server> {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

function through(server: Server) {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    client: new OpenAI({ apiKey: 'k', baseURL: `${url}/v1`, maxRetries: 0 }),
    url,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const ask = (more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user' as const, content: 'hello '.repeat(40) }],
  max_tokens: 5,
  ...more,
})

describe('adapters over real HTTP, engines in other processes', function () {
  this.timeout(60_000)
  let engines: Engine[] = []
  before(async () => {
    engines = await Promise.all([engine(5, 2), engine(5, 2)])
  })
  after(() => {
    for (const { process } of engines) process.kill('SIGKILL')
  })

  for (const [name, front] of Object.entries(FRONTS)) {
    describe(name, () => {
      let scheduler: Scheduler
      let it_: Awaited<ReturnType<Front>>
      beforeEach(async () => {
        for (const one of engines) await one.mode('ok')
        scheduler = new Scheduler({
          cluster: engines.map(({ url }, i) => ({ id: `e${i}`, url, model: 'm', maxSequences: 4 })),
          parameters: { faultPenaltyMs: 0, breakerFaults: 0, retryBudget: 0 },
        })
        it_ = await front(scheduler, { expose: true })
      })
      afterEach(async () => {
        it_.close()
        await scheduler.close()
      })

      it('relays answers, plain and streamed, and counts their tokens', async () => {
        const plain = await it_.client.chat.completions.create(ask())
        assert.equal(plain.choices[0]!.message.content, 'word '.repeat(5))
        let text = ''
        let usage: number | undefined
        const stream = await it_.client.chat.completions.create(
          ask({
            stream: true,
            stream_options: { include_usage: true },
          }) as OpenAI.ChatCompletionCreateParamsStreaming,
        )
        for await (const part of stream) {
          text += part.choices[0]?.delta.content ?? ''
          usage = part.usage?.completion_tokens ?? usage
        }
        assert.equal(text, 'w0 w1 w2 w3 w4 ')
        assert.equal(usage, 5)
        await settled(scheduler)
        const stage = scheduler.lengths('default')
        assert.deepEqual([stage.observations, stage.mean], [2, 5])
        assertEmpty(scheduler)
      })

      it('story 3: spreads a burst over all instances: no path goes uncounted', async () => {
        const before = await Promise.all(engines.map((one) => one.counts()))
        // Nothing is answered before all are there: however slowly they come in, they overlap.
        for (const one of engines) await one.mode('hold')
        const answers = Promise.all(
          Array.from({ length: 16 }, (_, i) => it_.client.chat.completions.create(ask({ seed: i }))),
        )
        // At most four run and one looks ahead, so sixteen that overlap need both.
        const running = async () =>
          (await Promise.all(engines.map((one) => one.counts()))).map((c) => c.running)
        await until(
          async () => scheduler.snapshot().activeCalls === 16 && Math.min(...(await running())) >= 4,
        )
        for (const one of engines) await one.mode('ok')
        await answers
        const after = await Promise.all(engines.map((one) => one.counts()))
        const served = after.map((counts, i) => counts.served - before[i]!.served)
        assert.equal(served[0]! + served[1]!, 16)
        assert.ok(Math.min(...served) >= 4, `${served}`)
        assertEmpty(scheduler)
      })

      it('tries elsewhere before the first byte: refusals, resets, an error event first', async () => {
        for (const mode of ['503', 'reset', 'error-first']) {
          await engines[0]!.mode(mode)
          const answers = await Promise.all(
            Array.from({ length: 6 }, async () => {
              let text = ''
              for await (const part of await it_.client.chat.completions.create({ ...ask(), stream: true }))
                text += part.choices[0]?.delta.content ?? ''
              return text
            }),
          )
          assert.deepEqual(new Set(answers), new Set(['w0 w1 w2 w3 w4 ']), mode)
          await engines[0]!.mode('ok')
          await settled(scheduler)
        }
        assertEmpty(scheduler)
      })

      it('story 13: never retries after the first byte: the client sees the failure', async () => {
        for (const mode of ['cut', 'error-late']) {
          for (const one of engines) await one.mode(mode)
          const before = await Promise.all(engines.map((one) => one.counts()))
          await assert.rejects(async () => {
            for await (const _ of await it_.client.chat.completions.create({ ...ask(), stream: true }));
          })
          await settled(scheduler)
          const after = await Promise.all(engines.map((one) => one.counts()))
          assert.ok(after.every(({ most }, i) => most >= before[i]!.most))
          assertEmpty(scheduler)
        }
      })

      it('passes on what the client did wrong, once', async () => {
        for (const one of engines) await one.mode('400')
        await assert.rejects(it_.client.chat.completions.create(ask()), { status: 400 })
        await assert.rejects(it_.client.chat.completions.create(ask({ model: 'nobody' })), { status: 404 })
        assertEmpty(scheduler)
      })

      it('story 16: releases the lease and the engine when a client leaves', async () => {
        for (const one of engines) await one.mode('stall')
        const before = await Promise.all(engines.map((one) => one.counts()))
        const abort = new AbortController()
        const stream = await it_.client.chat.completions.create(
          { ...ask(), stream: true },
          { signal: abort.signal },
        )
        let seen = 0
        try {
          for await (const part of stream) {
            if ((part.choices[0]?.delta.content ?? '') !== '') seen += 1
            if (seen === 2) abort.abort()
          }
        } catch {}
        await settled(scheduler)
        assertEmpty(scheduler)
        for (let i = 0; i < 100; i += 1) {
          const after = await Promise.all(engines.map((one) => one.counts()))
          if (
            after.reduce((n, { aborted }) => n + aborted, 0) >
            before.reduce((n, { aborted }) => n + aborted, 0)
          )
            return
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
        assert.fail('the engine still runs')
      })
    })
  }

  it('lets everything else pass: Express', async () => {
    const scheduler = new Scheduler({ cluster: engines.map(({ url }) => ({ url })) })
    const front = await FRONTS.express!(scheduler)
    assert.equal(await (await fetch(`${front.url}/alive`)).text(), 'yes')
    assert.equal((await fetch(`${front.url}/v1/models`)).status, 418)
    front.close()
    await scheduler.close()
  })

  it('answers 429 with Retry-After where queues are full, and 400 to what is no JSON', async () => {
    const scheduler = new Scheduler({
      cluster: [{ url: engines[0]!.url, maxSequences: 1 }],
      lookahead: 0,
      queueLimit: 1,
    })
    const front = await FRONTS.hono!(scheduler)
    await engines[0]!.mode('ok')
    const answers = await Promise.all(
      Array.from({ length: 5 }, () =>
        fetch(`${front.url}/v1/chat/completions`, {
          method: 'POST',
          body: JSON.stringify(ask({ max_tokens: 50 })),
        }),
      ),
    )
    const refused = answers.filter(({ status }) => status === 429)
    assert.equal(refused.length, 3)
    assert.ok(Number(refused[0]!.headers.get('retry-after')) >= 1)
    const { error } = (await refused[0]!.json()) as { error: { code: string } }
    assert.equal(error.code, 'ERR_LAXITY_QUEUE_FULL')
    assert.equal(
      (await fetch(`${front.url}/v1/chat/completions`, { method: 'POST', body: 'no' })).status,
      400,
    )
    await settled(scheduler)
    front.close()
    await scheduler.close()
  })

  it('knows workflows by their headers, and ends them when told', async () => {
    const scheduler = new Scheduler({ cluster: engines.map(({ url }) => ({ url })) })
    const front = await FRONTS.hono!(scheduler)
    const headers = { 'x-session-id': 'chat-7', 'x-slo-ms': '60000' }
    await front.client.chat.completions.create(ask(), { headers })
    await front.client.chat.completions.create(ask(), { headers })
    assert.equal(scheduler.snapshot().workflows, 1)
    await front.client.chat.completions.create(ask(), {
      headers: { ...headers, 'x-dynamo-session-final': 'true' },
    })
    assert.equal(scheduler.snapshot().workflows, 0)
    front.close()
    await scheduler.close()
  })

  it('tells an engine its rank and its priority; two ranks of one URL are two instances', async () => {
    await engines[0]!.mode('ok')
    const { url } = engines[0]!
    const priority = { sign: 1, field: 'nvext.agent_hints.priority' } as const
    const scheduler = new Scheduler({
      cluster: [0, 1].map((rank) => ({ url, rank, priority })),
      policy: { order: 'fcfs', placement: 'round-robin' },
    })
    assert.deepEqual(
      scheduler.snapshot().instances.map(({ id }) => id),
      [`${url}#0`, `${url}#1`],
    )
    const ranks: (string | null)[] = []
    const front = await FRONTS['node:http']!(scheduler, {
      fetch: (input, init) => {
        ranks.push(new Headers(init?.headers).get('x-data-parallel-rank'))
        const body = JSON.parse(new TextDecoder().decode(init?.body as Uint8Array))
        assert.ok(Number.isInteger(body.nvext.agent_hints.priority))
        assert.equal(body.nvext.agent_hints.osl, 7)
        assert.equal(body.priority, undefined)
        return fetch(input, init)
      },
    })
    for (let i = 0; i < 4; i += 1)
      await front.client.chat.completions.create(ask({ nvext: { agent_hints: { osl: 7 } } }) as never)
    assert.deepEqual(ranks, ['0', '1', '0', '1'])
    front.close()
    await scheduler.close()
  })

  it('prefers the instance that has the prefix of a conversation, as far as that is worth it', async () => {
    for (const one of engines) await one.mode('ok')
    for (const affinity of [true, false]) {
      const scheduler = new Scheduler({
        cluster: engines.map(({ url }, i) => ({
          id: `e${i}`,
          url,
          // A second of prefill for what a turn of a conversation shares with the one before.
          latency: { kind: 'constants', prefillPerTokenMs: 1, decodeBaseMs: 1 },
          kvTokens: 100_000,
          maxSequences: 64,
        })),
        policy: { order: 'fcfs', placement: 'eft' },
        receipts: true,
      })
      const front = await FRONTS['node:http']!(scheduler, { affinity, expose: true })
      const headers = (name: string) => ({ headers: { 'x-session-id': name } })
      const turn = async (name: string, turns: number) => {
        const messages = Array.from({ length: turns }, (_, i) => ({
          role: 'user' as const,
          content: `${name} ${i} ${'history '.repeat(500)}`,
        }))
        const { response } = await front.client.chat.completions
          .create(ask({ messages, max_tokens: 2 }), headers(name))
          .withResponse()
        return response.headers.get('x-laxity-instance')
      }
      // Two conversations, each on an instance of its own as long as both wait for their turn at once.
      const [a, b] = await Promise.all([turn('a', 1), turn('b', 1)])
      assert.notEqual(a, b)
      const seen: (string | null)[][] = [[], []]
      for (let turns = 2; turns < 7; turns += 1) {
        // The other one first, every second time: without a memory of prefixes it would take the first instance.
        for (const i of turns % 2 === 0 ? [1, 0] : [0, 1])
          seen[i]!.push(await turn(i === 0 ? 'a' : 'b', turns))
      }
      const stayed = seen.every((list, i) => list.every((one) => one === [a, b][i]))
      assert.equal(stayed, affinity)
      front.close()
      await scheduler.close()
    }
  })

  it('goes on when an engine is killed', async () => {
    const extra = await engine(5, 5)
    const scheduler = new Scheduler({ cluster: [{ url: extra.url }, { url: engines[0]!.url }] })
    await engines[0]!.mode('ok')
    const front = await FRONTS.fetch!(scheduler)
    const calls = Array.from({ length: 10 }, async (_, i) => {
      await new Promise((resolve) => setTimeout(resolve, i * 5))
      return front.client.chat.completions.create(ask())
    })
    setTimeout(() => extra.process.kill('SIGKILL'), 25)
    const answers = await Promise.all(calls)
    assert.equal(answers.length, 10)
    await settled(scheduler)
    await scheduler.close()
  })
})

/** Until it holds; half a minute at most. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 30_000
  while (!(await condition())) {
    assert.ok(performance.now() < deadline, 'it never comes to hold')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function settled(scheduler: Scheduler): Promise<void> {
  for (let i = 0; i < 250 && scheduler.snapshot().activeCalls > 0; i += 1)
    await new Promise((resolve) => setTimeout(resolve, 20))
}
