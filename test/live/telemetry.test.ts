import assert from 'node:assert/strict'
import { parseLoads } from '../../lib/scheduler/telemetry.ts'
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
