import { apply, fitStack } from '../../lib/model/calibrate.ts'
import type { ErrorSummary } from '../../lib/model/calibration-file.ts'
import { errorsOf, kernelsOf, servingKernels } from '../../lib/model/features.ts'
import { type NativeRooflineModel, type NativeStack, native } from '../../lib/native.ts'
import { type Row, readTable } from './data.ts'

/** Measured serving rows with what a stack acts on. */
export interface ServingRows {
  engine: string[]
  model: string[]
  gpu: string[]
  concurrency: number[]
  kernelMs: Float64Array
  sequences: Float64Array
  measuredMs: Float64Array
}

const MODELS: readonly [part: string, id: string][] = [
  ['llama-3.1-8b', 'llama-3.1-8b'],
  ['llama-3.1-70b', 'llama-3.1-70b'],
  ['qwen3-32b', 'qwen3-32b'],
  ['qwen3-235b-a22b', 'qwen3-235b-a22b'],
]
const CHUNK_TOKENS = 8192

/** Every row whose model the constants know and whose request fits: 967, by the recipe in ORIGINS.md. */
export function servingRows(): ServingRows {
  const known = new Map<string, NativeRooflineModel>()
  const rows: ServingRows = {
    engine: [],
    model: [],
    gpu: [],
    concurrency: [],
    kernelMs: new Float64Array(),
    sequences: new Float64Array(),
    measuredMs: new Float64Array(),
  }
  const kernelMs: number[] = []
  const sequences: number[] = []
  const measuredMs: number[] = []
  for (const row of readTable('silicon_e2e.csv.gz')) {
    const setup = setupOf(row)
    if (setup === undefined) continue
    const key = JSON.stringify(setup)
    let kernels = known.get(key)
    if (kernels === undefined) {
      kernels = kernelsOf({
        llm: native.hardware.models[setup.model]!,
        gpu: native.hardware.gpus[setup.gpu]!,
        tensorParallel: setup.tp,
        weights: setup.weights,
        kv: setup.kv,
        stack: { scale: 1, fixedMs: 0, perSequenceMs: 0 },
      })
      known.set(key, kernels)
    }
    const [inputTokens, outputTokens, concurrency] = [
      Number(row.isl),
      Number(row.osl),
      Number(row.batch_size),
    ]
    const { kvTokens } = kernels.memory(0.9, 3e9)
    if (kvTokens < inputTokens + outputTokens) continue
    const batch = Math.min(concurrency, kvTokens / (inputTokens + outputTokens / 2))
    rows.engine.push(row.backend!)
    rows.model.push(setup.model)
    rows.gpu.push(setup.gpu)
    rows.concurrency.push(concurrency)
    kernelMs.push(servingKernels(kernels, { batch, inputTokens, outputTokens, chunkTokens: CHUNK_TOKENS }))
    sequences.push(batch)
    measuredMs.push(Number(row.silicon_tpot_ms))
  }
  return {
    ...rows,
    kernelMs: Float64Array.from(kernelMs),
    sequences: Float64Array.from(sequences),
    measuredMs: Float64Array.from(measuredMs),
  }
}

/**
 * Those of the global fit: without 21 rows that show no prefill interference (prefix-cache hits) and 38 of a build with a
 * slow mixture path.
 */
export function globalRows(rows: ServingRows): number[] {
  return rows.engine.flatMap((engine, row) => {
    const model = rows.model[row]
    return engine === 'vllm' && (model === 'llama-3.1-8b' || model === 'qwen3-235b-a22b') ? [] : [row]
  })
}

export function errorsUnder(stack: NativeStack, rows: ServingRows, which: readonly number[]): ErrorSummary {
  return errorsOf(apply(stack, rows), rows.measuredMs, which)
}

/** Bounds of the published fit. */
const BOUNDS = { low: [0.8, 0, 0], high: [4, 60, 1.5] }

export function refit(rows: ServingRows, which: readonly number[]): NativeStack {
  return fitStack(rows, which, BOUNDS)
}

/** Fits on the rows of all other values of a key and returns the errors on each. */
export function leaveOneOut(
  rows: ServingRows,
  which: readonly number[],
  key: 'model' | 'gpu' | 'engine',
): Map<string, ErrorSummary> {
  const errors = new Map<string, ErrorSummary>()
  for (const value of new Set(which.map((row) => rows[key][row]!))) {
    const inside = which.filter((row) => rows[key][row] === value)
    const outside = which.filter((row) => rows[key][row] !== value)
    errors.set(value, errorsUnder(refit(rows, outside), rows, inside))
  }
  return errors
}

/** Undefined where the recipe leaves the row out. */
export function setupOf(row: Row) {
  const path = row.model_path!.toLowerCase()
  const model = MODELS.find(([part]) => path.includes(part))?.[1]
  const tp = Number(row.tp_size || 1)
  const parallel = Number(row.pp_size || 1) === 1 && Number(row.attention_dp_size || 0) <= 1
  if (model === undefined || !parallel || ![1, 2, 4, 8].includes(tp)) return undefined
  const mode = row.gemm_quant_mode!
  const named = [row.id!, row.precision!].some((text) => text.toLowerCase().includes('fp8'))
  const fp8 = mode.includes('fp8') || path.includes('fp8') || (mode === '' && named)
  const fp8Kv = row.backend === 'trtllm' && fp8 && model === 'llama-3.1-70b'
  return {
    model,
    gpu: row.system!.replace('_sxm', ''),
    tp,
    weights: fp8 ? ('fp8' as const) : ('bf16' as const),
    kv: fp8Kv ? ('fp8' as const) : ('bf16' as const),
  }
}
