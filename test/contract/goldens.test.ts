import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type NativeCluster, type NativePolynomial, type NativeRun, native } from '../../lib/native.ts'
import { readTrace } from '../../lib/traces/read.ts'
import { arrivals, cluster, GOLDEN, rows } from '../support/hexgen.ts'
import { shared, skipWithout } from '../support/shared.ts'
import { chains } from '../unit/simulator/shared.ts'

function run(options: Pick<NativeRun, 'compat' | 'laws'> & Partial<NativeRun>): NativeRun {
  return {
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
    ...options,
  }
}

/**
 * HexGen-Flow's public simulator under round robin + FCFS, four runs, through the scheduler core: once event-driven
 * (no idle ticks), once with the original's clock. Tolerance 1e-6 s per workflow, as the golden's README says.
 */
async function latencies(trace: 'trace1' | 'trace3', hardware: 'H1' | 'H2', compat: NativeRun['compat']) {
  const table = await readTrace(shared(`data/hexgen-flow/input_file_${trace}.json`))
  const bound = new native.Trace({ ...table.columns, arrivalMs: arrivals(table.workflows) })
  assert.equal(bound.status, 0)
  const latencyMs = new Float64Array(table.workflows)
  const options = run({ compat, laws: compat === 'hexgen' })
  const result = new native.Simulator(bound, cluster(hardware)).run(options, { latencyMs })
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

/**
 * DistServe's simulator with its vLLM backend: one instance that prefills in batches before it decodes. Its prefill-decode
 * backend and splitwise-sim pass in test/native/goldens_test.cc. Tolerance 0.01 ms per request, as the golden's README says.
 */
describe('contract 5: the goldens pass through the core (DistServe, vLLM backend)', () => {
  const FOLDER = 'golden/simdistserve'
  type Backend = Record<'prefill' | 'decoding_smallbs' | 'decoding_largebs', [number, number, number]>

  before(function () {
    skipWithout(this, FOLDER)
  })

  function numbers(file: string): number[][] {
    const [, ...lines] = readFileSync(shared(`${FOLDER}/${file}`), 'utf8')
      .trim()
      .split('\n')
    return lines.map((line) => line.split(',').map(Number))
  }

  /** With what the original adds: 1 ms of pipeline, 2 ms and 0.0001 ms a token of dispatch, one token of context more. */
  function latency({ prefill, decoding_smallbs, decoding_largebs }: Backend): NativePolynomial {
    const [a, b, c] = prefill
    const decode = (fromSequences: number, [base, context, sequence]: [number, number, number]) => ({
      fromSequences,
      baseMs: base + 2,
      perSequenceMs: context + sequence,
      perContextMs: context + 1e-4,
    })
    return {
      kind: 'polynomial',
      prefill: [{ fromTokens: 1, baseMs: a + 3, perTokenMs: b + 1e-4, perTokenSquaredMs: c }],
      decode: [decode(1, decoding_smallbs), decode(95, decoding_largebs)],
    }
  }

  it('TTFT, decode and end-to-end time of every request', () => {
    const requests = numbers('requests.csv')
    const table = chains(requests.map(([, , prompt, output]) => [{ prompt: prompt!, output: output! }]))
    const arrivalMs = Float64Array.from(requests, ([, arrival]) => arrival!)
    const trace = new native.Trace({ ...table.columns, arrivalMs })
    assert.equal(trace.status, 0)
    const { vllm } = JSON.parse(readFileSync(shared(`${FOLDER}/coefficients.json`), 'utf8')) as {
      vllm: Backend
    }
    const cluster: NativeCluster = {
      latencies: [latency(vllm)],
      instances: [
        {
          latency: 0,
          model: 0,
          kvTokens: 1e9,
          maxSequences: 65_535,
          mode: 'prefill-first',
          chunkTokens: 66_144,
          decodeShare: 0,
        },
      ],
      templates: [],
    }
    const firstTokenMs = new Float64Array(requests.length)
    const finishedMs = new Float64Array(requests.length)
    const result = new native.Simulator(trace, cluster).run(
      run({ compat: 'distserve', laws: true, knowledge: 'oracle' }),
      { firstTokenMs, finishedMs },
    )
    assert.equal(native.statusReasons[result.status], native.statusReasons[0])
    for (const [request, ttft, decode, whole] of numbers('expected_vllm.csv') as [
      number,
      number,
      number,
      number,
    ][]) {
      const arrival = arrivalMs[request]!
      const actual = [firstTokenMs[request]! - arrival, finishedMs[request]! - firstTokenMs[request]!]
      for (const [i, expected] of [ttft, decode].entries()) {
        assert.ok(
          Math.abs(actual[i]! - expected) <= 0.01,
          `request ${request}: ${actual[i]} ms, golden ${expected} ms`,
        )
      }
      assert.ok(Math.abs(finishedMs[request]! - arrival - whole) <= 0.01)
    }
  })
})
