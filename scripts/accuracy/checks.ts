import type { ErrorSummary } from '../../lib/model/calibration-file.ts'
import { Estimator } from '../../lib/model/estimate.ts'
import { errorsOf } from '../../lib/model/features.ts'
import { resolveSetup } from '../../lib/model/setup.ts'
import { native } from '../../lib/native.ts'
import { readTable } from './data.ts'
import { setupOf } from './serving.ts'

// Measurements that no constant was fitted to.

/** GEMMs of vidur's profiles by GPU; tokens at least 512 apart. */
export function vidurGemms(): Map<string, { all: ErrorSummary; large: ErrorSummary }> {
  const peaks = { a100: 'a100-80', h100: 'h100', a40: 'a40' } as const
  const found = new Map<string, { all: ErrorSummary; large: ErrorSummary }>()
  for (const [gpu, id] of Object.entries(peaks)) {
    const peak = native.hardware.gpus[id]!
    const constants = native.hardware.kernelSets[peak.kernels]!.gemm16!
    const columns: number[] = []
    const measured: number[] = []
    const large: number[] = []
    for (const row of readTable('vidur_mlp.csv.gz')) {
      if (row.gpu !== gpu) continue
      const [heads, kvHeads, hidden, ffn, tokens, tp] = [
        'n_head',
        'n_kv_head',
        'n_embd',
        'n_expanded_embd',
        'num_tokens',
        'num_tensor_parallel_workers',
      ].map((name) => Number(row[name])) as [number, number, number, number, number, number]
      const head = hidden / heads
      const shapes: [n: number, k: number, ms: string][] = [
        [((heads + 2 * kvHeads) * head) / tp, hidden, row.attn_pre_proj!],
        [hidden, (heads * head) / tp, row.attn_post_proj!],
        [(2 * ffn) / tp, hidden, row.mlp_up_proj!],
        [hidden, ffn / tp, row.mlp_down_proj!],
      ]
      for (const [n, k, ms] of shapes) {
        if (tokens >= 512) large.push(measured.length)
        columns.push(peak.flops16, peak.bandwidth, tokens, n, k, 2)
        measured.push(Number(ms))
      }
    }
    const times = new Float64Array(measured.length)
    native.kernelTimes('gemm', Float64Array.from(constants), Float64Array.from(columns), times)
    const truth = Float64Array.from(measured)
    found.set(gpu, { all: errorsOf(times, truth), large: errorsOf(times, truth, large) })
  }
  return found
}

/** HexGen-Flow's published seconds per token, Llama-3.1-70B at TP 4, batch 1, 2,000 tokens, no stack. */
export async function hexgenTokens(): Promise<
  { gpu: string; id: string; measured: number; estimated: number }[]
> {
  const ids: Readonly<Record<string, string>> = { A100: 'a100-40', A6000: 'a6000', L40S: 'l40s' }
  return Promise.all(
    readTable('hexgenflow_decode.csv').map(async (row) => {
      const id = ids[row.gpu!]!
      const setup = await resolveSetup({ model: 'llama-3.1-70b', gpu: id, tp: 4, calibration: 'none' })
      const estimated = new Estimator(setup, 0.9, 3e9).decodeMs(1, 2000)
      return { gpu: row.gpu!, id, measured: 1000 * Number(row.s_per_token), estimated }
    }),
  )
}

/** Time to first token at concurrency up to 8 against the prefill alone, by engine. */
export async function firstTokens(): Promise<Map<string, ErrorSummary>> {
  const estimators = new Map<string, Estimator>()
  const byEngine = new Map<string, { estimated: number[]; measured: number[] }>()
  for (const row of readTable('silicon_e2e.csv.gz')) {
    const setup = setupOf(row)
    if (setup === undefined || Number(row.batch_size) > 8 || !(Number(row.silicon_ttft_ms) > 0)) continue
    const key = JSON.stringify(setup)
    let estimator = estimators.get(key)
    if (estimator === undefined) {
      const { model, gpu, tp, weights, kv } = setup
      estimator = new Estimator(
        await resolveSetup({ model, gpu, tp, precision: weights, kvPrecision: kv }),
        0.9,
        3e9,
      )
      estimators.set(key, estimator)
    }
    const list = byEngine.get(row.backend!) ?? { estimated: [], measured: [] }
    byEngine.set(row.backend!, list)
    list.estimated.push(estimator.prefillMs({ newTokens: Number(row.isl), chunkTokens: 8192 }))
    list.measured.push(Number(row.silicon_ttft_ms))
  }
  return new Map(
    [...byEngine].map(([engine, { estimated, measured }]) => [
      engine,
      errorsOf(Float64Array.from(estimated), Float64Array.from(measured)),
    ]),
  )
}
