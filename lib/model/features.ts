import { LaxityError } from '../errors.ts'
import { type NativeRoofline, type NativeRooflineModel, native } from '../native.ts'
import type { ErrorSummary } from './calibration-file.ts'
import { type MeasuredRows, place, required } from './rows.ts'
import { resolveSetup, type Setup, type SetupOptions } from './setup.ts'

/** What a stack's three numbers act on: time = scale × kernelMs + fixed + perSequence × sequences. */
export interface Features {
  kernelMs: Float64Array
  sequences: Float64Array
  measuredMs: Float64Array
  /** Estimates under each row's own setup. */
  estimatedMs: Float64Array
  /** One per (model, GPU, parallelism, precision). */
  setups: readonly Setup[]
  /** Index into `setups`. */
  setup: Uint32Array
}

/**
 * Mean time per output token of a closed loop of `concurrency` requests, as the sums a stack acts on. Between two of a
 * request's tokens every other request is prefilled once per its output: TPOT = decode(B) + (B − 1) · delta / (osl − 1),
 * delta = what the prompt's chunks add to the iterations that carry them (reference calibration/ORIGINS.md).
 */
export function servingKernels(
  roofline: NativeRooflineModel,
  load: { batch: number; inputTokens: number; outputTokens: number; chunkTokens: number },
): number {
  const { batch, inputTokens, outputTokens, chunkTokens } = load
  const context = batch * (inputTokens + outputTokens / 2)
  const chunks = Math.ceil(inputTokens / chunkTokens)
  const q = inputTokens / chunks
  const rows = [batch, context, 0, 0, 0, batch]
  for (let i = 0; i < chunks; i++) {
    const cached = i * q
    rows.push(batch, context, (q * (2 * cached + q)) / 2, q, cached + q, batch + 1)
  }
  const out = new Float64Array(chunks + 1)
  roofline.iterations(Float64Array.from(rows), out)
  const decode = out[0]!
  let delta = 0
  for (let i = 1; i <= chunks; i++) delta += out[i]! - decode
  return decode + ((batch - 1) * delta) / (outputTokens - 1)
}

const CHUNK_TOKENS = 8192
const KERNELS_ONLY = { scale: 1, fixedMs: 0, perSequenceMs: 0 }

/** A roofline without a stack. */
export function kernelsOf(spec: NativeRoofline): NativeRooflineModel {
  return new native.Roofline({ ...spec, stack: KERNELS_ONLY })
}

/**
 * The features of measured rows. Each row's model, GPU, tp and precision come from its columns, else from the options.
 *
 * @throws LaxityError as resolveSetup; ERR_LAXITY_MEMORY for a serving row that cannot have run: its request alone does
 * not fit.
 */
export async function featuresOf(
  { table, kind }: MeasuredRows,
  options: Partial<SetupOptions>,
): Promise<Features> {
  const { numbers, texts, source, rows } = table
  const measuredMs = numbers[kind === 'iteration' ? 'ms' : 'tpotMs']!
  const kernelMs = new Float64Array(rows)
  const sequences = new Float64Array(rows)
  const estimatedMs = new Float64Array(rows)
  const setup = new Uint32Array(rows)
  const setups: Setup[] = []
  const known = new Map<string, number>()
  const kernels: NativeRooflineModel[] = []
  for (let row = 0; row < rows; row++) {
    const own = {
      model: texts.model?.[row] || options.model,
      gpu: texts.gpu?.[row] || options.gpu,
      tp: numbers.tp?.[row] ?? options.tp,
      precision: texts.precision?.[row] || options.precision,
      kvPrecision: texts.kvPrecision?.[row] || options.kvPrecision,
    }
    const key = JSON.stringify(own)
    let at = known.get(key)
    if (at === undefined) {
      at = setups.length
      setups.push(await setupOf(own, options, place(table, row), source))
      kernels.push(kernelsOf(setups[at]!.spec))
      known.set(key, at)
    }
    setup[row] = at
    const { spec } = setups[at]!
    if (kind === 'iteration') {
      const [batch, context, fresh] = [numbers.batch![row]!, numbers.context![row]!, numbers.newTokens![row]!]
      kernelMs[row] = iterationKernels(kernels[at]!, batch, context, fresh)
      sequences[row] = batch
    } else {
      const [inputTokens, outputTokens] = [numbers.inputTokens![row]!, numbers.outputTokens![row]!]
      const { kvTokens } = kernels[at]!.memory(0.9, Math.min(3e9, spec.gpu.memory))
      if (kvTokens < inputTokens + outputTokens) {
        const message = `A request of ${inputTokens} + ${outputTokens} tokens does not fit: ${setups[at]!.model} on ${spec.tensorParallel} × ${setups[at]!.gpu} has room for ${kvTokens}`
        throw new LaxityError('ERR_LAXITY_MEMORY', message, place(table, row))
      }
      const batch = Math.min(numbers.concurrency![row]!, kvTokens / (inputTokens + outputTokens / 2))
      const load = { batch, inputTokens, outputTokens, chunkTokens: CHUNK_TOKENS }
      kernelMs[row] = servingKernels(kernels[at]!, load)
      sequences[row] = batch
    }
    const { scale, fixedMs, perSequenceMs } = spec.stack
    estimatedMs[row] = scale * kernelMs[row]! + fixedMs + perSequenceMs * sequences[row]!
  }
  return { kernelMs, sequences, measuredMs, estimatedMs, setups, setup }
}

export function errorsOf(
  estimated: Float64Array,
  measured: Float64Array,
  rows?: readonly number[],
): ErrorSummary {
  const errors = (rows ?? Array.from(measured, (_, row) => row)).map(
    (row) => estimated[row]! / measured[row]! - 1,
  )
  const sizes = errors.map(Math.abs).sort((a, b) => a - b)
  const middle = sizes.length >> 1
  const median = sizes.length % 2 === 1 ? sizes[middle]! : (sizes[middle - 1]! + sizes[middle]!) / 2
  const mean = (values: readonly number[]) =>
    values.reduce((total, value) => total + value, 0) / values.length
  return { rows: errors.length, mape: 100 * mean(sizes), median: 100 * median, bias: 100 * mean(errors) }
}

function iterationKernels(
  roofline: NativeRooflineModel,
  batch: number,
  context: number,
  fresh: number,
): number {
  const out = new Float64Array(1)
  const load =
    fresh <= 1
      ? [batch, batch * context, 0, 0, 0, batch]
      : [0, 0, (batch * fresh * (2 * context + fresh)) / 2, batch * fresh, batch * (context + fresh), batch]
  roofline.iterations(Float64Array.from(load), out)
  return out[0]!
}

async function setupOf(
  own: { model: unknown; gpu: unknown; tp: unknown; precision: unknown; kvPrecision: unknown },
  options: Partial<SetupOptions>,
  where: string,
  source: string,
): Promise<Setup> {
  const complete = {
    ...own,
    model: required(own.model, 'model', source),
    gpu: required(own.gpu, 'gpu', source),
    calibration: options.calibration,
    hardware: options.hardware,
  } as SetupOptions
  try {
    return await resolveSetup(complete)
  } catch (error) {
    if (!(error instanceof LaxityError) || error.code !== 'ERR_LAXITY_OPTION') throw error
    throw new LaxityError('ERR_LAXITY_FIELD', error.message, where, { cause: error })
  }
}
