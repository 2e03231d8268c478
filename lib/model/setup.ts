import { basename } from 'node:path'
import { LaxityError } from '../errors.ts'
import { type NativeRoofline, native } from '../native.ts'
import { OptionReader } from '../simulator/validate.ts'
import { type ErrorBand, errorBand } from './band.ts'
import { type Calibration, loadCalibration, namedCalibration } from './calibration-file.ts'
import type { GpuConfig, HardwareConfig, ModelConfig, Precision } from './config.ts'
import {
  builtIn,
  checkedGpu,
  checkedModel,
  findGpu,
  findModel,
  findNamedModel,
  type Hardware,
  loadHardware,
} from './hardware.ts'

/** One model on one kind of GPU. */
export interface SetupOptions {
  /** An id (`llama-3.1-70b`, …), the path of a Hugging Face config.json, or sizes. */
  model: string | ModelConfig
  /** An id (`h100`, …) or a description. */
  gpu: string | GpuConfig
  /** Tensor parallelism: 1 (default), 2, 4 or 8. */
  tp?: number | undefined
  /** Of the weights; default `bf16`. */
  precision?: Precision | undefined
  /** Of the KV cache; default `bf16`. */
  kvPrecision?: Precision | undefined
  /** A serving stack (`default`, `vllm`, `trtllm`, `sglang`, `none`) or the path of a file from `laxity calibrate`. */
  calibration?: string | undefined
  /** Further GPUs and models: the path of a hardware file, or its content. */
  hardware?: string | HardwareConfig | undefined
}

export interface Setup {
  /** For tables: the ids, or what the paths end in. */
  model: string
  gpu: string
  spec: NativeRoofline
  calibration: Calibration
  band: ErrorBand
}

export const SETUP_KEYS = [
  'model',
  'gpu',
  'tp',
  'precision',
  'kvPrecision',
  'calibration',
  'hardware',
] as const satisfies readonly (keyof SetupOptions)[]

const PRECISIONS = ['bf16', 'fp8'] as const

/**
 * @throws LaxityError ERR_LAXITY_OPTION for unknown names (with near ones), an impossible tensor parallelism, and FP8
 * where the GPU or the calibration has none; what the files' readers throw. `given` stands in for `hardware`.
 */
export async function resolveSetup(options: SetupOptions, given?: Hardware): Promise<Setup> {
  const reader = new OptionReader(options, SETUP_KEYS)
  const tp = reader.number('tp', 1, '1, 2, 4 or 8', (value) => [1, 2, 4, 8].includes(value))
  const precision = reader.oneOf('precision', PRECISIONS, 'bf16' as const)
  const kvPrecision = reader.oneOf('kvPrecision', PRECISIONS, 'bf16' as const)
  for (const name of ['model', 'gpu'] as const) {
    const value = reader.raw(name)
    if ((typeof value !== 'string' || value === '') && (typeof value !== 'object' || value === null))
      reader.wrong(`a ${name}`, name, value)
  }
  const hardware = given ?? (await absorbing(reader, () => loadHardware(options.hardware)))
  const calibration = await absorbing(reader, () => loadCalibration(options.calibration))
  const known = hardware ?? builtIn
  const llm = await absorbing(reader, () => llmOf(known, options.model))
  const gpu = await absorbing(reader, () => gpuOf(known, options.gpu))
  reader.problems.throwIfAny()

  const names = { model: nameOf(options.model, 'model'), gpu: nameOf(options.gpu, 'GPU') }
  return assemble(names, calibration!, {
    llm: llm!,
    gpu: gpu!,
    tensorParallel: tp,
    weights: precision,
    kv: kvPrecision,
  })
}

/** Of names alone: nothing is read, so it answers at once. */
export interface NamedSetup {
  model: string
  gpu: string
  tp: number
  precision?: Precision | undefined
  kvPrecision?: Precision | undefined
  /** A serving stack. */
  calibration?: string | undefined
}

/** @throws LaxityError ERR_LAXITY_OPTION for the first that is unknown or impossible. */
export function namedSetup({ tp, precision = 'bf16', kvPrecision = 'bf16', ...names }: NamedSetup): Setup {
  const calibration = namedCalibration(names.calibration)
  return assemble({ model: nameOf(names.model, 'model'), gpu: nameOf(names.gpu, 'GPU') }, calibration, {
    llm: findNamedModel(builtIn, names.model),
    gpu: findGpu(builtIn, names.gpu),
    tensorParallel: tp,
    weights: precision,
    kv: kvPrecision,
  })
}

function assemble(
  { model, gpu }: Pick<Setup, 'model' | 'gpu'>,
  calibration: Calibration,
  parts: Omit<NativeRoofline, 'stack'>,
): Setup {
  const spec: NativeRoofline = { ...parts, stack: calibration.stack }
  checkSpec(spec, model, gpu)
  const band = errorBand(model, spec.llm, gpu, spec.gpu, spec.tensorParallel)
  if (calibration.relativeError !== undefined) {
    band.relative = calibration.relativeError
    band.transferred = band.transferred.filter((text) => !text.includes('serving stack'))
  }
  return { model, gpu, spec, calibration, band }
}

/** @throws LaxityError ERR_LAXITY_OPTION where the core would refuse the pair. */
export function checkSpec(spec: NativeRoofline, model: string, gpu: string): void {
  const { llm, tensorParallel: tp } = spec
  if (![1, 2, 4, 8].includes(tp)) {
    throw new LaxityError('ERR_LAXITY_OPTION', `Expected 1, 2, 4 or 8 for \`tp\`, got ${tp}`, 'tp')
  }
  if (llm.queryHeads % tp !== 0) {
    const message = `\`tp\` ${tp} is impossible: ${tp} GPUs cannot share the ${llm.queryHeads} query heads of ${model} evenly`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'tp')
  }
  const { status } = new native.Roofline(spec)
  if (status === 0) return
  if (spec.weights === 'fp8') {
    const message =
      spec.gpu.flops8 === 0
        ? `${gpu} has no FP8 units: \`precision\` must be bf16`
        : `No FP8 kernels were measured for this kind of model on ${gpu}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'precision')
  }
  throw new LaxityError('ERR_LAXITY_OPTION', native.statusReasons[status] ?? `status ${status}`, 'gpu')
}

async function absorbing<T>(reader: OptionReader, load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load()
  } catch (error) {
    reader.problems.absorb(error)
    return undefined
  }
}

async function llmOf(hardware: Hardware, model: unknown): Promise<Setup['spec']['llm'] | undefined> {
  if (typeof model === 'string' && model !== '') return findModel(hardware, model)
  if (typeof model === 'object' && model !== null) return checkedModel(model as ModelConfig)
  return undefined
}

async function gpuOf(hardware: Hardware, gpu: unknown): Promise<Setup['spec']['gpu'] | undefined> {
  if (typeof gpu === 'string' && gpu !== '') return findGpu(hardware, gpu)
  if (typeof gpu === 'object' && gpu !== null) return checkedGpu(gpu as GpuConfig)
  return undefined
}

function nameOf(given: string | object, what: string): string {
  if (typeof given !== 'string') return `custom ${what}`
  if (!/\.json$/i.test(given)) return given.toLowerCase()
  return basename(given).replace(/\.json$/i, '')
}
