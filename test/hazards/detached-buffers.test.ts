import assert from 'node:assert/strict'
import { simulate } from '../../lib/index.ts'
import { native, type TraceColumns } from '../../lib/native.ts'
import type { PlacementFunction } from '../../lib/scheduler/placement.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { policy, recorded, runOptions, scenario, simulator } from '../support/runs.ts'

const CODED = { name: 'TypeError', code: 'ERR_LAXITY_NATIVE' }

type Column = TraceColumns[keyof TraceColumns]

function detach(column: Column | Float64Array): void {
  structuredClone(column!.buffer, { transfer: [column!.buffer as ArrayBuffer] })
}

/** The same columns over resizable buffers; with `tracking` their lengths follow. */
function resizable(columns: TraceColumns, tracking: boolean): TraceColumns {
  const copy: Record<string, Column> = {}
  for (const [name, column] of Object.entries(columns) as [string, NonNullable<Column>][]) {
    const options = { maxByteLength: column.byteLength + 64 }
    const buffer = new (ArrayBuffer as unknown as new (n: number, o: object) => ArrayBuffer)(
      column.byteLength,
      options,
    )
    const Kind = column.constructor as new (b: ArrayBuffer, at?: number, n?: number) => typeof column
    const twin = tracking ? new Kind(buffer) : new Kind(buffer, 0, column.length)
    twin.set(column)
    copy[name] = twin
  }
  return copy as never
}

function shrink(column: Column): void {
  ;(column!.buffer as unknown as { resize(bytes: number): void }).resize(0)
}

/** JavaScript may take its memory away, or change it, whenever it runs. */
describe('hazard: detached and resized buffers', () => {
  it('columns that are detached, shrunk or overwritten after the binding: the same run', () => {
    for (let seed = 1; seed <= 12; seed += 1) {
      const run = runOptions(policy(seed))
      const expected = recorded(scenario(seed), run).log.records
      for (const spoil of ['detach', 'shrink', 'shrink-tracking', 'overwrite'] as const) {
        const input = scenario(seed)
        if (spoil.startsWith('shrink')) input.columns = resizable(input.columns, spoil !== 'shrink')
        const built = simulator(input)
        for (const column of Object.values(input.columns)) {
          if (spoil === 'detach') detach(column)
          else if (spoil === 'overwrite') column.fill(0xffff)
          else shrink(column)
        }
        assert.deepEqual(built.record(run, {}).log, expected, `seed ${seed}, ${spoil}`)
      }
    }
  })

  it('before the binding: a status or a coded error', () => {
    for (const name of Object.keys(scenario(1).columns) as (keyof TraceColumns)[]) {
      for (const spoil of ['detach', 'shrink', 'shrink-tracking'] as const) {
        const input = scenario(1)
        if (spoil !== 'detach') input.columns = resizable(input.columns, spoil === 'shrink-tracking')
        if (spoil === 'detach') detach(input.columns[name])
        else shrink(input.columns[name])
        let status = -1
        try {
          status = new native.Trace(input.columns).status
        } catch (error) {
          assert.equal((error as { code?: string }).code, CODED.code, `${name}, ${spoil}`)
        }
        assert.notEqual(status, 0, `${name}, ${spoil}`)
      }
    }
  })

  it('by a getter of the columns: what was read before it is not used', () => {
    const { columns, cluster } = scenario(2)
    const spiteful = {
      ...columns,
      get parents() {
        detach(columns.promptTokens)
        return columns.parents
      },
    }
    assert.throws(() => new native.Simulator(new native.Trace(spiteful), cluster), CODED)
  })

  it('outputs: too short, or not shared where a placement could take them away', () => {
    const input = scenario(4)
    const workflows = input.columns.firstCall.length - 1
    const gone = new Float64Array(workflows)
    detach(gone)
    assert.throws(() => simulator(input).run(runOptions(), { latencyMs: gone }), CODED)
    const placement: PlacementFunction = ({ candidates }) => candidates[0]!.instance
    const run = runOptions({ placement })
    const own = { latencyMs: new Float64Array(workflows) }
    assert.throws(() => simulator(input).run(run, own), /SharedArrayBuffer below `latencyMs`/)
    const shared = { latencyMs: new Float64Array(new SharedArrayBuffer(8 * workflows)) }
    assert.equal(simulator(input).run(run, shared).status, 0)
    assert.ok(shared.latencyMs.every((ms) => ms > 0))
  })

  it('ring and results of a scheduler: only shared memory is taken', () => {
    const config = { ...runOptions({ feedback: 'lease' }), latencies: [], templates: [] }
    const bytes = 4 * native.eventLayout.recordBytes
    const shared = () => new Uint8Array(new SharedArrayBuffer(bytes))
    assert.throws(() => new native.Scheduler(config, new Uint8Array(bytes)), CODED)
    assert.throws(() => new native.Scheduler(config, shared(), new Uint8Array(bytes)), CODED)
    assert.equal(new native.Scheduler(config, shared(), shared()).decide(), -1)
  })

  it('through the API: a placement that ruins the trace it runs over', async () => {
    const cluster = 'hexgen-hetero-1'
    const reckon = async (spoil: boolean) => {
      const trace = await chessTrace({ workflows: 12, preset: 1, seed: 5 })
      const own: Record<string, Column> = {}
      for (const [name, column] of Object.entries(trace.columns)) own[name] = column.slice()
      let asked = 0
      const placement: PlacementFunction = ({ candidates }) => {
        asked += 1
        if (spoil && asked === 20)
          for (const [i, column] of Object.values(own).entries()) {
            if (i % 2 === 0) column!.fill(0xffff_ffff)
            else detach(column)
          }
        return candidates[asked % candidates.length]!.instance
      }
      const result = await simulate({
        trace: { ...trace, columns: own as never },
        cluster,
        placement,
        rate: 0.5,
      })
      assert.ok(asked > 20)
      return result.metrics
    }
    assert.deepEqual(await reckon(true), await reckon(false))
  })
})
