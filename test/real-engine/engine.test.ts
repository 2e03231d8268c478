import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import OpenAI from 'openai'
import { schedulingMiddleware } from '../../lib/adapters/node.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { assertEmpty } from '../support/live.ts'
import { writeModel } from './model.js'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const SEQUENCES = 4

interface Counts {
  served: number
  aborted: number
  running: number
  most: number
  longestQueue: number
  tokens: number
  waiting: number
  free: number
}

class Engine {
  readonly #model: string
  #port = 0
  #process: ChildProcess | undefined

  constructor(model: string) {
    this.#model = model
  }

  /** Returns to the port that it had before. */
  async start(): Promise<void> {
    const args = [here('./server.js'), this.#model, String(SEQUENCES), '1', String(this.#port)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#process = child
    this.#port = await new Promise<number>((resolve, reject) => {
      child.stdout!.once('data', (data) => resolve(Number(String(data))))
      child.once('exit', (code) => reject(new Error(`The engine ended with ${code}`)))
    })
  }

  async kill(): Promise<void> {
    const child = this.#process
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const over = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await over
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  async counts(): Promise<Counts> {
    return (await (await fetch(`${this.url}/counts`)).json()) as Counts
  }
}

/** llama.cpp twice, a small model and a larger one, behind a proxy of ours, with the official client in front. */
describe('a real engine', () => {
  let folder = ''
  let fast: Engine
  let slow: Engine
  let scheduler: Scheduler
  let server: Server
  let url = ''

  before(async function () {
    if (!existsSync(here('./node_modules/node-llama-cpp'))) {
      const command = 'npm ci --prefix test/real-engine --omit=optional --ignore-scripts'
      console.log(`      skipped: llama.cpp is not installed (${command})`)
      this.skip()
    }
    folder = await mkdtemp(join(tmpdir(), 'laxity-engine-'))
    const models = [join(folder, 'small.gguf'), join(folder, 'large.gguf')] as const
    await writeModel(models[0], { width: 64, blocks: 2 })
    await writeModel(models[1], { width: 192, blocks: 4 })
    fast = new Engine(models[0])
    slow = new Engine(models[1])
    await Promise.all([fast.start(), slow.start()])
  })
  after(async () => {
    await Promise.all([fast?.kill(), slow?.kill()])
    if (folder !== '') await rm(folder, { recursive: true })
  })

  beforeEach(async () => {
    // llama.cpp mixes prompts and decoding in batches of 512 tokens, and says nothing of its load.
    scheduler = new Scheduler({
      cluster: [
        { id: 'fast', url: fast.url, mode: 'chunked', chunkTokens: 512, maxSequences: SEQUENCES },
        { id: 'slow', url: slow.url, mode: 'chunked', chunkTokens: 512, maxSequences: SEQUENCES },
      ],
      parameters: { breakerFaults: 2, breakerOpenMs: 300, breakerSuccesses: 1 },
    })
    server = createServer(schedulingMiddleware(scheduler, { expose: true }))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  })
  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await scheduler.close()
    assertEmpty(scheduler)
  })

  function clientOf(session: string): OpenAI {
    const defaultHeaders = { 'x-session-id': session, 'x-slo-ms': '30000' }
    return new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0, defaultHeaders })
  }

  /** One streamed call: which instance served it, and what came. */
  async function ask(client: OpenAI, content: string, tokens: number, onToken: () => void = () => {}) {
    const { data, response } = await client.chat.completions
      .create({
        model: 'tiny',
        max_tokens: tokens,
        messages: [{ role: 'user', content }],
        stream: true,
        stream_options: { include_usage: true },
      })
      .withResponse()
    let text = ''
    let usage = 0
    for await (const part of data) {
      usage = part.usage?.completion_tokens ?? usage
      const piece = part.choices[0]?.delta.content ?? ''
      text += piece
      if (piece !== '') onToken()
    }
    return { instance: response.headers.get('x-laxity-instance'), text, usage }
  }

  it('serves workflows of several steps at once, and keeps its queue short', async () => {
    const before = await Promise.all([fast.counts(), slow.counts()])
    const WORKFLOWS = 12
    const instances: (string | null)[] = []
    await Promise.all(
      Array.from({ length: WORKFLOWS }, async (_, w) => {
        const client = clientOf(`workflow-${w}`)
        const parts = await Promise.all([
          ask(client, `plan ${w} `.repeat(20), 24),
          ask(client, `facts ${w} `.repeat(10), 16),
        ])
        const answer = await ask(client, parts.map(({ text }) => text).join(' '), 12)
        for (const [i, one] of [...parts, answer].entries()) {
          assert.equal(one.usage, [24, 16, 12][i])
          assert.ok(one.text.length >= one.usage)
          instances.push(one.instance)
        }
      }),
    )
    const after = await Promise.all([fast.counts(), slow.counts()])
    const served = after.map((counts, i) => counts.served - before[i]!.served)
    assert.equal(served[0]! + served[1]!, 3 * WORKFLOWS)
    assert.deepEqual(
      served,
      ['fast', 'slow'].map((id) => instances.filter((one) => one === id).length),
    )
    for (const [i, { most, longestQueue, waiting, running }] of after.entries()) {
      assert.ok(served[i]! > 0)
      assert.ok(most > 1 && most <= SEQUENCES, `batches of ${most}`)
      assert.ok(longestQueue <= 1, `${longestQueue} waited in the engine, lookahead is 1`)
      assert.deepEqual([waiting, running], [0, 0])
    }
    assert.equal(scheduler.snapshot().workflows, WORKFLOWS)
  }).timeout(60_000)

  it('cancels in the engine what a client gives up', async () => {
    const before = await Promise.all([fast.counts(), slow.counts()])
    const client = clientOf('leaver')
    const stop = new AbortController()
    const MOST = 800
    let seen = 0
    const stream = await client.chat.completions.create(
      { model: 'tiny', max_tokens: MOST, messages: [{ role: 'user', content: 'long' }], stream: true },
      { signal: stop.signal },
    )
    try {
      for await (const part of stream) {
        if (part.choices[0]?.delta.content) seen += 1
        if (seen === 3) stop.abort()
      }
    } catch (error) {
      assert.match(String(error), /abort/i)
    }
    assert.ok(seen >= 3 && seen < MOST)
    const sum = (of: Counts[], name: keyof Counts) => of[0]![name] + of[1]![name]
    let now = before
    while (sum(now, 'aborted') === sum(before, 'aborted') || sum(now, 'running') > 0)
      now = await Promise.all([fast.counts(), slow.counts()])
    assert.ok(sum(now, 'tokens') - sum(before, 'tokens') < MOST)
    assert.equal(sum(now, 'served'), sum(before, 'served'))
    assert.equal(sum(now, 'free'), 2 * SEQUENCES)
    assertEmpty(scheduler)
    assert.equal((await ask(client, 'again', 5)).usage, 5)
  }).timeout(60_000)

  it('lives through the death and the return of an engine', async () => {
    const begun = new Set<number>()
    const going = Array.from({ length: 6 }, (_, i) =>
      ask(clientOf(`outage-${i}`), `story ${i}`, 300, () => begun.add(i)).catch((error: unknown) => error),
    )
    const held = () => scheduler.snapshot().instances.map(({ leased }) => leased)
    while (begun.size < going.length) await new Promise((resolve) => setTimeout(resolve, 5))
    const [, lost] = held() as [number, number]
    await slow.kill()
    // Whoever has seen bytes of it sees the failure; nobody else does.
    const ends = await Promise.all(going)
    const failed = ends.filter((end) => end instanceof Error)
    assert.ok(lost > 0)
    assert.equal(failed.length, lost)
    for (const end of ends) if (!(end instanceof Error)) assert.equal((end as { usage: number }).usage, 300)

    const rest = await Promise.all(
      Array.from({ length: 6 }, (_, i) => ask(clientOf(`after-${i}`), `again ${i}`, 8)),
    )
    for (const { instance, usage } of rest) assert.deepEqual([instance, usage], ['fast', 8])

    await slow.start()
    let back = false
    for (let i = 0; !back; i += 1) {
      const calls = Array.from({ length: 8 }, (_, j) => ask(clientOf(`back-${i}-${j}`), `hello ${i} ${j}`, 8))
      const served = await Promise.all(calls)
      for (const { usage } of served) assert.equal(usage, 8)
      back = served.some(({ instance }) => instance === 'slow')
    }
    assert.equal(scheduler.snapshot().instances[1]!.breaker, 'closed')
    assert.deepEqual(held(), [0, 0])
  }).timeout(60_000)
})
