import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { schedulingFetch } from '../../lib/adapters/fetch.ts'
import { createHandler, type HandlerOptions } from '../../lib/adapters/handler.ts'
import { schedulingMiddleware } from '../../lib/adapters/node.ts'
import type { SchedulerOptions } from '../../lib/scheduler/options.ts'
import type { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty, code, instances, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

type Engine = (url: URL, body: Record<string, unknown>, init: RequestInit) => Response | Promise<Response>

const fetchOf = (engine: Engine): typeof fetch =>
  (async (input: string | URL, init: RequestInit = {}) => {
    const text =
      init.body instanceof Uint8Array ? new TextDecoder().decode(init.body) : String(init.body ?? '{}')
    return engine(new URL(input), JSON.parse(text), init)
  }) as typeof fetch

const post = (body: object = { messages: [], stream: true }) =>
  new Request('http://scheduler/v1/chat/completions', { method: 'POST', body: JSON.stringify(body) })

const events = (parts: readonly string[]) =>
  new Response(parts.map((part) => `data: ${part}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  })

const error = async (response: Response) => {
  const { error: told } = (await response.json()) as { error: { type: string; message: string } }
  return [response.status, told.type, told.message] as const
}

function outcome(scheduler: Scheduler, name: string): number | undefined {
  const metric = scheduler.metrics().find((one) => one.name === 'laxity_outcomes_total')!
  assert.ok('values' in metric)
  return metric.values.find(({ labels }) => labels.outcome === name)?.value
}

/** Engines that are functions, so that what they answer, and when, is the test's. */
describe('the handler', () => {
  const start = (options: Partial<SchedulerOptions> = {}) =>
    virtual({
      cluster: instances(1, { url: 'http://engine:1' }),
      ...options,
      parameters: { faultPenaltyMs: 0, breakerFaults: 0, retryBudget: 0 },
    })
  const pairs = () =>
    start({
      cluster: pairCluster(1, 1).map((one) => ({ ...one, url: `http://${one.id}:1` })),
    })

  it('names the option that is wrong', async () => {
    const { scheduler } = start()
    const paired = pairs().scheduler
    for (const [made, options, place, message] of [
      [{}, {}, 'scheduler', /Expected a Scheduler/],
      [scheduler, null, 'options', /Expected an object/],
      [scheduler, { protocol: 'nixl' }, 'protocol', /Expected "sglang" or "vllm"/],
      [scheduler, { protocol: 'vllm' }, 'protocol', /is for prefill-decode clusters/],
      [paired, {}, 'protocol', /needs `protocol`/],
      [scheduler, { affinity: 'sticky' }, 'affinity', /affinity/],
    ] as const)
      assert.throws(() => createHandler(made as Scheduler, options as HandlerOptions), {
        code: 'ERR_LAXITY_OPTION',
        place,
        message,
      })
    await scheduler.close()
    await paired.close()
  })

  it('says that instances failed when none is left to try, and ends its workflow', async () => {
    for (const [answer, type, message] of [
      [() => events(['{"error":{"message":"no memory"}}']), 'upstream_error', /an error event/],
      [
        () => Promise.reject(new TypeError('refused')),
        'upstream_unreachable',
        /could not be reached: refused/,
      ],
    ] as const) {
      const { scheduler } = start()
      let asked = 0
      const handle = createHandler(scheduler, {
        fetch: fetchOf(() => {
          asked += 1
          return answer()
        }),
      })
      const [status, told, text] = await error(await handle(post()))
      assert.deepEqual([status, told], [502, type])
      assert.match(text, message)
      assert.ok(asked > 1, 'it was tried again')
      assert.equal(outcome(scheduler, 'fault'), asked)
      assertEmpty(scheduler)
      assert.equal(scheduler.snapshot().workflows, 0)
      await scheduler.close()
    }
  })

  it('counts a stream that ends without a reason as failed, and passes on what came', async () => {
    const { scheduler } = start()
    const parts = ['{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}']
    const handle = createHandler(scheduler, { fetch: fetchOf(() => events(parts)) })
    const response = await handle(post())
    assert.equal(await response.text(), `data: ${parts[0]}\n\n`)
    assert.deepEqual([outcome(scheduler, 'fault'), outcome(scheduler, 'ok') ?? 0], [1, 0])
    assertEmpty(scheduler)
    await scheduler.close()
  })

  it('passes on lines that look like events and are none', async () => {
    const { scheduler } = start()
    const parts = [
      '{"usage": broken',
      '{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}',
      '[DONE]',
    ]
    const handle = createHandler(scheduler, { fetch: fetchOf(() => events(parts)) })
    assert.equal(await (await handle(post())).text(), parts.map((part) => `data: ${part}\n\n`).join(''))
    assert.equal(outcome(scheduler, 'ok'), 1)
    await scheduler.close()
  })

  it('tells that a lease lives while its engine says anything', async () => {
    const { clock, scheduler } = start({ leaseTtlMs: 10_000 })
    const engine = new TransformStream<Uint8Array, Uint8Array>()
    const writer = engine.writable.getWriter()
    const handle = createHandler(scheduler, {
      fetch: fetchOf(
        () => new Response(engine.readable, { headers: { 'content-type': 'text/event-stream' } }),
      ),
    })
    const say = (text: string) => writer.write(new TextEncoder().encode(text))
    const now = performance.now
    try {
      void say(': waiting\n\n')
      const reader = (await handle(post())).body!.getReader()
      let later = 0
      performance.now = () => now.call(performance) + later
      for (let i = 0; i < 4; i += 1) {
        later += 6_000
        await clock.advance(6_000)
        void say(': waiting\n\n')
        await reader.read()
      }
      assert.equal(scheduler.snapshot().instances[0]!.leased, 1)
      // Without a sign it is lost.
      await clock.advance(11_000)
      assert.equal(scheduler.snapshot().instances[0]!.leased, 0)
    } finally {
      performance.now = now
    }
    await scheduler.close()
  })

  it('refuses what two legs cannot serve', async () => {
    const { scheduler } = pairs()
    const handle = createHandler(scheduler, {
      protocol: 'vllm',
      fetch: fetchOf(() => assert.fail('it was sent')),
    })
    for (const field of ['prompt_logprobs', 'return_logprob']) {
      const [status, type, message] = await error(await handle(post({ messages: [], [field]: 1 })))
      assert.deepEqual([status, type], [400, 'invalid_request_error'])
      assert.match(message, new RegExp(`\`${field}\` needs the answers of both legs`))
    }
    await scheduler.close()
  })

  it('does not decode where the prefill instance kept nothing', async () => {
    for (const answer of [{ choices: [] }, { choices: [], kv_transfer_params: null }]) {
      const { scheduler } = pairs()
      const asked = new Set<string>()
      const handle = createHandler(scheduler, {
        protocol: 'vllm',
        fetch: fetchOf(({ hostname }) => {
          asked.add(hostname)
          return Response.json(answer)
        }),
      })
      const [status, type] = await error(await handle(post()))
      assert.deepEqual([status, type], [502, 'upstream_unreachable'])
      assert.deepEqual([...asked], ['p0'], 'KV that is nowhere was sent for')
      assertEmpty(scheduler)
      await scheduler.close()
    }
  })

  it('as a fetch lets other requests pass', async () => {
    const { scheduler } = start()
    const asked: string[] = []
    const own = schedulingFetch(scheduler, {
      fetch: (async (input: Request) => {
        asked.push(`${input.method} ${input.url}`)
        return new Response('passed')
      }) as typeof fetch,
    })
    assert.equal(await (await own('http://elsewhere/v1/models')).text(), 'passed')
    assert.equal(
      await (await own('http://elsewhere/v1/embeddings', { method: 'POST', body: '{}' })).text(),
      'passed',
    )
    assert.deepEqual(asked, ['GET http://elsewhere/v1/models', 'POST http://elsewhere/v1/embeddings'])
    assert.equal(scheduler.snapshot().leasesGranted, 0)
    await scheduler.close()
  })
})

describe('the middleware of node:http', () => {
  /** A server over engines that are functions; `send` gives the client's request. */
  async function serving(
    engine: Engine,
    work: (url: URL, scheduler: Scheduler) => Promise<void>,
    paired = false,
  ) {
    const cluster = paired
      ? pairCluster(1, 1).map((one) => ({ ...one, url: `http://${one.id}:1` }))
      : instances(1, { url: 'http://engine:1' })
    const { scheduler } = virtual({
      cluster,
      parameters: { faultPenaltyMs: 0, breakerFaults: 0, retryBudget: 0 },
    })
    const server = createServer(
      schedulingMiddleware(scheduler, {
        fetch: fetchOf(engine),
        ...(paired && { protocol: 'vllm' as const }),
      }),
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const { port } = server.address() as AddressInfo
      await work(new URL(`http://127.0.0.1:${port}/v1/chat/completions`), scheduler)
    } finally {
      server.closeAllConnections()
      server.close()
      await scheduler.close()
    }
    assertEmpty(scheduler)
  }

  it('waits for a client that reads slowly, and loses no byte', async () => {
    const chunk = `data: {"choices":[{"delta":{"content":"${'x'.repeat(60_000)}"},"finish_reason":null}]}\n\n`
    const last = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    const chunks = 200
    let produced = 0
    const engine = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            if (produced === chunks) {
              controller.enqueue(new TextEncoder().encode(last))
              controller.close()
              return
            }
            produced += 1
            controller.enqueue(new TextEncoder().encode(chunk))
          },
        }),
        { headers: { 'content-type': 'text/event-stream' } },
      )
    await serving(engine, async (url, scheduler) => {
      const asked = request(url, { method: 'POST' })
      asked.end('{"messages":[],"stream":true}')
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      // Nobody reads: the engine is not asked for all of it.
      for (let seen = -1; seen !== produced; ) {
        seen = produced
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      assert.ok(produced < chunks, `${produced} chunks were taken in`)
      let bytes = 0
      for await (const part of answer) bytes += (part as Buffer).length
      assert.equal(bytes, chunks * chunk.length + last.length)
      assert.equal(outcome(scheduler, 'ok'), 1)
    })
  })

  it('lets go of the engine where the client is gone before it answers', async () => {
    let stopped = false
    const engine: Engine = (_, __, { signal }) =>
      new Promise((_resolve, reject) => {
        signal!.addEventListener('abort', () => {
          stopped = true
          reject(signal!.reason)
        })
      })
    await serving(engine, async (url, scheduler) => {
      const asked = request(url, { method: 'POST' })
      asked.on('error', () => {})
      asked.end('{"messages":[]}')
      while (scheduler.snapshot().leasesGranted === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      asked.destroy()
      while (!stopped || scheduler.snapshot().activeCalls > 0)
        await new Promise((resolve) => setTimeout(resolve, 5))
      assert.equal(outcome(scheduler, 'cancelled'), 1)
    })
  })

  it('answers without a body where an engine’s refusal broke off', async () => {
    const broken = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            controller.error(new Error('cut'))
          },
        }),
        { status: 500 },
      )
    await serving(
      broken,
      async (url) => {
        const answer = await fetch(url, { method: 'POST', body: '{"messages":[]}' })
        assert.deepEqual([answer.status, await answer.text()], [500, ''])
      },
      true,
    )
  })

  it('answers everything where nothing comes after it', async () => {
    await serving(
      () => assert.fail('it was sent'),
      async (url) => {
        const asked = get(url)
        const [answer] = (await once(asked, 'response')) as [IncomingMessage]
        assert.equal(answer.statusCode, 400)
        answer.resume()
        assert.equal(await code(once(answer, 'end')), undefined)
      },
    )
  })
})
