import assert from 'node:assert/strict'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { RunnableLambda } from '@langchain/core/runnables'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, streamText, wrapLanguageModel } from 'ai'
import { type AiSdkOptions, schedulingModel } from '../../lib/adapters/ai-sdk.ts'
import { schedulingLangChain } from '../../lib/adapters/langchain.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { type Engine, engine } from '../support/engines.ts'
import { assertEmpty, code } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

/** On the agent's side the workflow is known. The real libraries, engines in other processes. */
describe('adapters of agents', function () {
  this.timeout(60_000)
  let engines: Engine[] = []
  let scheduler: Scheduler
  before(async () => {
    engines = await Promise.all([engine(5, 2), engine(5, 2)])
  })
  after(() => {
    for (const { process } of engines) process.kill('SIGKILL')
  })
  beforeEach(() => {
    scheduler = new Scheduler({
      cluster: engines.map(({ url }, i) => ({ id: `e${i}`, url, model: 'm' })),
      policy: { order: 'fcfs', placement: 'round-robin' },
      parameters: { faultPenaltyMs: 0, breakerFaults: 0 },
    })
  })
  afterEach(async () => {
    for (const each of engines) await each.mode('ok')
    await scheduler.close()
    assertEmpty(scheduler)
  })
  const served = async () => (await Promise.all(engines.map((each) => each.counts()))).map((c) => c.served)
  const settled = () => new Promise((resolve) => setTimeout(resolve, 30))

  describe('AI SDK', () => {
    const provider = (url: string) =>
      createOpenAICompatible({ name: 'x', baseURL: `${url}/v1`, includeUsage: true })
    const at = ({ url }: Lease) => provider(url!)('m')
    const wrapped = (options: Partial<AiSdkOptions> = {}) =>
      wrapLanguageModel({
        model: provider('http://nowhere')('m'),
        middleware: schedulingModel(scheduler, { model: at, ...options }) as never,
      })
    const ask = { prompt: 'hello '.repeat(40), maxOutputTokens: 5, maxRetries: 0 }

    it('generates on the leased instances, one after the other, and counts tokens', async () => {
      const before = await served()
      const workflow = scheduler.workflow({ sloMs: 10_000 })
      const model = wrapped({ workflow, stage: 'plan' })
      const results = await Promise.all(Array.from({ length: 6 }, () => generateText({ model, ...ask })))
      for (const { text, usage } of results) {
        assert.equal(text.trim().split(' ').length, 5)
        assert.equal(usage.outputTokens, 5)
      }
      const after = await served()
      assert.deepEqual(
        after.map((n, i) => n - before[i]!),
        [3, 3],
      )
      assert.equal(scheduler.lengths('plan').observations, 6)
      assert.equal(scheduler.lengths('plan').mean, 5)
      workflow.end()
    })

    it('streams, each call a workflow of its own where none is given', async () => {
      const { textStream } = streamText({ model: wrapped(), ...ask })
      let text = ''
      for await (const part of textStream) text += part
      assert.equal(text, 'w0 w1 w2 w3 w4 ')
      await settled()
      const { workflows, activeCalls } = scheduler.snapshot()
      assert.deepEqual([workflows, activeCalls], [0, 0])
      const ttft = scheduler.metrics().find(({ name }) => name === 'laxity_request_ttft_seconds')!
      assert.ok('histogram' in ttft && ttft.histogram.count === 1)
    })

    it('tries elsewhere before the first part, and tells whose fault it was', async () => {
      await engines[0]!.mode('503')
      for (const how of [generateText, streamText]) {
        for (let i = 0; i < 2; i += 1) {
          const result = await how({ model: wrapped(), ...ask })
          assert.equal((await result.text).trim().split(' ').length, 5)
        }
      }
      await settled()
      const retries = scheduler.metrics().find(({ name }) => name === 'laxity_retries_total')!
      assert.ok('values' in retries && retries.values[0]!.value >= 1)
      await engines[0]!.mode('400')
      await engines[1]!.mode('400')
      await assert.rejects(generateText({ model: wrapped(), ...ask }), /400/)
      const outcomes = scheduler.metrics().find(({ name }) => name === 'laxity_outcomes_total')!
      const count = (outcome: string) =>
        'values' in outcomes
          ? outcomes.values.find(({ labels }) => labels.outcome === outcome)?.value
          : undefined
      assert.equal(count('client_error'), 1)
    })

    it('shows what breaks in the middle, and does not try again', async () => {
      for (const each of engines) await each.mode('cut')
      const before = await served()
      const errors: unknown[] = []
      const { textStream } = streamText({
        model: wrapped(),
        ...ask,
        onError: ({ error }) => void errors.push(error),
      })
      try {
        for await (const _ of textStream);
      } catch (error) {
        errors.push(error)
      }
      await settled()
      assert.ok(errors.length > 0)
      assert.deepEqual(await served(), before)
      assert.equal(scheduler.snapshot().activeCalls, 0)
    })

    it('lets go when the caller does', async () => {
      const gone = new AbortController()
      const { textStream } = streamText({
        model: wrapped(),
        ...ask,
        maxOutputTokens: 500,
        abortSignal: gone.signal,
        onError: () => {},
      })
      let parts = 0
      try {
        for await (const _ of textStream) {
          parts += 1
          if (parts === 3) gone.abort()
        }
      } catch {}
      await settled()
      assert.equal(scheduler.snapshot().activeCalls, 0)
      for (const each of engines) assert.equal((await each.counts()).running, 0)
      await assert.rejects(generateText({ model: wrapped(), ...ask, abortSignal: AbortSignal.abort() }), {
        name: 'AbortError',
      })
    })

    it('says that pairs go through fetch', async () => {
      const paired = new Scheduler({ cluster: pairCluster(1, 1) })
      const model = wrapLanguageModel({
        model: provider('http://nowhere')('m'),
        middleware: schedulingModel(paired, { model: at }) as never,
      })
      assert.equal(await code(generateText({ model, ...ask })), 'ERR_LAXITY_STATE')
      await paired.close()
    })
  })

  describe('LangChain', () => {
    it('carries thread and node of a run to the scheduler, and ends the workflow with the run', async () => {
      const { configuration, callbacks, callOptions } = schedulingLangChain(scheduler, {
        sloMs: 20_000,
        tenant: 'acme',
      })
      const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, maxTokens: 5, configuration })
      const seen: string[] = []
      // A node as LangGraph calls it: the run's metadata has thread and node.
      const node = (name: string) =>
        RunnableLambda.from(async (question: string, config) => {
          const { text } = await model.invoke(question, callOptions(config))
          seen.push(...(scheduler.lengths(name).observations > 0 ? [name] : []))
          return text
        }).withConfig({ metadata: { langgraph_node: name } })
      const chain = node('plan').pipe(node('write'))
      const config = { callbacks, metadata: { thread_id: 't1' } }
      const answer = await chain.invoke('hello '.repeat(40), config)
      assert.equal(answer.trim().split(' ').length, 5)
      await settled()
      assert.deepEqual(seen, ['plan', 'write'])
      assert.equal(scheduler.snapshot().workflows, 0)
      const total = scheduler.metrics().find(({ name }) => name === 'laxity_workflows_total')!
      assert.ok('values' in total && total.values[0]!.value === 1) // both calls were one workflow
      assert.equal(scheduler.lengths('plan').mean, 5)
    })

    it('streams, and tries elsewhere before the first byte', async () => {
      await engines[1]!.mode('503')
      const { configuration, callOptions } = schedulingLangChain(scheduler)
      const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, maxTokens: 5, configuration })
      for (let i = 0; i < 3; i += 1) {
        let text = ''
        const config = { metadata: { thread_id: 't2', langgraph_node: 'x' } }
        for await (const part of await model.stream('hello', callOptions(config))) text += part.text
        assert.equal(text, 'w0 w1 w2 w3 w4 ')
      }
      assert.equal(scheduler.workflow({ id: 't2' }).calls.length, 3)
      scheduler.workflow({ id: 't2' }).end()
    })

    it('ends the workflow of a run that fails', async () => {
      for (const each of engines) await each.mode('400')
      const { configuration, callbacks, callOptions } = schedulingLangChain(scheduler)
      const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, configuration })
      const chain = RunnableLambda.from(
        async (question: string, config) => (await model.invoke(question, callOptions(config))).text,
      )
      await assert.rejects(chain.invoke('hello', { callbacks, metadata: { thread_id: 't3' } }), /400/)
      await settled()
      assert.equal(scheduler.snapshot().workflows, 0)
    })
  })
})
