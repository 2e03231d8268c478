import { expected, quote } from '../errors.ts'
import { gpuIds, modelIds, stackIds } from '../model/hardware.ts'
import { reportIssues } from '../model/issues.ts'
import { gpuSchema, modelSchema } from '../model/schema.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'
import { checkRole, checkRoles } from './check-roles.ts'
import type { ClusterConfig } from './config.ts'
import { findGpu, GPUS } from './gpus.ts'
import { LIMITS } from './limits.ts'
import { checkRegimes, REGIME_FIELDS } from './polynomial.ts'
import { LINK_FIELDS } from './roles.ts'
import { clusterSchema } from './schema.ts'

type Path = readonly PropertyKey[]
type Issue = NonNullable<ReturnType<typeof clusterSchema.safeParse>['error']>['issues'][number]

/**
 * Checks a cluster's description and reports every problem, each with its path below `where` (`file: `
 * or `cluster.`). True when there was none.
 */
export function checkCluster(config: unknown, where: string, problems: Problems): config is ClusterConfig {
  const before = problems.count
  const parsed = clusterSchema.safeParse(config)
  const seen = new Set<string>()
  for (const issue of parsed.error?.issues ?? []) reportIssue(issue, config, where, seen, problems)
  checkRelations(config, where, problems)
  return problems.count === before
}

function reportIssue(
  issue: Issue,
  config: unknown,
  where: string,
  seen: Set<string>,
  problems: Problems,
): void {
  const path = dotted(issue.path)
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) {
      problems.add(
        'ERR_LAXITY_FIELD',
        `Unknown field \`${key}\`${hint(key, knownFields(issue.path))}`,
        where + dotted([...issue.path, key]),
      )
    }
    return
  }
  if (seen.has(path)) return
  seen.add(path)
  const got = valueAt(config, issue.path)
  if (issue.code === 'invalid_union' && issue.path[0] === 'models' && isRecord(got)) {
    // Sizes that are wrong: what is wrong with them says more than that they are no path.
    reportIssues(modelSchema, got, `${where}${path}.`, problems)
    return
  }
  const kinds = issue.code === 'invalid_union' && issue.path.at(-1) === 'kind'
  const what = kinds ? '"constants", "table", "profile" or "polynomial"' : issue.message
  const empty = issue.code === 'too_small' && path === 'instances'
  const message = empty
    ? 'No instances: a cluster needs at least one'
    : expected(what, String(lastName(issue.path)), got)
  problems.add(empty ? 'ERR_LAXITY_EMPTY' : 'ERR_LAXITY_FIELD', message, place(where, path))
}

/** Written against the raw input, so that a mistake in one field does not hide another's. */
function checkRelations(config: unknown, where: string, problems: Problems): void {
  if (!isRecord(config)) return
  const latencies = isRecord(config.latencies) ? config.latencies : {}
  for (const [id, latency] of Object.entries(latencies)) {
    if (!isRecord(latency)) continue
    const at = place(where, dotted(['latencies', id]))
    if (latency.kind === 'polynomial') checkRegimes(latency, at, problems)
    else checkKnots(latency.prefill, `${at}.prefill`, problems)
  }
  if (!Array.isArray(config.instances)) return
  let total = 0
  for (const [index, instance] of config.instances.entries()) {
    if (!isRecord(instance)) continue
    total += typeof instance.count === 'number' ? instance.count : 1
    checkInstance(instance, latencies, config, place(where, `instances[${index}]`), problems)
  }
  checkRoles(config.instances, place(where, 'instances'), problems)
  if (total > LIMITS.instances) {
    const message = `${total} instances: at most ${LIMITS.instances} are supported`
    problems.add('ERR_LAXITY_LIMIT', message, place(where, 'instances'))
  }
}

function checkInstance(
  instance: Record<string, unknown>,
  latencies: Record<string, unknown>,
  config: Record<string, unknown>,
  where: string,
  problems: Problems,
): void {
  const { gpu, latency, kvTokens, prefixCacheTokens, prefixCacheTiers } = instance
  if ((gpu === undefined) === (latency === undefined)) {
    const message = `Expected either \`gpu\` or \`latency\`, got ${gpu === undefined ? 'neither' : 'both'}`
    problems.add('ERR_LAXITY_FIELD', message, where)
  }
  checkModelled(instance, config, where, problems)
  if (typeof latency === 'string') {
    if (!Object.hasOwn(latencies, latency)) {
      const message = `Unknown latency ${quote(latency)}${hint(latency, Object.keys(latencies))}`
      problems.add('ERR_LAXITY_FIELD', message, `${where}.latency`)
    }
    if (kvTokens === undefined) {
      const message = expected('the KV cache size in tokens', 'kvTokens', kvTokens)
      problems.add('ERR_LAXITY_FIELD', message, `${where}.kvTokens`)
    }
  }
  if (Array.isArray(prefixCacheTiers) && prefixCacheTiers.length > 0 && !prefixCacheTokens) {
    const message = 'Slower tiers need a first one: give `prefixCacheTokens` too'
    problems.add('ERR_LAXITY_FIELD', message, `${where}.prefixCacheTiers`)
  }
  for (const [field, mode] of Object.entries(MODE_OF_FIELD)) {
    if (instance[field] === undefined || instance.mode === mode) continue
    problems.add('ERR_LAXITY_FIELD', `\`${field}\` needs \`mode\` "${mode}"`, `${where}.${field}`)
  }
  checkRole(instance, where, problems)
}

/** An instance with `tp` needs a GPU and a model that the estimates know; one without, a GPU with constants. */
function checkModelled(
  instance: Record<string, unknown>,
  config: Record<string, unknown>,
  where: string,
  problems: Problems,
): void {
  const { gpu, latency, model, tp, calibration } = instance
  const gpus = [...gpuIds, ...keysOf(config.gpus)]
  const unknown = (what: string, name: string, known: string[], field: string) =>
    problems.add(
      'ERR_LAXITY_FIELD',
      `Unknown ${what} ${quote(name)}${hint(name, known)}`,
      `${where}.${field}`,
    )
  if (tp === undefined) {
    for (const field of ['precision', 'kvPrecision', 'calibration']) {
      if (instance[field] !== undefined && latency !== undefined)
        problems.add('ERR_LAXITY_FIELD', `\`${field}\` needs \`tp\``, `${where}.${field}`)
    }
    if (typeof gpu !== 'string' || findGpu(gpu) !== undefined) return
    if (gpus.includes(gpu)) {
      const message = `GPU ${quote(gpu)} has no built-in constants: give \`tp\` (and \`model\`) for an estimate`
      problems.add('ERR_LAXITY_FIELD', message, `${where}.gpu`)
    } else {
      const labels = Object.values(GPUS).map((entry) => entry.label)
      unknown('GPU', gpu, [...labels, ...gpus], 'gpu')
    }
    return
  }
  if (latency !== undefined) {
    problems.add('ERR_LAXITY_FIELD', '`tp` needs a `gpu`, not a `latency`', `${where}.tp`)
  }
  if (typeof tp === 'number' && ![1, 2, 4, 8].includes(tp) && tp >= 1 && tp <= 8 && Number.isInteger(tp)) {
    problems.add('ERR_LAXITY_FIELD', expected('1, 2, 4 or 8', 'tp', tp), `${where}.tp`)
  }
  if (typeof gpu === 'string' && !gpus.includes(gpu)) unknown('GPU', gpu, gpus, 'gpu')
  const models = [...modelIds, ...keysOf(config.models)]
  if (model === undefined) {
    problems.add('ERR_LAXITY_FIELD', expected('the id of a model', 'model', model), `${where}.model`)
  } else if (typeof model === 'string' && !models.includes(model)) {
    unknown('model', model, models, 'model')
  }
  if (typeof calibration === 'string' && !stackIds.includes(calibration) && !/[./\\]/.test(calibration)) {
    unknown('calibration', calibration, [...stackIds], 'calibration')
  }
}

function keysOf(value: unknown): string[] {
  return isRecord(value) ? Object.keys(value) : []
}

function checkKnots(prefill: unknown, where: string, problems: Problems): void {
  if (!Array.isArray(prefill)) return
  for (let i = 1; i < prefill.length; i++) {
    const [before, now] = [prefill[i - 1], prefill[i]]
    if (!Array.isArray(before) || !Array.isArray(now)) continue
    if (now[0] <= before[0] || now[1] < before[1]) {
      const message = 'Expected ascending tokens and times that never fall'
      problems.add('ERR_LAXITY_FIELD', message, `${where}[${i}]`)
      return
    }
  }
}

const MODE_OF_FIELD = { chunkTokens: 'chunked', decodeShare: 'decode-share' }

const INSTANCE_FIELDS = [
  'gpu',
  'latency',
  'count',
  'model',
  'kvTokens',
  'maxSequences',
  'mode',
  'role',
  'prefixCacheTokens',
  'prefixCacheTiers',
  'tp',
  'precision',
  'kvPrecision',
  'calibration',
  'chunkTokens',
  'decodeShare',
  'prefillBatchTokens',
  ...LINK_FIELDS,
]
const LATENCY_FIELDS = [
  'kind',
  'prefill',
  'prefillBaseMs',
  'prefillPerTokenMs',
  'decodeBaseMs',
  'decodePerSequenceMs',
  'decodePerContextMs',
  'decode',
  'csv',
  'extrapolate',
]

function knownFields(path: Path): string[] {
  if (path.length === 0) return ['name', 'latencies', 'gpus', 'models', 'instances']
  if (path[2] === 'prefixCacheTiers') return ['tokens', 'msPerToken']
  if (path[0] === 'latencies' && path.length > 2) return REGIME_FIELDS
  if (path[0] === 'gpus') return Object.keys(gpuSchema.shape)
  if (path[0] === 'models') return Object.keys(modelSchema.shape)
  return path[0] === 'instances' ? INSTANCE_FIELDS : LATENCY_FIELDS
}

function place(where: string, path: string): string {
  return path === '' ? where.replace(/[:. ]+$/, '') : where + path
}

function dotted(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += text === '' ? String(part) : `.${String(part)}`
  }
  return text
}

/** The field a path ends in: the last name, with the positions that follow it. */
function lastName(path: Path): string {
  const names = path.findLastIndex((part) => typeof part !== 'number')
  return names < 0 ? 'cluster' : dotted(path.slice(names))
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
