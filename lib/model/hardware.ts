import { dirname, isAbsolute, join } from 'node:path'
import { expected, LaxityError, quote } from '../errors.ts'
import { readJsonFile } from '../json-file.ts'
import { type NativeGpu, type NativeLlm, type NativeStack, native } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import type { GpuConfig, HardwareConfig, ModelConfig } from './config.ts'

/** Built-in and added GPUs and models by id. */
export interface Hardware {
  readonly gpus: ReadonlyMap<string, NativeGpu>
  readonly models: ReadonlyMap<string, NativeLlm>
}

export const calibrationId: string = native.hardware.calibration

/** Ids in the order of suggestions: where two are equally near, the commoner one. */
export const gpuIds: readonly string[] = sortedIds(native.hardware.gpus, 'a100-80')
export const modelIds: readonly string[] = sortedIds(native.hardware.models, 'llama-3.1-70b')
export const stackIds: readonly string[] = Object.keys(native.hardware.stacks)

export const builtIn: Hardware = {
  gpus: new Map(Object.entries(native.hardware.gpus)),
  models: new Map(Object.entries(native.hardware.models)),
}

/** @throws LaxityError with every problem of the file or object, each with its path. */
export async function loadHardware(hardware: string | HardwareConfig | undefined): Promise<Hardware> {
  if (hardware === undefined) return builtIn
  if (typeof hardware === 'string') {
    const config = await readJsonFile(hardware, 'a hardware file')
    return addHardware(await checked(config, `${hardware}: `), dirname(hardware), `${hardware}: `)
  }
  return addHardware(await checked(hardware, 'hardware.'), '.', 'hardware.')
}

/** Adds checked descriptions to the built-in ones; paths of models are relative to `folder`. */
export async function addHardware(
  config: Pick<HardwareConfig, 'gpus' | 'models'>,
  folder: string,
  where: string,
): Promise<Hardware> {
  const problems = new Problems()
  const gpus = new Map(builtIn.gpus)
  const models = new Map(builtIn.models)
  for (const [id, gpu] of Object.entries(config.gpus ?? {})) gpus.set(id, gpuOf(gpu))
  for (const [id, model] of Object.entries(config.models ?? {})) {
    try {
      const sizes = typeof model === 'string' ? await readModelFile(join(folder, model)) : model
      const llm = modelOf(sizes, `${where}models.${id}`, problems)
      if (llm !== undefined) models.set(id, llm)
    } catch (error) {
      problems.absorb(error)
    }
  }
  problems.throwIfAny()
  return { gpus, models }
}

/** @throws LaxityError ERR_LAXITY_OPTION for an id that is not known, naming near ones. */
export function findGpu(hardware: Hardware, id: string): NativeGpu {
  const gpu = hardware.gpus.get(id) ?? hardware.gpus.get(id.toLowerCase())
  if (gpu !== undefined) return gpu
  const known = [...new Set([...gpuIds, ...hardware.gpus.keys()])]
  // "a100" is nearer to the name "h100" than to "a100-80", but not to what was meant.
  const variants = known.filter((name) => name.startsWith(`${id.toLowerCase()}-`))
  const near = variants.length > 0 ? `; did you mean ${variants.map(quote).join(' or ')}?` : hint(id, known)
  throw new LaxityError('ERR_LAXITY_OPTION', `Unknown GPU ${quote(id)}${near}`, 'gpu')
}

/** @throws LaxityError ERR_LAXITY_OPTION for an id that is not known, naming near ones. */
export function findNamedModel(hardware: Hardware, id: string): NativeLlm {
  const llm = hardware.models.get(id) ?? hardware.models.get(id.toLowerCase())
  if (llm !== undefined) return llm
  const known = new Set([...modelIds, ...hardware.models.keys()])
  throw new LaxityError('ERR_LAXITY_OPTION', `Unknown model ${quote(id)}${hint(id, known)}`, 'model')
}

/** A model's sizes by id, or from the path of a file: a Hugging Face config.json, or this package's sizes. */
export async function findModel(hardware: Hardware, id: string): Promise<NativeLlm> {
  const known = hardware.models.has(id) || hardware.models.has(id.toLowerCase())
  if (known || (!/\.json$/i.test(id) && !isAbsolute(id))) return findNamedModel(hardware, id)
  const problems = new Problems()
  const sizes = modelOf(await readModelFile(id), id, problems)
  problems.throwIfAny()
  return sizes!
}

/** @throws LaxityError ERR_LAXITY_FIELD with every problem of an object given as a model. */
export async function checkedModel(config: ModelConfig): Promise<NativeLlm> {
  const problems = new Problems()
  const sizes = await checkedSizes(config, 'model', problems)
  const llm = sizes && modelOf(sizes, 'model', problems)
  problems.throwIfAny()
  return llm!
}

/** @throws LaxityError ERR_LAXITY_FIELD with every problem of an object given as a GPU. */
export async function checkedGpu(config: GpuConfig): Promise<NativeGpu> {
  const [{ gpuSchema }, { reportIssues }] = await Promise.all([import('./schema.ts'), import('./issues.ts')])
  const problems = new Problems()
  reportIssues(gpuSchema, config, 'gpu.', problems)
  problems.throwIfAny()
  return gpuOf(config)
}

export function findStack(name: string): NativeStack {
  const stack = Object.hasOwn(native.hardware.stacks, name) ? native.hardware.stacks[name] : undefined
  if (stack !== undefined) return stack
  throw new LaxityError(
    'ERR_LAXITY_OPTION',
    `Unknown stack ${quote(name)}${hint(name, stackIds)}`,
    'calibration',
  )
}

async function readModelFile(path: string): Promise<ModelConfig> {
  const content = await readJsonFile(path, 'a model description')
  const problems = new Problems()
  const sizes = await checkedSizes(content, path, problems)
  problems.throwIfAny()
  return sizes!
}

async function checkedSizes(
  content: unknown,
  place: string,
  problems: Problems,
): Promise<ModelConfig | undefined> {
  const where = place === 'model' ? 'model.' : `${place}: `
  const { fromHuggingFace, isHuggingFace } = await import('./huggingface.ts')
  if (isHuggingFace(content)) return fromHuggingFace(content, where, problems)
  const [{ modelSchema }, { reportIssues }] = await Promise.all([
    import('./schema.ts'),
    import('./issues.ts'),
  ])
  return reportIssues(modelSchema, content, where, problems) ? (content as ModelConfig) : undefined
}

async function checked(config: unknown, where: string): Promise<HardwareConfig> {
  const [{ hardwareSchema }, { reportIssues }] = await Promise.all([
    import('./schema.ts'),
    import('./issues.ts'),
  ])
  const problems = new Problems()
  reportIssues(hardwareSchema, config, where, problems)
  problems.throwIfAny()
  return config as HardwareConfig
}

export function gpuOf(gpu: GpuConfig): NativeGpu {
  const interconnect = gpu.interconnect ?? 'pcie'
  const pcie = (gpu.pcieGBps ?? 32) * 1e9
  return {
    flops16: gpu.bf16Tflops * 1e12,
    flops8: (gpu.fp8Tflops ?? 0) * 1e12,
    bandwidth: gpu.memoryGBps * 1e9,
    memory: gpu.memoryGB * 1e9,
    peer: gpu.peerGBps === undefined ? (interconnect === 'switched' ? 300e9 : pcie) : gpu.peerGBps * 1e9,
    network: (gpu.networkGBps ?? 25) * 1e9,
    pcie,
    interconnect,
    kernels: gpu.kernels,
    transferred: true,
  }
}

/** What relates one size to another is checked here. */
export function modelOf(model: ModelConfig, where: string, problems: Problems): NativeLlm | undefined {
  const before = problems.count
  const wrong = (message: string, field: string) =>
    problems.add(
      'ERR_LAXITY_FIELD',
      message,
      /\.json$/i.test(where) ? `${where}: ${field}` : `${where}.${field}`,
    )
  const { experts = 0, expertsPerToken = 0, expertWidth = 0, ffn = 0, queryHeads } = model
  const { kvHeads = queryHeads, headDim = model.hidden / queryHeads, gated = true } = model
  if (!Number.isInteger(headDim)) wrong(expected('the size of a head', 'headDim', undefined), 'headDim')
  if (kvHeads > queryHeads || queryHeads % kvHeads !== 0) {
    wrong(`${queryHeads} query heads cannot share ${kvHeads} KV heads evenly`, 'kvHeads')
  }
  if (experts > 0) {
    if (expertsPerToken < 1 || expertsPerToken > experts)
      wrong(
        expected(`a whole number from 1 to ${experts}`, 'expertsPerToken', model.expertsPerToken),
        'expertsPerToken',
      )
    if (expertWidth < 1)
      wrong(expected('the width of an expert', 'expertWidth', model.expertWidth), 'expertWidth')
    if (ffn > 0) wrong('A model has either `ffn` or `experts`', 'ffn')
    if (!gated) wrong('Experts without a gate are not modelled', 'gated')
  } else if (ffn < 1) {
    wrong(expected('the width of the feed-forward layer', 'ffn', model.ffn), 'ffn')
  }
  if (problems.count > before) return undefined
  return {
    layers: model.layers,
    hidden: model.hidden,
    queryHeads,
    kvHeads,
    headDim,
    ffn,
    vocabulary: model.vocabulary,
    gated,
    tiedEmbeddings: model.tiedEmbeddings ?? false,
    experts,
    expertsPerToken,
    expertWidth,
  }
}

function sortedIds(entries: Readonly<Record<string, unknown>>, first: string): string[] {
  return [first, ...Object.keys(entries).filter((id) => id !== first)]
}
