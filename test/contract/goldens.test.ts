import assert from 'node:assert/strict'
import { type NativeRun, native } from '../../lib/native.ts'
import { readTrace } from '../../lib/traces/read.ts'
import { arrivals, cluster, GOLDEN, rows } from '../support/hexgen.ts'
import { shared, skipWithout } from '../support/shared.ts'

/**
 * HexGen-Flow's public simulator under round robin + FCFS, four runs, through the scheduler core: once event-driven
 * (no idle ticks), once with the original's clock. Tolerance 1e-6 s per workflow, as the golden's README says.
 */
async function latencies(trace: 'trace1' | 'trace3', hardware: 'H1' | 'H2', compat: NativeRun['compat']) {
  const table = await readTrace(shared(`data/hexgen-flow/input_file_${trace}.json`))
  const bound = new native.Trace({ ...table.columns, arrivalMs: arrivals(table.workflows) })
  assert.equal(bound.status, 0)
  const latencyMs = new Float64Array(table.workflows)
  const run: NativeRun = {
    order: 'fcfs',
    placement: 'round-robin',
    binding: 'at-reveal',
    feedback: 'boundary',
    lookahead: 0,
    knowledge: 'online',
    parameters: {},
    arrivals: 'trace',
    rate: 1,
    seed: 0,
    replication: 0,
    tieSeed: 0,
    sloScale: 5,
    sloBase: 'exclusive',
    compat,
    laws: compat === 'hexgen',
  }
  const result = new native.Simulator(bound, cluster(hardware)).run(run, { latencyMs })
  assert.equal(native.statusReasons[result.status], native.statusReasons[0])
  return latencyMs
}

describe('contract 5: the goldens pass through the core (HexGen-Flow, round robin + FCFS)', () => {
  before(function () {
    skipWithout(this, GOLDEN)
    skipWithout(this, 'data/hexgen-flow')
  })

  for (const trace of ['trace1', 'trace3'] as const) {
    for (const hardware of ['H1', 'H2'] as const) {
      for (const [compat, column] of [
        ['hexgen', 3],
        ['hexgen-ticks', 2],
      ] as const) {
        it(`${trace} on ${hardware}, ${compat}`, async () => {
          const expected = rows(`${trace}_${hardware}_workflows.csv`)
          const actual = await latencies(trace, hardware, compat)
          assert.equal(actual.length, expected.length)
          for (const [w, row] of expected.entries()) {
            const difference = Math.abs(actual[w]! / 1000 - Number(row[column]))
            assert.ok(difference <= 1e-6, `workflow ${w}: ${actual[w]! / 1000} s, golden ${row[column]} s`)
          }
        })
      }
    }
  }
})
