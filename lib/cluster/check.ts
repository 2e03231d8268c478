import { expected, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'
import type { ClusterConfig } from './config.ts'
import { findGpu, GPUS } from './gpus.ts'
import { LIMITS } from './limits.ts'
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
  const what = issue.code === 'invalid_union' ? '"constants" or "table"' : issue.message
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
    if (isRecord(latency))
      checkKnots(latency.prefill, place(where, dotted(['latencies', id, 'prefill'])), problems)
  }
  if (!Array.isArray(config.instances)) return
  let total = 0
  for (const [index, instance] of config.instances.entries()) {
    if (!isRecord(instance)) continue
    total += typeof instance.count === 'number' ? instance.count : 1
    checkInstance(instance, latencies, place(where, `instances[${index}]`), problems)
  }
  if (total > LIMITS.instances) {
    const message = `${total} instances: at most ${LIMITS.instances} are supported`
    problems.add('ERR_LAXITY_LIMIT', message, place(where, 'instances'))
  }
}

function checkInstance(
  instance: Record<string, unknown>,
  latencies: Record<string, unknown>,
  where: string,
  problems: Problems,
): void {
  const { gpu, latency, role, kvTokens } = instance
  if ((gpu === undefined) === (latency === undefined)) {
    const message = `Expected either \`gpu\` or \`latency\`, got ${gpu === undefined ? 'neither' : 'both'}`
    problems.add('ERR_LAXITY_FIELD', message, where)
  }
  if (typeof gpu === 'string' && findGpu(gpu) === undefined) {
    const known = Object.values(GPUS).map((entry) => entry.label)
    problems.add('ERR_LAXITY_FIELD', `Unknown GPU ${quote(gpu)}${hint(gpu, known)}`, `${where}.gpu`)
  }
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
  for (const [field, mode] of Object.entries(MODE_OF_FIELD)) {
    if (instance[field] === undefined || instance.mode === mode) continue
    problems.add('ERR_LAXITY_FIELD', `\`${field}\` needs \`mode\` "${mode}"`, `${where}.${field}`)
  }
  if (role === 'prefill' || role === 'decode') {
    const message = `Role "${role}" is not supported yet: only unified instances can be simulated`
    problems.add('ERR_LAXITY_FIELD', message, `${where}.role`)
  }
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
  'chunkTokens',
  'decodeShare',
]
const LATENCY_FIELDS = [
  'kind',
  'prefill',
  'prefillBaseMs',
  'prefillPerTokenMs',
  'decodeBaseMs',
  'decodePerSequenceMs',
  'decodePerContextMs',
]

function knownFields(path: Path): string[] {
  if (path.length === 0) return ['name', 'latencies', 'instances']
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
