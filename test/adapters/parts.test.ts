import assert from 'node:assert/strict'
import { Registry } from 'prom-client'
import { blocksOf, PrefixMemory } from '../../lib/adapters/prefix.ts'
import { registerMetrics } from '../../lib/adapters/prometheus.ts'
import { StreamWatch } from '../../lib/adapters/sse.ts'
import { identify } from '../../lib/scheduler/identity.ts'
import { classify, retryAfterMs } from '../../lib/scheduler/outcome.ts'
import { sharedScheduler } from '../../lib/scheduler/singleton.ts'
import { instances, virtual } from '../support/live.ts'
import { random } from '../support/runs.ts'

const event = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`

describe('the memory of prefixes', () => {
  const { scheduler } = virtual()
  const texts = (seed: number) => {
    const next = random(seed)
    return (length: number) =>
      Array.from({ length }, () => String.fromCharCode(97 + Math.floor(next() * 26))).join('')
  }

  it('counts whole blocks of 256 characters, 64 tokens each: a naive comparison agrees', () => {
    for (let seed = 1; seed <= 500; seed += 1) {
      const text = texts(seed)
      const next = random(seed + 1_000)
      const memory = new PrefixMemory()
      const workflow = scheduler.workflow()
      const served = new Map<string, string>()
      let prompt = text(Math.floor(next() * 3_000))
      for (let turn = 0; turn < 6; turn += 1) {
        const got = memory.cachedTokens(workflow, blocksOf(prompt))
        const naive: Record<string, number> = {}
        for (const [instance, before] of served) {
          let same = 0
          while (same < Math.min(before.length, prompt.length) && before[same] === prompt[same]) same += 1
          if (same >= 256) naive[instance] = Math.floor(same / 256) * 64
        }
        assert.deepEqual(got ?? {}, naive, `seed ${seed}`)
        const instance = `m${Math.floor(next() * 6)}`
        memory.served(workflow, instance, blocksOf(prompt))
        served.delete(instance)
        served.set(instance, prompt)
        if (served.size > 4) served.delete([...served.keys()][0]!)
        if (next() < 0.2) {
          memory.forget(workflow, instance)
          served.delete(instance)
        }
        prompt = prompt.slice(0, Math.floor(next() * prompt.length)) + text(Math.floor(next() * 1_000))
      }
      assert.equal(memory.cachedTokens(scheduler.workflow(), blocksOf(prompt)), undefined)
    }
  })
})

describe('watching a stream', () => {
  const STREAM = `: hello\r\n\r\n${event({ role: 'assistant', content: '' })}${event({ content: 'a\n"usage":{' })}${event({ content: 'é' })}data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\r\n\r\ndata: {"choices":[],"usage":{"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5}}}\n\ndata: [DONE]\n\n`

  it('sees the same however the bytes are cut', () => {
    const bytes = new TextEncoder().encode(STREAM)
    const next = random(1)
    for (let i = 0; i < 300; i += 1) {
      const watch = new StreamWatch()
      for (let at = 0; at < bytes.length; ) {
        const n = 1 + Math.floor(next() * (i === 0 ? 1 : 60))
        watch.push(bytes.subarray(at, at + n))
        at += n
      }
      watch.end()
      const { firstToken, finished, error, outputTokens, cachedTokens } = watch
      assert.deepEqual(
        { firstToken, finished, error, outputTokens, cachedTokens },
        { firstToken: true, finished: true, error: undefined, outputTokens: 2, cachedTokens: 5 },
      )
    }
  })

  it('takes no role for a token, and counts events where there is no usage', () => {
    const watch = new StreamWatch()
    const push = (text: string) => watch.push(new TextEncoder().encode(text))
    push(event({ role: 'assistant', content: '' }))
    assert.equal(watch.firstToken, false)
    push(event({ reasoning_content: 'hm' }))
    assert.equal(watch.firstToken, true)
    push(event({ tool_calls: [{ function: { arguments: '{"a"' } }] }))
    assert.equal(watch.outputTokens, 2)
    assert.equal(watch.finished, false)
    push('data: {"error":{"message":"no memory","code":503}}\n\n')
    assert.deepEqual(watch.error, { status: 503, message: 'no memory' })
  })

  it('story 20: ten megabytes cost linear time and no memory', () => {
    const cost = (megabytes: number) => {
      const watch = new StreamWatch()
      const chunk = new TextEncoder().encode(event({ content: 'x'.repeat(200) }).repeat(4))
      const started = process.cpuUsage()
      for (let sent = 0; sent < megabytes * 1e6; sent += chunk.length) watch.push(chunk)
      const { user, system } = process.cpuUsage(started)
      assert.ok(watch.outputTokens > megabytes * 3000)
      return (user + system) / 1000
    }
    cost(2)
    const small = cost(5)
    const large = cost(20)
    assert.ok(large < small * 8 + 50, `${small} ms for 5 MB, ${large} ms for 20 MB`)
    // One line without end is passed over, not kept.
    const watch = new StreamWatch()
    for (let i = 0; i < 50; i += 1) watch.push(new TextEncoder().encode('x'.repeat(100_000)))
    watch.push(new TextEncoder().encode(`\n${event({ content: 'after' })}`))
    assert.equal(watch.outputTokens, 1)
  })
})

describe('outcomes', () => {
  it('are classed as the table says', () => {
    const classes = [200, 400, 404, 408, 413, 422, 429, 499, 500, 502, 503, 529].map((status) =>
      classify({ status }),
    )
    assert.deepEqual(classes, [
      'ok',
      'client_error',
      'client_error',
      'fault',
      'client_error',
      'client_error',
      'backpressure',
      'cancelled',
      'fault',
      'fault',
      'fault',
      'backpressure',
    ])
    assert.equal(classify({ status: 503, retryAfterMs: 1 }), 'backpressure')
    assert.equal(classify({ error: new DOMException('x', 'AbortError') }), 'cancelled')
    assert.equal(classify({ error: new Error('ECONNREFUSED') }), 'fault')
    assert.equal(classify({ class: 'backpressure', status: 500 }), 'backpressure')
    assert.equal(retryAfterMs('2', 0), 2000)
    assert.equal(retryAfterMs('Thu, 01 Jan 1970 00:00:10 GMT', 4000), 6000)
    assert.equal(retryAfterMs('soon', 0), undefined)
    assert.equal(retryAfterMs(null, 0), undefined)
  })
})

describe('identity', () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  it('takes the first level that names a workflow', () => {
    const body = {
      program_id: 'p',
      prompt_cache_key: 'k',
      metadata: { user_id: 'u' },
      session_params: { session_id: 's' },
      vllm_xargs: {
        agentic_context: {
          root_program_id: 'root',
          program_id: 'prog',
          step_id: 'plan',
          deadline_seconds: 3,
          expected_output_length: 40,
        },
      },
    }
    const headers = {
      'X-Dynamo-Session-ID': 'd',
      'x-claude-code-session-id': 'cc',
      'X-Session-Id': 'x',
      traceparent: trace,
      'x-tenant-id': 'acme',
    }
    const levels: [object, object, string | undefined, string][] = [
      [headers, body, 'root', 'agentic-context'],
      [
        headers,
        { ...body, vllm_xargs: { agentic_context: { program_id: 'prog' } } },
        'prog',
        'agentic-context',
      ],
      [headers, { ...body, vllm_xargs: undefined }, 'p', 'program-id'],
      [headers, { metadata: body.metadata }, 'd', 'x-dynamo-session-id'],
      [{ ...headers, 'X-Dynamo-Session-ID': undefined }, {}, 'cc', 'x-claude-code-session-id'],
      [{ 'x-session-id': 'x', traceparent: trace }, body.metadata, 'x', 'x-session-id'],
      [{ traceparent: trace }, { prompt_cache_key: 'k', metadata: body.metadata }, 'k', 'prompt-cache-key'],
      [{ traceparent: trace }, { metadata: body.metadata }, 'u', 'metadata-user'],
      [{ traceparent: trace }, { session_params: body.session_params }, 's', 'session-params'],
      [{ traceparent: trace }, {}, '0af7651916cd43dd8448eb211c80319c', 'traceparent'],
      [{}, {}, undefined, 'none'],
    ]
    for (const [h, b, workflow, source] of levels) {
      const seen = identify(h as never, b)
      assert.deepEqual([seen.workflow, seen.source], [workflow, source])
      assert.deepEqual(
        identify(new Headers(Object.entries(h).filter(([, v]) => v !== undefined) as [string, string][]), b),
        seen,
      )
    }
    const argued = identify(headers, body, { argument: { workflow: 'mine' } })
    assert.deepEqual(
      [argued.workflow, argued.stage, argued.tenant, argued.expectedOutputTokens, argued.sloMs],
      ['mine', 'plan', 'acme', 40, undefined],
    )
    assert.equal(identify(headers, body, { deadlineSeconds: true }).sloMs, 3000)
  })

  it('names stages by step, role, LangGraph node, or the shape of the prompt', () => {
    assert.equal(identify({ baggage: 'a=b, langgraph_node=re%20view;x=y' }, {}).stage, 're view')
    const shape = (system: string, tool: string) =>
      identify(
        {},
        {
          model: 'm',
          messages: [
            { role: 'system', content: system },
            { role: 'user', content: `${Math.random()}` },
          ],
          tools: [{ function: { name: tool } }],
        },
      ).stage
    assert.equal(shape('plan', 'sql'), shape('plan', 'sql'))
    assert.notEqual(shape('plan', 'sql'), shape('write', 'sql'))
    assert.notEqual(shape('plan', 'sql'), shape('plan', 'web'))
    assert.equal(identify({}, { messages: [{ role: 'user', content: 'x' }] }).stage, undefined)
  })

  it('passes over what is too long or not what it should be', () => {
    assert.equal(identify({ 'x-session-id': 'x'.repeat(257) }, {}).source, 'none')
    const context = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`k${i}`, 'x'.repeat(250)]))
    assert.equal(
      identify({}, { vllm_xargs: { agentic_context: { ...context, program_id: 'p' } } }).source,
      'none',
    )
    for (const body of [
      null,
      1,
      'x',
      [],
      { metadata: 7, messages: 5, tools: {}, vllm_xargs: [] },
      { messages: [null, 3] },
    ]) {
      assert.equal(identify({}, body).source, 'none')
    }
  })
})

describe('metrics', () => {
  it('go to prom-client, read at each scrape', async () => {
    const { clock, scheduler } = virtual()
    const registry = new Registry()
    registerMetrics(scheduler, registry)
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    await clock.advance(30)
    lease.firstToken()
    const page = await registry.metrics()
    assert.match(page, new RegExp(`laxity_instance_active_leases\\{instance="${lease.instance}"\\} 1`))
    assert.match(page, /laxity_calls_total 1/)
    assert.match(page, /laxity_request_ttft_seconds_bucket\{le="0\.05"\} 1/)
    assert.match(page, /laxity_request_ttft_seconds_count 1/)
    lease.done()
    await clock.advance(1)
    await new Promise((resolve) => setTimeout(resolve, 5))
    assert.match(await registry.metrics(), /laxity_outcomes_total\{outcome="ok"\} 1/)
    assert.doesNotMatch(await registry.metrics(), /workflow=|session=/)
  })
})

describe('a process-wide scheduler', () => {
  it('is made once, whoever loads this package how often', () => {
    const options = () => ({ cluster: instances(1) })
    const one = sharedScheduler(options, 'test')
    assert.equal(
      sharedScheduler(() => assert.fail('made twice'), 'test'),
      one,
    )
    assert.notEqual(sharedScheduler(options, 'other'), one)
  })
})
