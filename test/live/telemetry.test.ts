import assert from 'node:assert/strict'
import { parseLoads, parseTelemetry } from '../../lib/scheduler/telemetry.ts'
import { code, instances, virtual } from '../support/live.ts'
import { random } from '../support/runs.ts'

/** One rank as SGLang's /v1/loads has it. */
const rank = (more: object = {}) => ({
  dp_rank: 0,
  num_running_reqs: 3,
  num_waiting_reqs: 2,
  num_waiting_uncached_tokens: 900,
  num_used_tokens: 4_000,
  num_total_tokens: 5_000,
  max_total_num_tokens: 10_000,
  token_usage: 0.4,
  gen_throughput: 120.5,
  cache_hit_rate: 0.3,
  utilization: 0,
  max_running_requests: 64,
  ...more,
})

describe("SGLang's load as a sample", () => {
  it('sums requests over ranks and takes the fullest', () => {
    const loads = {
      timestamp: 'x',
      version: 'y',
      loads: [rank(), rank({ num_running_reqs: 4, token_usage: 0.9 })],
    }
    const sample = { waiting: 4, running: 7, kvUsage: 0.9 }
    assert.deepEqual(parseLoads(loads), sample)
    assert.deepEqual(parseLoads(JSON.stringify(loads)), sample)
  })

  it('reads the older list, where running and waiting are one number', () => {
    const old = [
      { dp_rank: 0, num_reqs: 5, num_waiting_reqs: 2, num_tokens: 100 },
      { dp_rank: 1, num_reqs: 1, num_waiting_reqs: 0, num_tokens: 50 },
    ]
    assert.deepEqual(parseLoads(old), { waiting: 2, running: 4 })
  })

  it('usage of tokens where it is not told as a share', () => {
    const { token_usage: _, ...without } = rank()
    assert.equal(parseLoads({ loads: [without] }).kvUsage, 0.4)
    assert.equal(parseLoads({ loads: [rank({ token_usage: 1.02 })] }).kvUsage, 1)
  })

  it('takes nothing that is absent or no count for 0', () => {
    assert.deepEqual(parseLoads({ loads: [] }), {})
    assert.deepEqual(parseLoads({ loads: [{}] }), {})
    for (const odd of [undefined, null, -1, 1.5, Number.NaN, '3', true, 2 ** 60, []]) {
      const { running, ...rest } = parseLoads({ loads: [rank(), rank({ num_running_reqs: odd })] })
      assert.equal(running, undefined, String(odd)) // half a sum is none
      assert.deepEqual(rest, { waiting: 4, kvUsage: 0.4 })
    }
    const { kvUsage } = parseLoads({
      loads: [rank({ token_usage: -1, num_used_tokens: 5, max_total_num_tokens: 0 })],
    })
    assert.equal(kvUsage, undefined)
    assert.equal(parseLoads([{ num_reqs: 1, num_waiting_reqs: 2 }]).running, undefined)
    assert.equal(parseLoads([{ num_reqs: 1 }]).running, undefined)
    assert.deepEqual(parseLoads({ loads: [rank({ num_waiting_reqs: 0 })] }).waiting, 0)
  })

  it('refuses what is no load, with its place', async () => {
    for (const odd of [
      null,
      undefined,
      5,
      true,
      {},
      { loads: {} },
      { detail: 'Not Found' },
      '5',
      '{}',
      'null',
    ])
      assert.equal(await code(() => parseLoads(odd)), 'ERR_LAXITY_FIELD', JSON.stringify(odd))
    for (const odd of ['', '<html>', '{"loads":[', 'vllm:num_requests_running 3'])
      assert.equal(await code(() => parseLoads(odd)), 'ERR_LAXITY_SYNTAX', odd)
    for (const odd of [null, 3, 'x', []])
      await assert.rejects(async () => parseLoads({ loads: [rank(), odd] }), {
        code: 'ERR_LAXITY_FIELD',
        place: 'loads[1]',
      })
  })

  it('of any text: a sample that the scheduler takes, or a coded error', async () => {
    const next = random(5)
    const good = JSON.stringify({ loads: [rank(), rank()] })
    const { scheduler } = virtual({ cluster: instances(1) })
    let read = 0
    for (let i = 0; i < 2_000; i += 1) {
      const letters = [...good]
      for (let n = 1 + Math.floor(next() * 4); n > 0; n -= 1)
        letters[Math.floor(next() * letters.length)] = '{}[]",:0-9e.nul'[Math.floor(next() * 15)]!
      const got = await code(() => {
        scheduler.telemetry('m0', parseLoads(letters.join('')))
        read += 1
      })
      assert.ok(got === undefined || got === 'ERR_LAXITY_SYNTAX' || got === 'ERR_LAXITY_FIELD', got)
    }
    assert.ok(read > 100 && read < 2_000, `${read}`)
    await scheduler.close()
  })

  it('corrects the accounting of its instance', async () => {
    const { clock, scheduler } = virtual({
      cluster: instances(2),
      policy: { order: 'fcfs', placement: 'least-work-left' },
    })
    const workflow = scheduler.workflow()
    const call = async () => {
      const lease = await workflow.call({ promptTokens: 10, outputTokens: 5, parents: [] })
      lease.done()
      await clock.advance(0)
      return lease.instance
    }
    assert.equal(await call(), 'm0')
    scheduler.telemetry('m0', parseLoads({ loads: [rank()] }))
    assert.equal(await call(), 'm1')
    scheduler.telemetry('m0', parseLoads({ loads: [rank({ num_running_reqs: 0, num_waiting_reqs: 0 })] }))
    assert.equal(await call(), 'm0')
  })
})

describe('a page of metrics as a sample', () => {
  it('sums requests over the ranks of an engine and takes the fullest, whoever names them', () => {
    const sample = { waiting: 5, running: 7, kvUsage: 0.75 }
    const pages = [
      ['vllm:num_requests_waiting', 'vllm:num_requests_running', 'vllm:kv_cache_usage_perc'],
      ['vllm:num_requests_waiting', 'vllm:num_requests_running', 'vllm:gpu_cache_usage_perc'],
      ['sglang:num_queue_reqs', 'sglang:num_running_reqs', 'sglang:token_usage'],
      ['trtllm_num_requests_waiting', 'trtllm_num_requests_running', 'trtllm_kv_cache_utilization'],
    ]
    for (const [waiting, running, usage] of pages)
      assert.deepEqual(
        parseTelemetry(
          [
            `# HELP ${waiting} Requests that wait`,
            `# TYPE ${waiting} gauge`,
            `${waiting}{engine="0",model_name="a b"} 2.0`,
            `${waiting}{engine="1"} 3 1700000000000`,
            '',
            `${running} 7`,
            `${usage}{engine="0"} 0.25`,
            `${usage}{engine="1"} 7.5e-1`,
            'other_metric 99',
          ].join('\n'),
        ),
        sample,
        usage,
      )
  })

  it('takes the newest name where a page has two, and no more than a whole cache', () => {
    const page = 'vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 1.25\n'
    assert.deepEqual(parseTelemetry(page), { kvUsage: 1 })
  })

  it('leaves out what is no count', () => {
    for (const odd of ['NaN', '+Inf', '-1', 'many', ''])
      assert.deepEqual(
        parseTelemetry(`vllm:num_requests_running ${odd}\nvllm:num_requests_waiting 1`),
        { waiting: 1 },
        odd,
      )
    assert.deepEqual(parseTelemetry('<html>\n{"running": 3}'), {})
  })
})

describe('an engine that says its cache is empty', () => {
  const suspicions = (scheduler: ReturnType<typeof virtual>['scheduler']) => {
    const metric = scheduler.metrics().find(({ name }) => name === 'laxity_telemetry_suspicious_total')!
    assert.ok('values' in metric)
    return metric.values[0]!.value
  }

  it('is doubted once a stretch, after 30 s in which it held leases', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(1), leaseTtlMs: 0 })
    const warnings: { code: string; place: string | undefined; message: string }[] = []
    scheduler.on('warning', (warning) => warnings.push(warning))
    const sample = async (kvUsage: number, ms: number) => {
      scheduler.telemetry('m0', { kvUsage })
      await clock.advance(ms)
    }
    // Without leases an empty cache is nothing odd.
    for (let i = 0; i < 4; i += 1) await sample(0, 15_000)
    const lease = await scheduler.workflow().call({ promptTokens: 10, outputTokens: 5 })
    await sample(0, 29_999)
    await sample(0, 1)
    assert.deepEqual([warnings.length, suspicions(scheduler)], [0, 0])
    for (let i = 0; i < 5; i += 1) await sample(0, 10_000)
    assert.deepEqual(
      warnings.map(({ code, place }) => [code, place]),
      [['ERR_LAXITY_STATE', 'telemetry']],
    )
    assert.match(warnings[0]!.message, /"m0" has reported a KV usage of 0 for 30 s/)
    // A usage ends the stretch.
    await sample(0.1, 1)
    for (let i = 0; i < 4; i += 1) await sample(0, 15_000)
    assert.deepEqual([warnings.length, suspicions(scheduler)], [2, 2])
    lease.done()
    await scheduler.close()
  })
})
