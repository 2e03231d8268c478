import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { Agent, request } from 'undici'
import type { HandlerOptions } from '../../lib/adapters/handler.ts'
import { schedulingInterceptor } from '../../lib/adapters/undici.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { type Engine, engine } from '../support/engines.ts'
import { assertEmpty } from '../support/live.ts'

const ORIGIN = 'http://scheduler'
const PATH = '/v1/chat/completions'
const body = (more: object = {}) => JSON.stringify({ model: 'm', messages: [], max_tokens: 4, ...more })

/** What a handler was told, in order. */
type Told = [what: string, detail?: unknown]

/** As undici 7 has them. Pauses at every chunk; `step` goes on. */
function modern(told: Told[], onChunk: (controller: Controller) => void = () => {}) {
  return {
    onRequestStart: (_: Controller) => void told.push(['start']),
    onResponseStart: (_: Controller, status: number, headers: Record<string, string | string[]>) =>
      void told.push(['headers', [status, headers['content-type']]]),
    onResponseData: (controller: Controller, chunk: Buffer) => {
      told.push(['data', chunk.toString()])
      onChunk(controller)
    },
    onResponseEnd: () => void told.push(['end']),
    onResponseError: (_: Controller, error: Error) => void told.push(['error', error.message]),
  }
}

interface Controller {
  paused: boolean
  aborted: boolean
  reason: Error | null
  pause(): void
  resume(): void
  abort(reason?: Error): void
}

describe("the interceptor for undici's dispatchers", function () {
  this.timeout(60_000)
  let backend: Engine
  let scheduler: Scheduler
  let agent: Agent
  before(async () => {
    backend = await engine(2, 2)
  })
  after(() => void backend.process.kill('SIGKILL'))
  beforeEach(async () => {
    await backend.mode('ok')
    scheduler = new Scheduler({ cluster: [{ id: 'e', url: backend.url }] })
    agent = new Agent()
  })
  afterEach(async () => {
    await scheduler.close()
    await agent.destroy()
  })
  const compose = (options?: HandlerOptions) => agent.compose(schedulingInterceptor(scheduler, options))
  const dispatch = (handler: object, more: object = {}) =>
    schedulingInterceptor(scheduler)(agent.dispatch.bind(agent))(
      { origin: ORIGIN, path: PATH, method: 'POST', body: body({ stream: true }), ...more },
      handler,
    )
  const until = async (condition: () => boolean) => {
    for (let i = 0; i < 1_000 && !condition(); i += 1) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.ok(condition(), 'it never comes to hold')
  }

  it('serves whatever form a body and its headers come in', async () => {
    const bodies = [
      body(),
      Buffer.from(body()),
      Readable.from([body().slice(0, 10), body().slice(10)]),
      (async function* () {
        yield Buffer.from(body())
      })(),
      new Blob([body()]),
    ]
    for (const one of bodies) {
      const answer = await request(ORIGIN + PATH, {
        dispatcher: compose({ expose: true }),
        method: 'POST',
        body: one as never,
      })
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['x-laxity-instance'], 'e')
      const { choices } = (await answer.body.json()) as { choices: { message: { content: string } }[] }
      assert.equal(choices[0]!.message.content, 'word '.repeat(4))
    }
    const seen: (string | null)[] = []
    const options: HandlerOptions = {
      fetch: async (input, init) => {
        seen.push(new Headers(init?.headers).get('x-one'), new Headers(init?.headers).get('x-two'))
        return fetch(input, init)
      },
    }
    for (const headers of [
      { 'x-one': '1', 'x-two': ['2', '3'] },
      ['x-one', '1', 'x-two', '2', 'x-two', '3'],
      new Map([
        ['x-one', '1'],
        ['x-two', '2, 3'],
      ]),
    ]) {
      const answer = await request(ORIGIN + PATH, {
        dispatcher: compose(options),
        method: 'POST',
        headers: headers as never,
        body: body(),
      })
      await answer.body.dump()
      assert.deepEqual(seen.splice(0), ['1', '2, 3'])
    }
    assertEmpty(scheduler)
  })

  it('lets everything else pass, untouched', async () => {
    const dispatcher = compose()
    const counts = await request(`${backend.url}/counts`, { dispatcher })
    assert.equal(counts.statusCode, 200)
    assert.ok('served' in ((await counts.body.json()) as object))
    assert.equal(scheduler.snapshot().leasesGranted, 0)
  })

  it('answers what cannot be served in the words of HTTP', async () => {
    const post = (text: string, options?: HandlerOptions) =>
      request(ORIGIN + PATH, { dispatcher: compose(options), method: 'POST', body: text })
    assert.equal((await post('no')).statusCode, 400)
    assert.equal((await post(body({ pad: 'x'.repeat(500) }), { maxBodyBytes: 400 })).statusCode, 413)
    const endless = Readable.from(
      (function* () {
        for (;;) yield 'x'.repeat(100)
      })(),
    )
    const tooLong = await request(ORIGIN + PATH, {
      dispatcher: compose({ maxBodyBytes: 1_000 }),
      method: 'POST',
      body: endless,
    })
    assert.equal(tooLong.statusCode, 413)
    assert.equal(scheduler.snapshot().activeCalls, 0)
  })

  it('speaks to handlers of undici 7, which may pause', async () => {
    const told: Told[] = []
    let paused: Controller | undefined
    const handler = modern(told, (controller) => {
      controller.pause()
      paused = controller
    })
    assert.equal(dispatch(handler), true)
    let steps = 0
    while (told.at(-1)![0] !== 'end') {
      await until(() => paused !== undefined || told.at(-1)![0] === 'end')
      if (paused === undefined) break
      const before = told.length
      await new Promise((resolve) => setTimeout(resolve, 20))
      assert.equal(told.length, before, 'nothing comes while it is paused')
      const controller = paused
      paused = undefined
      controller.resume()
      steps += 1
    }
    assert.ok(steps >= 1)
    assert.deepEqual(told.slice(0, 2), [['start'], ['headers', [200, 'text/event-stream']]])
    const text = told.flatMap(([what, detail]) => (what === 'data' ? [detail] : [])).join('')
    assert.match(text, /\[DONE\]/)
    assert.equal(told.filter(([what]) => what === 'end').length, 1)
    assertEmpty(scheduler)
  })

  it('story 16: an abort at any moment ends the lease, and is told once', async () => {
    for (const handler of ['modern', 'old']) {
      for (const moment of ['start', 'headers', 'data']) {
        await backend.mode(moment === 'data' ? 'stall' : 'ok')
        const told: Told[] = []
        const why = new Error('enough')
        let abort: (() => void) | undefined
        const on = (what: string, detail?: unknown) => {
          told.push([what, detail])
          if (what === moment) abort!()
        }
        const old = {
          onConnect: (stop: (reason?: Error) => void) => {
            abort = () => stop(why)
            on('start')
          },
          onHeaders: () => {
            on('headers')
            return true
          },
          onData: () => {
            on('data')
            return true
          },
          onComplete: () => on('end'),
          onError: (error: Error) => on('error', error),
        }
        const now = {
          onRequestStart: (controller: Controller) => {
            abort = () => controller.abort(why)
            on('start')
          },
          onResponseStart: () => on('headers'),
          onResponseData: () => on('data'),
          onResponseEnd: () => on('end'),
          onResponseError: (_: Controller, error: Error) => on('error', error),
        }
        dispatch(handler === 'old' ? old : now)
        await until(() => told.some(([what]) => what === 'error'))
        await until(() => scheduler.snapshot().activeCalls === 0)
        await new Promise((resolve) => setTimeout(resolve, 20))
        assert.deepEqual(told.at(-1), ['error', why], `${handler} ${moment}`)
        assert.equal(told.filter(([what]) => what === moment).length, 1)
        assertEmpty(scheduler)
      }
    }
  })

  it('a handler that throws hears of it, and leaves no lease', async () => {
    const told: Told[] = []
    const handler = { ...modern(told), onResponseStart: () => assert.fail('mine') }
    dispatch(handler)
    await until(() => told.some(([what]) => what === 'error'))
    await until(() => scheduler.snapshot().activeCalls === 0)
    assert.deepEqual(told, [['start'], ['error', 'mine']])
  })

  it('sends through the dispatcher that it is composed with', async () => {
    let through = 0
    const counting = agent.compose((next) => (options, handler) => {
      through += 1
      return next(options, handler)
    })
    const dispatcher = counting.compose(schedulingInterceptor(scheduler))
    const { statusCode } = await request(ORIGIN + PATH, { dispatcher, method: 'POST', body: body() })
    assert.equal(statusCode, 200)
    assert.equal(through, 1)
  })
})
