import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadCluster } from '../../lib/cluster/load.ts'
import { clusterPresets } from '../../lib/cluster/presets.ts'
import { ROLES } from '../../lib/cluster/roles.ts'
import { ManualClock } from '../../lib/scheduler/clock.ts'
import { readLog } from '../../lib/scheduler/log.ts'
import { decodeRecord, RECORD_BYTES } from '../../lib/scheduler/records.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { shadowLog } from '../../lib/scheduler/shadow.ts'
import { assertEmpty, code, virtual } from '../support/live.ts'

const H100 = { gpu: 'h100', tp: 4, estimateFor: 'llama-3.1-70b' } as const

async function instancesOf(log: string) {
  const { header, records } = await readLog(log)
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  const added: Record<string, unknown>[] = []
  for (let at = 0; at < records.length; at += RECORD_BYTES) {
    const event = decodeRecord(view, at)!
    if (event.kind === 'instance' && event.change === 0) added.push(event)
  }
  return { latencies: header.cluster.latencies, added }
}

describe('presets and estimated GPUs in the live scheduler', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-presets-'))
  })
  after(() => rm(folder, { recursive: true }))

  for (const name of clusterPresets) {
    it(`${name}: what the simulator has, serves at once`, async () => {
      const log = join(folder, `${name}.jsonl`)
      const scheduler = new Scheduler({ cluster: name, clock: new ManualClock(), log })
      assert.equal(scheduler.paired, name.startsWith('hexagent'))
      const workflow = scheduler.workflow({ sloMs: 60_000 })
      const lease = await workflow.call({ promptTokens: 4_000, outputTokens: 200 })
      lease.firstToken()
      await lease.admitted()
      lease.transferDone()
      lease.done({ outputTokens: 180 })
      workflow.end()
      assertEmpty(scheduler)
      await scheduler.close()

      const resolved = await loadCluster(name)
      const { latencies, added } = await instancesOf(log)
      assert.deepEqual(latencies, resolved.latencies)
      assert.equal(added.length, resolved.instances.length)
      for (const [i, { role, latency, kvTokens, maxSequences, link }] of resolved.instances.entries()) {
        const event = added[i]!
        assert.deepEqual(
          [event.role, event.latency, event.kvTokens, event.maxSequences],
          [ROLES.indexOf(role), latency, kvTokens, maxSequences],
        )
        const { linkMsPerToken = 0, linkLatencyMs = 0 } = link ?? {}
        assert.equal(event.linkPerToken, Math.floor(linkMsPerToken * 1e6 * 2 ** 20 + 0.5))
        assert.equal(event.linkLatency, Math.round(linkLatencyMs * 1e6))
      }
      const { decisions, matched } = await replayLog(log)
      assert.ok(decisions > 0 && matched === decisions)
    })
  }

  it('runs hexagent on its own cluster, restores, and shadows it', async () => {
    const log = join(folder, 'hexagent.jsonl')
    const options = { cluster: 'hexagent-hetero-1', policy: 'hexagent', log } as const
    const clock = new ManualClock()
    const first = new Scheduler({ ...options, clock })
    const leases = []
    for (let i = 0; i < 12; i += 1) {
      const call = { id: 'a', promptTokens: 1_000 + 200 * i, outputTokens: 100 }
      leases.push(await first.workflow({ id: `w${i}`, sloMs: 60_000 }).call(call))
    }
    for (const lease of leases.slice(0, 6)) {
      lease.firstToken()
      lease.done({ outputTokens: 100 })
    }
    await clock.advance(10)
    const { instances } = first.snapshot()
    await new Promise((resolve) => setTimeout(resolve, 50)) // what was logged is on disk
    const second = await Scheduler.restore({ ...options, clock: new ManualClock() })
    assert.equal(second.detached.length, 6)
    assert.deepEqual(
      second.snapshot().instances.map(({ id, leased }) => [id, leased]),
      instances.map(({ id, leased }) => [id, leased]),
    )
    for (const { call, workflow } of second.detached) second.attach(call, workflow).done({ outputTokens: 90 })
    assert.ok(second.audit())
    await second.close()
    const { own, other } = await shadowLog(log, 'laxity')
    assert.deepEqual([own.workflows, other.workflows], [12, 12])
    await first.close()
  })

  it('takes an instance back under its description, and no estimate that it did not know', async () => {
    const { scheduler } = virtual({
      cluster: [
        { ...H100, role: 'prefill', id: 'p' },
        { ...H100, role: 'decode', id: 'd' },
      ],
    })
    const { kvTokens } = scheduler.snapshot().instances[0]!
    scheduler.removeInstance('p')
    scheduler.addInstance({ ...H100, role: 'prefill', id: 'p' })
    assert.equal(scheduler.snapshot().instances[0]!.kvTokens, kvTokens)
    scheduler.addInstance({ ...H100, role: 'prefill', id: 'p2', kvTokens: 5_000 })
    assert.equal(scheduler.snapshot().instances[2]!.kvTokens, 5_000)
    const other = { ...H100, tp: 8, role: 'prefill', id: 'p3' } as const
    await assert.rejects(async () => scheduler.addInstance(other), {
      code: 'ERR_LAXITY_OPTION',
      place: 'instance.tp',
    })
    assert.ok(scheduler.audit())
    await scheduler.close()
  })

  it('estimates for the model that an instance serves, where it is a known one', async () => {
    const kv = (instance: object) => {
      const { scheduler } = virtual({ cluster: [instance] })
      return scheduler.snapshot().instances[0]!.kvTokens
    }
    const own = kv({ gpu: 'H100', tp: 4, model: 'Llama-3.1-70B' })
    assert.equal(kv({ ...H100, model: 'whatever-clients-say' }), own)
    assert.equal(kv(H100), own)
    assert.ok(kv({ ...H100, precision: 'fp8' }) > own)
    assert.ok(kv({ ...H100, estimateFor: 'llama-3.1-8b' }) > own)
  })

  for (const [instance, place, kind] of [
    [{ gpu: 'h100' }, 'gpu', /no built-in constants: give `tp`/],
    [{ gpu: 'h10', tp: 4, estimateFor: 'llama-3.1-70b' }, 'gpu', /Unknown GPU/],
    [{ gpu: 'nothing' }, 'gpu', /Unknown GPU/],
    [{ ...H100, tp: 3 }, 'tp', /1, 2, 4 or 8/],
    [{ tp: 4, estimateFor: 'llama-3.1-70b' }, 'tp', /needs a `gpu`/],
    [{ gpu: 'h100', tp: 4 }, 'estimateFor', /id of the model/],
    [{ gpu: 'h100', tp: 4, model: 'mine' }, 'estimateFor', /id of the model/],
    [{ ...H100, estimateFor: 'llama-3.1-70' }, 'estimateFor', /did you mean/],
    [{ ...H100, estimateFor: 7 }, 'estimateFor', /model's id/],
    [{ ...H100, precision: 'fp4' }, 'precision', /"bf16" or "fp8"/],
    [{ ...H100, gpu: 'a100-80', precision: 'fp8' }, 'precision', /FP8/],
    [{ ...H100, calibration: 'vlm' }, 'calibration', /Unknown calibration/],
    [{ ...H100, calibration: './mine.json' }, 'calibration', /Unknown calibration/],
    [{ url: 'http://x', precision: 'fp8' }, 'precision', /needs `tp`/],
  ] as const) {
    it(`refuses ${JSON.stringify(instance)}`, async () => {
      await assert.rejects(
        async () => virtual({ cluster: [instance] as never }),
        (error: Error) => {
          const { code: is, place: at } = error as Error & { code: string; place: string }
          assert.deepEqual([is, at], ['ERR_LAXITY_FIELD', `cluster.instances[0].${place}`])
          assert.match(error.message, kind)
          return true
        },
      )
    })
  }

  it('refuses weights that do not fit', async () => {
    const big = { gpu: 'a100-80', tp: 1, estimateFor: 'llama-3.1-70b' }
    assert.equal(await code(() => virtual({ cluster: [big] })), 'ERR_LAXITY_MEMORY')
    const told = { ...big, kvTokens: 1_000 }
    assert.equal(await code(() => virtual({ cluster: [told] })), undefined)
  })
})
