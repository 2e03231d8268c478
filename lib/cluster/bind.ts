import { LaxityError, quote } from '../errors.ts'
import { beyond } from '../model/profile.ts'
import type { NativeCluster, NativeInstance } from '../native.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import { callId, DEFAULT_NAME, type TraceTable, workflowId } from '../traces/table.ts'
import type { ResolvedCluster } from './resolve.ts'

/**
 * Joins a cluster to a trace: model and stage names become the trace's ids; names that the trace does not know get
 * the ids after its last.
 *
 * @throws LaxityError ERR_LAXITY_OPTION for each model that the trace uses and no instance serves.
 */
export function bindCluster(cluster: ResolvedCluster, trace: TraceTable): NativeCluster {
  const used = usedModels(trace)
  const problems = new Problems()
  const modelOf = modelIds(cluster, trace, used)
  const instances = cluster.instances.map((instance): NativeInstance => {
    const { latency, kvTokens, maxSequences, mode, chunkTokens, decodeShare, prefixCache } = instance
    const { role, link } = instance
    return {
      latency,
      model: modelOf(instance.model),
      kvTokens,
      maxSequences,
      mode,
      chunkTokens,
      decodeShare,
      ...(role !== 'unified' && { role, ...link }),
      ...(prefixCache.length > 0 && { prefixCache: prefixCache.map((tier) => ({ ...tier })) }),
    }
  })

  const offered = namedModels(cluster)
  if (used.length > 1 && cluster.instances.some((instance) => instance.model === undefined)) {
    const list = used.map((id) => nameOf(trace, id)).join(', ')
    const message = `The trace uses ${used.length} models (${list}): each instance must say which \`model\` it serves`
    problems.add('ERR_LAXITY_OPTION', message, 'cluster')
  } else {
    const served = new Set(instances.map((instance) => instance.model))
    for (const id of used.filter((id) => !served.has(id))) {
      const name = nameOf(trace, id)
      const message = `No instance of ${cluster.name} serves model ${quote(name)}, which the trace uses`
      problems.add('ERR_LAXITY_OPTION', message + hint(name, offered), 'cluster')
    }
  }
  checkCoverage(cluster, trace, problems)
  problems.throwIfAny()

  return { instances, latencies: [...cluster.latencies], templates: templates(trace) }
}

/** A measured profile must reach as far as the run may: no extrapolation that nobody asked for. */
function checkCoverage(cluster: ResolvedCluster, trace: TraceTable, problems: Problems): void {
  if (cluster.instances.every(({ coverage }) => coverage === undefined)) return
  const { promptTokens, outputTokens } = trace.columns
  let newTokens = 0
  let contextPerSequence = 0
  for (const [call, prompt] of promptTokens.entries()) {
    newTokens = Math.max(newTokens, prompt)
    contextPerSequence = Math.max(contextPerSequence, prompt + outputTokens[call]!)
  }
  const seen = new Set<string>()
  for (const { coverage, label, maxSequences } of cluster.instances) {
    if (coverage === undefined || seen.has(label)) continue
    seen.add(label)
    const missing = beyond(coverage, { batch: maxSequences, contextPerSequence, newTokens })
    if (missing === undefined) continue
    const message = `The profile ${quote(label)} does not cover ${missing}: measure that, lower \`maxSequences\`, or set \`extrapolate\``
    problems.add('ERR_LAXITY_RANGE', message, 'cluster')
  }
}

/**
 * Every call must fit into the KV cache of at least one instance of its model: waiting would not help it.
 *
 * @throws LaxityError ERR_LAXITY_NEVER_FITS naming the first workflow and call, and how many there are.
 */
export function checkFits(trace: TraceTable, cluster: NativeCluster, promptOnly: boolean): void {
  const room = largestRooms(cluster, promptOnly)
  const { model, promptTokens, outputTokens, predictedTokens } = trace.columns
  let first = -1
  let count = 0
  for (let call = 0; call < trace.calls; call++) {
    const { prompt, whole } = room(model?.[call] ?? 0)
    const output = promptOnly ? 0 : Math.max(outputTokens[call]!, predictedTokens?.[call] ?? 0)
    if (promptTokens[call]! <= prompt && promptTokens[call]! + output <= whole) continue
    if (count++ === 0) first = call
  }
  if (count === 0) return
  const { prompt, whole } = room(model?.[first] ?? 0)
  const need = `${promptTokens[first]} prompt + ${outputTokens[first]} output tokens`
  const [what, tokens] = promptTokens[first]! > prompt ? ['prefill', prompt] : ['serve', whole]
  const { workflow, call } = namesAt(trace, first)
  const more = count > 1 ? ` (and ${count - 1} more call${count > 2 ? 's' : ''})` : ''
  throw new LaxityError(
    'ERR_LAXITY_NEVER_FITS',
    `Call ${call} of workflow ${workflow} never fits: ${need}, but the largest KV cache that may ${what} it has ${tokens} tokens${more}`,
    trace.source,
  )
}

/** By model, the largest KV cache for a prompt alone (role `prefill`), and for prompt and output. */
function largestRooms(cluster: NativeCluster, promptOnly: boolean) {
  const rooms = new Map<number, { prompt: number; whole: number }>()
  for (const { model, kvTokens, role = 'unified' } of cluster.instances) {
    const room = rooms.get(model) ?? { prompt: 0, whole: 0 }
    const tokens = promptOnly ? Math.floor(kvTokens * 0.95) : kvTokens
    if (role === 'unified') room.prompt = Number.POSITIVE_INFINITY
    if (role === 'prefill') room.prompt = Math.max(room.prompt, tokens)
    else room.whole = Math.max(room.whole, tokens)
    rooms.set(model, room)
  }
  const none = { prompt: 0, whole: 0 }
  return (model: number) => rooms.get(model) ?? none
}

/** Names of the call at a row, as the trace's file gives them. */
export function namesAt(trace: TraceTable, row: number): { workflow: string; call: string } {
  const { firstCall } = trace.columns
  let low = 0
  let high = trace.workflows - 1
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (firstCall[middle]! <= row) low = middle
    else high = middle - 1
  }
  return { workflow: workflowId(trace, low), call: callId(trace, low, row - firstCall[low]!) }
}

/** An instance that names no model serves the trace's only one; a trace that names none fits a cluster of one model. */
function modelIds(
  cluster: ResolvedCluster,
  trace: TraceTable,
  used: readonly number[],
): (model: string | undefined) => number {
  const only = used[0] ?? 0
  const unnamed = used.length === 1 && trace.models[only] === DEFAULT_NAME
  if (unnamed && namedModels(cluster).length <= 1) return () => only
  const modelId = interner(trace.models)
  return (model) => (model === undefined ? only : modelId(model))
}

function namedModels(cluster: ResolvedCluster): string[] {
  return [...new Set(cluster.instances.flatMap(({ model }) => model ?? []))]
}

function usedModels(trace: TraceTable): number[] {
  const { model } = trace.columns
  if (model === undefined) return trace.calls > 0 ? [0] : []
  const seen = new Uint8Array(0x1_0000)
  for (const id of model) seen[id] = 1
  const used: number[] = []
  for (const [id, flag] of seen.entries()) if (flag === 1) used.push(id)
  return used
}

function templates(trace: TraceTable): NativeCluster['templates'] {
  if (trace.template === undefined || trace.template.length === 0) return []
  const stageId = interner(trace.stages)
  const { template, pessimisticTemplate } = trace
  const pessimistic = pessimisticTemplate?.length ? [pessimisticTemplate] : []
  return [template, ...pessimistic].map((entries) =>
    entries.map(({ stage, promptTokens, outputTokens }) => ({
      stage: stageId(stage),
      promptTokens,
      outputTokens,
    })),
  )
}

function interner(known: readonly string[]): (name: string) => number {
  const ids = new Map(known.map((name, id) => [name, id]))
  return (name) => {
    const id = ids.get(name) ?? ids.size
    ids.set(name, id)
    return id
  }
}

function nameOf(trace: TraceTable, model: number): string {
  return trace.models[model] ?? String(model)
}
