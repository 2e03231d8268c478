import { checkRole } from '../cluster/check-roles.ts'
import type { LatencyConfig } from '../cluster/config.ts'
import { findGpu, GPUS } from '../cluster/gpus.ts'
import { LIMITS } from '../cluster/limits.ts'
import { ENGINE_MODES, type EngineMode } from '../cluster/modes.ts'
import { ROLES, type Role } from '../cluster/roles.ts'
import { expected, quote } from '../errors.ts'
import type { Precision } from '../model/config.ts'
import { gpuIds, modelIds, stackIds } from '../model/hardware.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'

/** How an engine takes a priority in its requests; off unless given (reference: priority polarity). */
export interface EnginePriority {
  /** 1: larger is earlier (SGLang, TensorRT-LLM); -1: smaller is earlier (vLLM). */
  sign: 1 | -1
  min?: number | undefined
  max?: number | undefined
  /** Priorities are divided by it before they are clipped; default 1 (ms). */
  divideBy?: number | undefined
  /** Where adapters put it in a request's body, names joined by dots (`nvext.agent_hints.priority`); default `priority`. */
  field?: string | undefined
}

/** One engine behind the scheduler. */
export interface LiveInstance {
  /** Unique; the same id coming back re-adopts its leases. Default: the URL (with `#rank`), else the GPU's or latency's name with a number. */
  id?: string | undefined
  url?: string | undefined
  /** One data-parallel rank of the engine behind `url`, from 0: each is an instance of its own. */
  rank?: number | undefined
  /** How many ranks that engine has: SGLang's bootstrap chooses among them by its room. */
  ranks?: number | undefined
  /** A GPU with built-in constants: `a100`, `a6000`, `l40s`. With `tp`, one of the calibrated model: `a100-80`, `h100`, … */
  gpu?: string | undefined
  /** Tensor parallelism, 1, 2, 4 or 8: times and KV capacity are estimated (docs/latency-model.md). */
  tp?: number | undefined
  /** With `tp`, the id of the model that is estimated, `llama-3.1-70b`, …; default `model`, where that is such an id. */
  estimateFor?: string | undefined
  /** Of the weights, with `tp`; default `bf16`. */
  precision?: Precision | undefined
  /** Of the KV cache, with `tp`; default `bf16`. */
  kvPrecision?: Precision | undefined
  /** With `tp`: a serving stack's name. */
  calibration?: string | undefined
  /** Or an id of `latencies`, or the latency itself; then `kvTokens` is required. */
  latency?: string | LatencyConfig | undefined
  /** With neither `gpu` nor `latency`, speed is learned from the leases it serves. */
  /** Which model it serves; left out: whatever no other instance names. */
  model?: string | undefined
  /** LoRA adapters of that model that it serves too: calls may name one as their model. At most 64 in all. */
  adapters?: readonly string[] | undefined
  /** KV cache in tokens; default the GPU's, with `tp` what fits beside the weights; where speed is learned, unlimited. */
  kvTokens?: number | undefined
  /** Running sequences; default the GPU's, else 256; 32 where speed is learned. */
  maxSequences?: number | undefined
  /** How many such instances; default 1. Not with `id` or `url`. */
  count?: number | undefined
  /** How the engine mixes prefill and decode; default `prefill-first`, `chunked` where speed is learned. */
  mode?: EngineMode | undefined
  /** Mode `chunked`: tokens of an iteration's budget, decodes included; default 8192. */
  chunkTokens?: number | undefined
  /** Mode `decode-share`: speed of decode beside a prefill, which gets the rest; 0.001 to 0.999, default 0.5. */
  decodeShare?: number | undefined
  /** Default `unified`. A cluster is unified, or prefill and decode, as a whole. */
  role?: Role | undefined
  /** Roles `prefill` and `decode`, as in cluster files: what this end of a link carries, 10⁹ bytes/s. */
  linkGBps?: number | undefined
  /** Fixed part of a transfer; the larger of both ends counts. */
  linkLatencyMs?: number | undefined
  /** Bytes sent / bytes of KV; default 1. */
  linkCompression?: number | undefined
  /** KV of a token; required with `latency`, a 70B model's where nothing is known. */
  kvBytesPerToken?: number | undefined
  /** Role `prefill`, and mode `prefill-first`: prompts run as one batch up to so many tokens; default: one at a time. */
  prefillBatchTokens?: number | undefined
  /** Role `prefill` behind SGLang: where decode instances reach its bootstrap server; default the URL's host, port 8998. */
  bootstrap?: { host?: string | undefined; port?: number | undefined } | undefined
  priority?: EnginePriority | undefined
  /**
   * Leases beyond the prefill that runs may be taken back while they have no first token: when something more urgent
   * waits, or when the instance closes. The lease's signal aborts. Of a pair both must say so. Default false.
   */
  revoke?: boolean | undefined
}

const KEYS = [
  'id',
  'url',
  'rank',
  'ranks',
  'gpu',
  'tp',
  'estimateFor',
  'precision',
  'kvPrecision',
  'calibration',
  'latency',
  'model',
  'adapters',
  'kvTokens',
  'maxSequences',
  'count',
  'mode',
  'chunkTokens',
  'decodeShare',
  'role',
  'linkGBps',
  'linkLatencyMs',
  'linkCompression',
  'kvBytesPerToken',
  'prefillBatchTokens',
  'bootstrap',
  'priority',
  'revoke',
] as const satisfies readonly (keyof LiveInstance)[]
const MAX_TEXT = 256
const MAX_RANKS = 65_536
export const UNLIMITED_KV = 10_000_000_000

/** Checks one instance; `known`: the cluster's latencies by id. */
export function checkInstance(
  instance: unknown,
  known: Readonly<Record<string, LatencyConfig>>,
  where: string,
  problems: Problems,
): instance is LiveInstance {
  const before = problems.count
  const wrong = (what: string, field: string, got: unknown) =>
    problems.add('ERR_LAXITY_FIELD', expected(what, field, got), `${where}.${field}`)
  if (!isRecord(instance)) {
    problems.add('ERR_LAXITY_FIELD', expected('an object', where, instance), where)
    return false
  }
  for (const name of Object.keys(instance)) {
    if (!(KEYS as readonly string[]).includes(name))
      problems.add('ERR_LAXITY_FIELD', `Unknown field \`${name}\`${hint(name, KEYS)}`, `${where}.${name}`)
  }
  for (const name of ['id', 'url', 'model', 'gpu'] as const) {
    const value = instance[name]
    if (value !== undefined && !isText(value)) wrong(`a text of 1 to ${MAX_TEXT} characters`, name, value)
  }
  if (isText(instance.url) && !URL.canParse(instance.url)) wrong('a URL', 'url', instance.url)
  const { rank, ranks } = instance
  if (ranks !== undefined && !isWhole(ranks, 1, MAX_RANKS))
    wrong(`a whole number from 1 to ${MAX_RANKS}`, 'ranks', ranks)
  else if (rank !== undefined && !isWhole(rank, 0, (ranks ?? MAX_RANKS) - 1))
    wrong(`a whole number from 0 to ${(ranks ?? MAX_RANKS) - 1}`, 'rank', rank)
  else if (ranks !== undefined && rank === undefined) wrong('which of the `ranks`', 'rank', rank)
  checkHardware(instance, where, problems, wrong)
  const { gpu, latency, kvTokens, maxSequences, count, adapters, priority } = instance
  if (gpu !== undefined && latency !== undefined)
    problems.add('ERR_LAXITY_FIELD', 'Expected either `gpu` or `latency`, got both', where)
  if (typeof latency === 'string' && !Object.hasOwn(known, latency)) {
    const message = `Unknown latency ${quote(latency)}${hint(latency, Object.keys(known))}`
    problems.add('ERR_LAXITY_FIELD', message, `${where}.latency`)
  } else if (latency !== undefined && typeof latency !== 'string') {
    checkLatency(latency, `${where}.latency`, problems)
  }
  if (latency !== undefined && kvTokens === undefined)
    wrong('the KV cache size in tokens', 'kvTokens', kvTokens)
  if (kvTokens !== undefined && !isWhole(kvTokens, 1, UNLIMITED_KV))
    wrong(`a whole number from 1 to ${UNLIMITED_KV}`, 'kvTokens', kvTokens)
  if (maxSequences !== undefined && !isWhole(maxSequences, 1, LIMITS.sequences))
    wrong(`a whole number from 1 to ${LIMITS.sequences}`, 'maxSequences', maxSequences)
  if (count !== undefined && !isWhole(count, 1, LIMITS.instances))
    wrong(`a whole number from 1 to ${LIMITS.instances}`, 'count', count)
  if (count !== undefined && count !== 1 && (instance.id !== undefined || instance.url !== undefined))
    problems.add('ERR_LAXITY_FIELD', 'Expected no `count` beside an `id` or a `url`', `${where}.count`)
  const { mode, chunkTokens, decodeShare } = instance
  if (mode !== undefined && !ENGINE_MODES.includes(mode as EngineMode))
    wrong(`one of ${ENGINE_MODES.join(', ')}`, 'mode', mode)
  if (chunkTokens !== undefined && !isWhole(chunkTokens, 1, LIMITS.chunkTokens))
    wrong(`a whole number from 1 to ${LIMITS.chunkTokens}`, 'chunkTokens', chunkTokens)
  else if (chunkTokens !== undefined && modeOf(instance) !== 'chunked')
    problems.add(
      'ERR_LAXITY_FIELD',
      'Expected `chunkTokens` only with mode "chunked"',
      `${where}.chunkTokens`,
    )
  const { leastDecodeShare: least, mostDecodeShare: most } = LIMITS
  if (
    decodeShare !== undefined &&
    !(typeof decodeShare === 'number' && decodeShare >= least && decodeShare <= most)
  )
    wrong(`a number from ${least} to ${most}`, 'decodeShare', decodeShare)
  else if (decodeShare !== undefined && mode !== 'decode-share')
    problems.add(
      'ERR_LAXITY_FIELD',
      'Expected `decodeShare` only with mode "decode-share"',
      `${where}.decodeShare`,
    )
  checkPair(instance, where, problems, wrong)
  if (instance.revoke !== undefined && typeof instance.revoke !== 'boolean')
    wrong('true or false', 'revoke', instance.revoke)
  if (adapters !== undefined && !(Array.isArray(adapters) && adapters.every(isText)))
    wrong('a list of names', 'adapters', adapters)
  if (priority !== undefined && !isPriority(priority))
    wrong('{ sign: 1 | -1, min?, max?, divideBy?, field? }', 'priority', priority)
  return problems.count === before
}

/** A GPU with constants, or with `tp` one that the estimates know, and then a model that they know. */
function checkHardware(
  instance: Record<string, unknown>,
  where: string,
  problems: Problems,
  wrong: (what: string, field: string, got: unknown) => void,
): void {
  const { gpu, tp, model } = instance
  const unknown = (what: string, name: unknown, known: readonly string[], field: string) =>
    problems.add(
      'ERR_LAXITY_FIELD',
      `Unknown ${what} ${quote(String(name))}${hint(String(name), known)}`,
      `${where}.${field}`,
    )
  const labels = Object.values(GPUS).map(({ label }) => label)
  if (tp === undefined) {
    for (const field of ['estimateFor', 'precision', 'kvPrecision', 'calibration'])
      if (instance[field] !== undefined)
        problems.add('ERR_LAXITY_FIELD', `\`${field}\` needs \`tp\``, `${where}.${field}`)
    if (!isText(gpu) || findGpu(gpu) !== undefined) return
    if (!gpuIds.includes(gpu.toLowerCase())) unknown('GPU', gpu, [...labels, ...gpuIds], 'gpu')
    else {
      const message = `GPU ${quote(gpu)} has no built-in constants: give \`tp\` for an estimate`
      problems.add('ERR_LAXITY_FIELD', message, `${where}.gpu`)
    }
    return
  }
  if (![1, 2, 4, 8].includes(tp as number)) wrong('1, 2, 4 or 8', 'tp', tp)
  if (gpu === undefined) problems.add('ERR_LAXITY_FIELD', '`tp` needs a `gpu`', `${where}.tp`)
  else if (isText(gpu) && !gpuIds.includes(gpu.toLowerCase())) unknown('GPU', gpu, gpuIds, 'gpu')
  const { estimateFor, calibration } = instance
  const names = estimateFor ?? model
  if (estimateFor !== undefined && !isText(estimateFor)) wrong("a model's id", 'estimateFor', estimateFor)
  else if (!isText(names) || !modelIds.includes(names.toLowerCase())) {
    if (estimateFor !== undefined) unknown('model', estimateFor, modelIds, 'estimateFor')
    else wrong('the id of the model that is estimated', 'estimateFor', undefined)
  }
  for (const field of ['precision', 'kvPrecision'])
    if (instance[field] !== undefined && instance[field] !== 'bf16' && instance[field] !== 'fp8')
      wrong('"bf16" or "fp8"', field, instance[field])
  if (calibration !== undefined && !stackIds.includes(calibration as string))
    unknown('calibration', calibration, stackIds, 'calibration')
}

/** What goes with roles `prefill` and `decode`. */
function checkPair(
  instance: Record<string, unknown>,
  where: string,
  problems: Problems,
  wrong: (what: string, field: string, got: unknown) => void,
): void {
  const { role, latency, kvBytesPerToken, bootstrap } = instance
  if (role !== undefined && !ROLES.includes(role as Role)) {
    wrong(`one of ${ROLES.join(', ')}`, 'role', role)
    return
  }
  checkRole(instance, where, problems)
  if (
    role !== undefined &&
    role !== 'unified' &&
    typeof latency === 'object' &&
    kvBytesPerToken === undefined
  )
    wrong('the KV of a token in bytes', 'kvBytesPerToken', kvBytesPerToken)
  const within = (field: string, low: number, high: number) => {
    const value = instance[field]
    if (value !== undefined && !(typeof value === 'number' && value >= low && value <= high))
      wrong(`a number from ${low} to ${high}`, field, value)
  }
  within('linkGBps', LIMITS.leastLinkGBps, LIMITS.linkGBps)
  within('linkLatencyMs', 0, LIMITS.linkLatencyMs)
  within('linkCompression', LIMITS.leastLinkCompression, LIMITS.linkCompression)
  within('kvBytesPerToken', 1, LIMITS.kvBytes)
  const { prefillBatchTokens: batch } = instance
  if (batch !== undefined && !isWhole(batch, 1, LIMITS.chunkTokens))
    wrong(`a whole number from 1 to ${LIMITS.chunkTokens}`, 'prefillBatchTokens', batch)
  else if (
    batch !== undefined &&
    instance.mode === undefined &&
    modeOf(instance) !== 'prefill-first' &&
    (role ?? 'unified') === 'unified'
  )
    problems.add(
      'ERR_LAXITY_FIELD',
      'Expected `mode` "prefill-first" beside `prefillBatchTokens`: an engine of unknown speed is taken to be chunked',
      `${where}.prefillBatchTokens`,
    )
  if (bootstrap === undefined) return
  const good =
    isRecord(bootstrap) &&
    Object.keys(bootstrap).every((name) => name === 'host' || name === 'port') &&
    (bootstrap.host === undefined || isText(bootstrap.host)) &&
    (bootstrap.port === undefined || isWhole(bootstrap.port, 1, 65_535))
  if (!good) wrong('{ host?, port? }', 'bootstrap', bootstrap)
  else if (role !== 'prefill')
    problems.add('ERR_LAXITY_FIELD', '`bootstrap` needs `role` "prefill"', `${where}.bootstrap`)
}

/** Nothing is known of an engine whose speed is learned: it is taken to be chunked, as most are. */
export function modeOf({ mode, gpu, latency }: LiveInstance): EngineMode {
  return mode ?? (gpu === undefined && latency === undefined ? 'chunked' : 'prefill-first')
}

export function checkLatency(latency: unknown, where: string, problems: Problems): void {
  if (!isRecord(latency)) {
    problems.add('ERR_LAXITY_FIELD', expected('an object', where, latency), where)
    return
  }
  const inRange = (name: string, low: number, high: number, required: boolean) => {
    const value = latency[name]
    if (value === undefined && !required) return
    if (typeof value !== 'number' || !(value >= low && value <= high))
      problems.add(
        'ERR_LAXITY_FIELD',
        expected(`a number from ${low} to ${high}`, name, value),
        `${where}.${name}`,
      )
  }
  inRange('decodeBaseMs', LIMITS.leastDecodeMs, LIMITS.baseMs, true)
  inRange('decodePerSequenceMs', 0, LIMITS.slopeMs, false)
  inRange('decodePerContextMs', 0, LIMITS.slopeMs, false)
  if (latency.kind === 'constants') {
    inRange('prefillBaseMs', 0, LIMITS.baseMs, false)
    inRange('prefillPerTokenMs', 0, LIMITS.slopeMs, true)
  } else if (latency.kind === 'table') {
    const knots = latency.prefill
    const good =
      Array.isArray(knots) &&
      knots.length > 0 &&
      knots.every(
        (knot, i) =>
          Array.isArray(knot) &&
          isWhole(knot[0], 1, LIMITS.tokens) &&
          typeof knot[1] === 'number' &&
          knot[1] >= LIMITS.leastDecodeMs &&
          knot[1] <= LIMITS.tableMs &&
          (i === 0 || (knot[0] > knots[i - 1][0] && knot[1] >= knots[i - 1][1])),
      )
    if (!good)
      problems.add(
        'ERR_LAXITY_FIELD',
        expected('ascending [tokens, ms] whose times never fall', 'prefill', knots),
        `${where}.prefill`,
      )
  } else {
    problems.add(
      'ERR_LAXITY_FIELD',
      expected('"constants" or "table"', 'kind', latency.kind),
      `${where}.kind`,
    )
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_TEXT
}

function isWhole(value: unknown, low: number, high: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= low && (value as number) <= high
}

function isPriority(value: unknown): value is EnginePriority {
  if (!isRecord(value) || (value.sign !== 1 && value.sign !== -1)) return false
  const { sign: _, min = -Infinity, max = Infinity, divideBy = 1, field = 'priority', ...rest } = value
  return (
    Object.keys(rest).length === 0 &&
    typeof min === 'number' &&
    typeof max === 'number' &&
    min <= max &&
    isText(field) &&
    field.split('.').every((name) => name !== '' && name !== '__proto__') &&
    typeof divideBy === 'number' &&
    divideBy > 0 &&
    Number.isFinite(divideBy)
  )
}
