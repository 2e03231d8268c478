import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createHandler, type HandlerOptions } from '../../lib/adapters/handler.ts'
import { ManualClock } from '../../lib/scheduler/clock.ts'
import { homeAmong } from '../../lib/scheduler/home.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { code, instances, LATENCY, virtual } from '../support/live.ts'
import { pairCluster } from '../support/pair.ts'

const child = fileURLToPath(new URL('../support/home-child.ts', import.meta.url))
const names = (count: number) => Array.from({ length: count }, (_, i) => `http://gpu-${i}:8000`)
const ids = Array.from({ length: 400 }, (_, i) => `session-${i}`)

describe('the home of a session', () => {
  it('story 12: sessions are not scattered: two processes agree without a shared map', async function () {
    this.timeout(60_000)
    const urls = names(8)
    const { scheduler } = virtual({ cluster: urls.map((url) => ({ url })) })
    const args = ['--import', 'tsx', child, urls.join(','), ...ids]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    const mine = ids.map((id) => scheduler.homeOf(id))
    assert.deepEqual(JSON.parse(stdout), mine)
    for (const url of urls) {
      const share = mine.filter((home) => home === url).length / ids.length
      assert.ok(share > 0.06 && share < 0.2, `${url}: ${share}`)
    }
    await scheduler.close()
  })

  it('moves only the sessions of an instance that leaves, and back', async () => {
    const { scheduler } = virtual({ cluster: instances(8) })
    const before = ids.map((id) => scheduler.homeOf(id))
    for (const change of [
      () => scheduler.drainInstance('m3'),
      () => scheduler.failInstance('m3'),
      () => scheduler.removeInstance('m3'),
    ]) {
      change()
      const after = ids.map((id) => scheduler.homeOf(id))
      assert.ok(before.every((home, i) => home === 'm3' || home === after[i]))
      assert.ok(!after.includes('m3'))
    }
    scheduler.addInstance({ ...instances(4)[3]! })
    assert.deepEqual(
      ids.map((id) => scheduler.homeOf(id)),
      before,
    )
    await scheduler.close()
  })

  it('is one that serves the model, and of a pair the one that prefills', async () => {
    const { scheduler } = virtual({
      cluster: [
        ...instances(3, { model: 'a' }),
        { ...instances(1)[0]!, id: 'b', model: 'b', adapters: ['lora'] },
        { ...instances(1)[0]!, id: 'b2', model: 'b' },
      ],
    })
    assert.ok(ids.every((id) => ['b', 'b2'].includes(scheduler.homeOf(id, 'b')!)))
    assert.ok(ids.every((id) => scheduler.homeOf(id, 'lora') === 'b'))
    assert.equal(await code(() => scheduler.homeOf('x', 'c')), 'ERR_LAXITY_NO_INSTANCE')
    for (const odd of [undefined, '', 5, null, 'x'.repeat(300)])
      assert.equal(await code(() => scheduler.homeOf(odd as never)), 'ERR_LAXITY_FIELD')
    for (const id of ['b', 'b2']) scheduler.failInstance(id)
    assert.equal(scheduler.homeOf('x', 'b'), undefined)
    await scheduler.close()
    const pair = virtual({ cluster: pairCluster(3, 3) }).scheduler
    assert.ok(ids.every((id) => pair.homeOf(id)!.startsWith('p')))
    assert.equal(homeAmong('x', []), undefined)
  })

  /** Two routers that share nothing but their engines; every turn of a session goes to the other one. */
  async function turns(
    affinity: HandlerOptions['affinity'],
    parameters: Readonly<Record<string, number>> = {},
  ): Promise<{ stayed: number; busiest: number }> {
    const cluster = names(4).map((url) => ({ url, latency: LATENCY, kvTokens: 1_000_000, maxSequences: 64 }))
    const asked: string[] = []
    const answer = {
      choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
      usage: { completion_tokens: 1 },
    }
    const options: HandlerOptions = {
      affinity,
      fetch: async (input) => {
        asked.push(new URL(String(input)).origin)
        return Response.json(answer)
      },
    }
    const clock = new ManualClock()
    const routers = [1, 2].map((tieSeed) => {
      const policy = { order: 'fcfs', placement: 'eft' }
      const scheduler = new Scheduler({ cluster, tieSeed, clock, policy, parameters })
      return { scheduler, handle: createHandler(scheduler, options) }
    })
    let stayed = 0
    const load = new Map<string, number>()
    for (const id of ids.slice(0, 60)) {
      const messages: { role: string; content: string }[] = []
      const homes: string[] = []
      for (let turn = 0; turn < 4; turn += 1) {
        messages.push({ role: 'user', content: 'history '.repeat(300) })
        const response = await routers[turn % 2]!.handle(
          new Request('http://x/v1/chat/completions', {
            method: 'POST',
            headers: { 'x-session-id': id },
            body: JSON.stringify({ model: 'm', messages, max_tokens: 1 }),
          }),
        )
        assert.equal(response.status, 200)
        await response.arrayBuffer()
        await clock.advance(500)
        homes.push(asked.at(-1)!)
        messages.push({ role: 'assistant', content: 'yes' })
      }
      if (new Set(homes).size === 1) stayed += 1
      load.set(homes[0]!, (load.get(homes[0]!) ?? 0) + 1)
    }
    for (const { scheduler } of routers) await scheduler.close()
    return { stayed, busiest: Math.max(...load.values()) }
  }

  it('keeps sessions together over two routers, where the handlers are told that there are several', async () => {
    const idle = await turns('replicas', { utilisationMs: 1 })
    assert.equal(idle.stayed, 60)
    // Where engines differ in what they did of late, that may be worth more than a session's first turn at home.
    const together = await turns('replicas')
    assert.ok(together.stayed >= 50, `${together.stayed}`)
    assert.ok(together.busiest <= 30, `${together.busiest}`)
    const alone = await turns(true)
    assert.ok(alone.stayed <= 40, `${alone.stayed}`)
    await assert.rejects(turns('shared' as never), { code: 'ERR_LAXITY_OPTION' })
  })
})
