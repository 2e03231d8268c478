import assert from 'node:assert/strict'
import { simulate } from '../../lib/index.ts'
import { native, type TraceColumns } from '../../lib/native.ts'
import { decodeRecord, type EventObject, encodeRecord, RECORD_BYTES } from '../../lib/scheduler/records.ts'
import { RingScheduler } from '../../lib/scheduler/ring.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { assertEmpty, code, instances, virtual } from '../support/live.ts'
import { policy, random, recorded, runOptions, scenario } from '../support/runs.ts'

const EDGES = [
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  2 ** 53 + 2,
  2 ** 63,
  2 ** 64,
]
const MAX_TOKENS = 100_000_000
const MAX_MS = Math.floor(2 ** 62 / 1e6)

/** Integers of 32 bits, doubles of 53 and times of 63: where one ends and the next begins. */
describe('hazard: 2^31 and 2^53 boundaries', () => {
  it('in a trace: accepted up to the limit, refused beyond', () => {
    const status = (name: keyof TraceColumns, value: number) => {
      const { columns } = scenario(6)
      const column = columns[name]!.slice()
      // The last of non-decreasing times.
      column[name === 'arrivalMs' ? column.length - 1 : 0] = value
      return native.statusReasons[new native.Trace({ ...columns, [name]: column }).status]!
    }
    for (const name of ['promptTokens', 'outputTokens', 'predictedTokens'] as const) {
      assert.match(status(name, MAX_TOKENS), /accepted/)
      for (const value of [0, MAX_TOKENS + 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1])
        assert.match(status(name, value), /token count/, `${name} ${value}`)
    }
    for (const name of ['arrivalMs', 'toolGapMs'] as const) {
      assert.match(status(name, MAX_MS - 1), /accepted/)
      for (const value of [MAX_MS * 1.001, 2 ** 53, 2 ** 63, Number.POSITIVE_INFINITY, Number.NaN, -1])
        assert.match(status(name, value), /time/, `${name} ${value}`)
    }
    for (const value of [2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]) {
      for (const name of ['parents', 'firstCall', 'parentOffset'] as const)
        assert.doesNotMatch(status(name, value), /accepted/, `${name} ${value}`)
    }
    for (const name of ['stage', 'tenant'] as const) assert.match(status(name, 65_535), /accepted/)
  })

  it('in a run: the longest times and the largest calls end with a result or a status', () => {
    for (let seed = 1; seed <= 24; seed += 1) {
      const { columns, cluster } = scenario(seed)
      const next = random(seed)
      for (let i = 0; i < columns.promptTokens.length; i += 1) {
        if (next() < 0.2) columns.promptTokens[i] = MAX_TOKENS
        if (next() < 0.2) columns.outputTokens[i] = MAX_TOKENS
        if (next() < 0.3) columns.toolGapMs![i] = MAX_MS - 1
      }
      columns.arrivalMs![columns.arrivalMs!.length - 1] = MAX_MS - 1
      for (const instance of cluster.instances) instance.kvTokens = 10_000_000_000
      const built = new native.Simulator(new native.Trace(columns), cluster)
      const { status, makespanMs } = built.run(runOptions(policy(seed)), {})
      assert.ok(status === 0 ? makespanMs >= 0 : native.statusReasons[status] !== undefined, `seed ${seed}`)
      // And a run that nothing of it is left in.
      const run = runOptions(policy(seed))
      assert.ok(recorded(scenario(seed), run).log.records.length > 0)
    }
  })

  it('in records: numbers that their field cannot hold are refused, others come back', () => {
    const bytes = new Uint8Array(RECORD_BYTES)
    const view = new DataView(bytes.buffer)
    const limits = { u8: 2 ** 8, u16: 2 ** 16, u32: 2 ** 32 } as Record<string, number>
    for (const kind of native.eventLayout.kinds) {
      const object: EventObject = { t: 1, kind: kind.name, parents: [] }
      for (const { name } of kind.fields) object[name === 'kind' ? 'decision' : name] = 1
      bytes.fill(0)
      if (encodeRecord(view, 0, object) !== undefined) continue
      for (const { name, type } of kind.fields) {
        if (name === 'parentCount' || (kind.name === 'moreParents' && name === 'count')) continue
        const field = name === 'kind' ? 'decision' : name
        for (const edge of EDGES) {
          if (!Number.isSafeInteger(edge)) continue
          bytes.fill(0)
          const problem = encodeRecord(view, 0, { ...object, [field]: edge })
          const limit =
            limits[type] ?? (type === 'i16' ? 2 ** 15 : type === 'i32' ? 2 ** 31 : Number.POSITIVE_INFINITY)
          assert.equal(problem === undefined, edge < limit, `${kind.name}.${name} ${edge}: ${problem}`)
          if (problem === undefined) assert.equal(decodeRecord(view, 0)![field], edge)
        }
      }
      for (const t of [2n ** 63n, 2n ** 64n, -(2n ** 63n) - 1n])
        assert.notEqual(encodeRecord(view, 0, { ...object, t }), undefined, `${t}`)
    }
  })

  it('in events: any field at any edge is taken or refused, and the core stays sound', () => {
    const run = runOptions({ ...policy(3), feedback: 'lease' })
    const { log } = recorded(scenario(3), { ...run, lookahead: 1 })
    const { latencies, templates } = log.header.cluster
    const names = new Map(native.eventLayout.kinds.map((kind) => [kind.name, kind]))
    const next = random(17)
    const edges = [0, 1, 255, 65_535, ...EDGES, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e308]
    let refused = 0
    for (let round = 0; round < 60; round += 1) {
      const scheduler = new RingScheduler({ ...run, lookahead: 1, latencies, templates })
      const view = new DataView(log.records.buffer, log.records.byteOffset, log.records.byteLength)
      for (let at = 0; at < log.records.length; at += RECORD_BYTES) {
        const event = decodeRecord(view, at)!
        if (event.kind === 'decide' || event.kind === 'decision') continue
        if (next() < 0.08) {
          const { fields } = names.get(event.kind)!
          const { name, type } = fields[Math.floor(next() * fields.length)]!
          let edge: number | bigint = edges[Math.floor(next() * edges.length)]!
          if (type !== 'f64') edge = Number.isFinite(edge) ? BigInt(Math.trunc(edge)) : 2n ** 62n
          if (type === 'i64') edge = BigInt.asIntN(64, edge as bigint)
          if (type === 'u64') edge = BigInt.asUintN(64, edge as bigint)
          event[name] = edge
          try {
            scheduler.push(event)
          } catch (error) {
            assert.ok(error instanceof TypeError)
            continue
          }
        } else {
          scheduler.push(event)
        }
        scheduler.decide()
        refused += scheduler.refusals.length / 2
      }
      assert.ok(scheduler.audit(), `round ${round}`)
    }
    assert.ok(refused > 100)
  })

  it('in options of the API: coded errors or accepted, never something else', async () => {
    const trace = await chessTrace({ workflows: 3, preset: 1, seed: 1 })
    const cluster = 'hexgen-homo'
    const whole = ['seed', 'replication', 'tieSeed', 'placementSeed', 'lookahead'] as const
    for (const name of [...whole, 'rate', 'sloScale', 'alpha', 'workers', 'chunkTokens'])
      for (const edge of EDGES) {
        if (name === 'workers' && edge < 2 ** 53) continue // that many threads
        const seen = await code(simulate({ trace, cluster, [name]: edge } as never))
        assert.match(seen ?? 'ERR_LAXITY_none', /^ERR_LAXITY_/, `${name} ${edge}`)
      }
    assert.equal(await code(simulate({ trace, cluster, seed: 2 ** 53 - 1 })), undefined)
    assert.equal(await code(simulate({ trace, cluster, seed: 2 ** 53 })), 'ERR_LAXITY_OPTION')
    assert.equal(await code(simulate({ trace, cluster, replication: 2 ** 31 })), undefined)
    assert.equal(await code(simulate({ trace, cluster, replication: 2 ** 31 + 1 })), 'ERR_LAXITY_OPTION')
  })

  it('in live calls: coded errors or accepted, and the state as it was', async () => {
    const { clock, scheduler } = virtual({ cluster: instances(2) })
    const workflow = scheduler.workflow()
    const fields = [
      'promptTokens',
      'outputTokens',
      'predictedOutputTokens',
      'cachedTokens',
      'sequences',
      'remaining',
    ]
    for (const field of fields)
      for (const edge of EDGES) {
        const lease = workflow.call({ promptTokens: 10, [field]: edge } as never)
        lease.catch(() => {})
        await clock.advance(0)
        const seen = await code(lease)
        if (seen === undefined) (await lease).done({ outputTokens: 1 })
        else assert.match(seen, /^ERR_LAXITY_/, `${field} ${edge}`)
      }
    for (const edge of [...EDGES, -1, Number.NaN]) {
      const lease = await workflow.call({ promptTokens: 10 })
      for (const report of [{ outputTokens: edge }, { status: edge }])
        assert.match((await code(() => lease.done(report as never))) ?? 'ERR_LAXITY_none', /^ERR_LAXITY_/)
      lease.done({ outputTokens: 1 })
      await clock.advance(0)
    }
    for (const edge of EDGES) {
      assert.match(
        (await code(() => scheduler.workflow({ sloMs: edge }).end())) ?? 'ERR_LAXITY_none',
        /^ERR_LAXITY_/,
      )
      for (const name of ['alpha', 'queueLimit', 'leaseTtlMs', 'kvTtlMs'])
        await code(() => scheduler.setParameters({ [name]: edge }))
    }
    scheduler.setParameters({ queueLimit: 1000, leaseTtlMs: 1e6, alpha: 0.3 })
    const last = await scheduler.workflow().call({ promptTokens: 10 })
    last.done({ outputTokens: 1 })
    await clock.advance(1)
    assertEmpty(scheduler)
  })
})
