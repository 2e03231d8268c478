import { bindCluster, checkFits } from '../cluster/bind.ts'
import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import { type EngineMode, modeFields } from '../cluster/modes.ts'
import type { LatencyOverrides } from '../cluster/overrides.ts'
import { isPaired, type ResolvedCluster } from '../cluster/resolve.ts'
import { LaxityError } from '../errors.ts'
import type { NativeAddon, NativeCluster, NativeRun, PairOptions } from '../native.ts'
import { guardPlacement } from '../scheduler/placement.ts'
import type { TraceTable } from '../traces/table.ts'
import type { RunOptions } from './options.ts'
import { addStepProblem } from './read-arrivals.ts'
import { type CheckedOptions, NOT_COMPAT } from './read-options.ts'
import { checkPairOptions } from './read-pairs.ts'
import { checkPlanning, nativePlanning } from './read-planning.ts'
import { type CheckedPolicy, type ClusterKind, readPolicy } from './read-policy.ts'
import { assignTenants } from './read-tenants.ts'
import { abortedError } from './status.ts'
import type { TenantName } from './tenants.ts'
import type { OptionReader } from './validate.ts'

const DEFAULT_RATE = 0.5

/** Everything a run needs, checked and resolved. */
export interface Prepared {
  native: NativeAddon
  trace: TraceTable
  cluster: ResolvedCluster
  nativeCluster: NativeCluster
  /** Replication 0, no alpha. */
  run: NativeRun
  /** By tenant id. */
  tenants: readonly TenantName[]
}

/**
 * Loads cluster and trace and fills in what depends on them. Problems of options and cluster are reported together,
 * before the trace is read; those of the trace after it.
 */
export async function prepare(
  native: NativeAddon,
  reader: OptionReader,
  checked: CheckedOptions,
): Promise<Prepared> {
  const { problems } = reader
  const cluster = await readCluster(reader)
  const chosen = choose(native, reader, checked, cluster)
  const source = readSource(reader)
  problems.throwIfAny()
  if (checked.signal?.aborted) throw abortedError(checked.signal)

  const table = await readTable(source!, checked.signal)
  return join(native, reader, checked, cluster!, chosen, table)
}

/**
 * The same for a cluster and a trace in memory. `bound`: the cluster as an earlier call joined it to this trace under
 * the same options of cluster and engines.
 */
export function assemble(
  native: NativeAddon,
  reader: OptionReader,
  checked: CheckedOptions,
  cluster: ResolvedCluster,
  table: TraceTable,
  bound?: NativeCluster,
): Prepared {
  return join(native, reader, checked, cluster, choose(native, reader, checked, cluster), table, bound)
}

/** What depends on the kind of cluster; problems are left in the reader. */
function choose(
  native: NativeAddon,
  reader: OptionReader,
  checked: CheckedOptions,
  cluster: ResolvedCluster | undefined,
): Chosen {
  const kind = kindOf(cluster)
  const policy = readPolicy(reader, native, kind, checked.compat)
  if (kind !== 'unknown') {
    checkPairOptions(reader, checked.pairs, kind === 'paired')
    checkPlanning(reader, checked.planning, policy.policy, checked.compat)
  }
  return { kind, policy }
}

interface Chosen {
  kind: ClusterKind
  policy: ReturnType<typeof readPolicy>
}

function join(
  native: NativeAddon,
  reader: OptionReader,
  checked: CheckedOptions,
  cluster: ResolvedCluster,
  { kind, policy }: Chosen,
  table: TraceTable,
  bound?: NativeCluster,
): Prepared {
  const { problems } = reader
  if (table.workflows === 0 || table.calls === 0) {
    throw new LaxityError('ERR_LAXITY_EMPTY', 'The trace has no calls', table.source)
  }
  const { trace, tenants, scales } = assignTenants(reader, checked.tenants, table, checked.sloScale)
  const run = completeRun(reader, checked, policy, kind, trace)
  if (scales !== undefined) run.tenantScales = scales
  let nativeCluster = bound
  try {
    nativeCluster ??= bindAndCheck(reader, checked, kind, cluster, trace)
  } catch (error) {
    problems.absorb(error)
  }
  problems.throwIfAny()
  return { native, trace, cluster, nativeCluster: nativeCluster!, run, tenants }
}

function bindAndCheck(
  reader: OptionReader,
  checked: CheckedOptions,
  kind: ClusterKind,
  cluster: ResolvedCluster,
  trace: TraceTable,
): NativeCluster {
  const nativeCluster = bindCluster(cluster, trace)
  if (kind === 'unified') overrideModes(reader, checked, nativeCluster)
  if (checked.prefixCache !== undefined) setPrefixCaches(nativeCluster, checked.prefixCache)
  if (checked.compat !== 'none' && nativeCluster.instances.some(({ prefixCache }) => prefixCache))
    reader.add(`${NOT_COMPAT} prefix caches: set \`prefixCache\` to 0`, 'compat')
  checkFits(trace, nativeCluster, checked.compat.startsWith('hexgen'))
  return nativeCluster
}

/** Options that override what the instances say, and what goes with what. */
function overrideModes(reader: OptionReader, checked: CheckedOptions, cluster: NativeCluster): void {
  const { chunkTokens, decodeShare } = checked
  for (const instance of cluster.instances) {
    const own = instance.mode
    if (own === 'prefill-first' && (checked.mode ?? own) === own) continue
    const fields = modeFields(
      checked.mode ?? own,
      chunkTokens ?? (own === 'chunked' ? instance.chunkTokens : undefined),
      decodeShare ?? (own === 'decode-share' ? instance.decodeShare / 1000 : undefined),
    )
    Object.assign(instance, fields)
  }
  const has = (mode: EngineMode) => cluster.instances.some((instance) => instance.mode === mode)
  if (chunkTokens !== undefined && !has('chunked')) {
    reader.add('`chunkTokens` needs engine mode "chunked", and no instance has it', 'chunkTokens')
  }
  if (decodeShare !== undefined && !has('decode-share')) {
    reader.add('`decodeShare` needs engine mode "decode-share", and no instance has it', 'decodeShare')
  }
  if (checked.compat !== 'none' && (has('chunked') || has('decode-share'))) {
    reader.add(`\`compat\` "${checked.compat}" needs engine mode "prefill-first"`, 'compat')
  }
}

async function readCluster(reader: OptionReader): Promise<ResolvedCluster | undefined> {
  const given = reader.raw('cluster')
  if (given === undefined) {
    reader.wrong("a preset's name, a path or an object", 'cluster', given)
    return undefined
  }
  const overrides = readOverrides(reader)
  if (overrides === undefined) return undefined
  try {
    return await loadCluster(given as string | ClusterConfig, overrides)
  } catch (error) {
    reader.problems.absorb(error)
    return undefined
  }
}

/** Undefined where one of them is wrong. */
export function readOverrides(reader: OptionReader): LatencyOverrides | undefined {
  const before = reader.problems.count
  const latency = reader.oneOf('latency', ['constants', 'calibrated'] as const, undefined)
  const tp = reader.number('tp', undefined, '1, 2, 4 or 8', (value) => [1, 2, 4, 8].includes(value))
  const name = (option: 'model' | 'gpu'): string | undefined => {
    const value = reader.raw(option)
    if (value === undefined || (typeof value === 'string' && value !== '')) return value
    reader.wrong('an id', option, value)
    return undefined
  }
  const overrides = { latency, model: name('model'), gpu: name('gpu'), tp }
  if (latency === 'constants' && (overrides.model ?? overrides.gpu ?? tp) !== undefined)
    reader.add('`latency` "constants" knows no `model`, `gpu` or `tp`', 'latency')
  return reader.problems.count === before ? overrides : undefined
}

type Source = RunOptions['trace']

function readSource(reader: OptionReader): Source | undefined {
  const trace = reader.raw('trace')
  if (typeof trace === 'function') return trace as () => Promise<TraceTable>
  if (typeof trace === 'string' && trace !== '') return trace
  if (isTable(trace)) return trace
  reader.wrong('a trace table or the path of a trace file', 'trace', trace)
  return undefined
}

async function readTable(source: Source, signal: AbortSignal | undefined): Promise<TraceTable> {
  if (typeof source === 'function') return source()
  if (typeof source !== 'string') return source
  const { readTrace } = await import('../traces/read.ts')
  return readTrace(source, signal === undefined ? {} : { signal })
}

export function kindOf(cluster: ResolvedCluster | undefined): ClusterKind {
  if (cluster === undefined) return 'unknown'
  return isPaired(cluster) ? 'paired' : 'unified'
}

function completeRun(
  reader: OptionReader,
  checked: CheckedOptions,
  { policy, placementFunction }: CheckedPolicy,
  kind: ClusterKind,
  trace: TraceTable,
): NativeRun {
  const template = trace.template !== undefined && trace.template.length > 0
  const recorded = trace.columns.arrivalMs !== undefined
  const { rate } = checked
  const knowledge = checked.knowledge ?? (template ? 'template' : 'online')
  const sloBase = checked.sloBase ?? (kind === 'paired' ? 'horizon' : template ? 'template' : 'exclusive')
  const arrivals = checked.arrivals ?? (recorded && rate === undefined ? 'trace' : 'poisson')
  if (knowledge === 'template' && !template) {
    reader.add('`knowledge` "template" needs a trace that ships a stage template', 'knowledge')
  }
  const pessimistic = template && (trace.pessimisticTemplate?.length ?? 0) > 0
  if (checked.template === 'pessimistic' && !pessimistic) {
    reader.add(
      '`template` "pessimistic" needs a trace that ships one: HexGen-Flow\'s and generated ones do',
      'template',
    )
  }
  if (sloBase === 'template' && !template) {
    reader.add('`sloBase` "template" needs a trace that ships a stage template', 'sloBase')
  }
  if (arrivals === 'trace' && !recorded) {
    reader.add('`arrivals` "trace" needs a trace that records arrivals', 'arrivals')
  }
  if (arrivals === 'trace' && checked.arrivals === undefined && checked.shape.rateStep !== undefined) {
    addStepProblem(reader)
  }
  const unknowable = sloBase === 'horizon' && !reader.given('sloScale') && !reader.given('tenants')
  const deadlines = checked.deadlines ?? (unknowable ? 'none' : 'slo')
  return {
    ...policy,
    ...(placementFunction && { placement: guardPlacement(placementFunction) }),
    feedback: checked.feedback,
    lookahead: checked.lookahead,
    knowledge,
    template: checked.template,
    parameters: { ...policy.parameters, ...checked.parameters },
    arrivals,
    rate: rate ?? DEFAULT_RATE,
    seed: checked.seed,
    replication: 0,
    tieSeed: checked.tieSeed,
    placementSeed: checked.placementSeed,
    sloScale: checked.sloScale,
    sloBase,
    ...(deadlines === 'none' && { deadlines: false }),
    compat: checked.compat,
    laws: checked.laws,
    ...checked.shape,
    ...(kind === 'paired' && { pairs: pairsOf(checked) }),
    ...nativePlanning(checked.planning, checked.seed),
    ...(checked.error && { error: { ...checked.error.native, seed: checked.seed } }),
  }
}

function pairsOf({ pairs, planning }: CheckedOptions): PairOptions {
  return planning.planning === 'sync' ? pairs.options : { ...pairs.options, planning: planning.planning }
}

/** The first tier of every instance that prefills; the slower ones stay. */
function setPrefixCaches({ instances }: NativeCluster, tokens: number): void {
  for (const instance of instances) {
    if (instance.role === 'decode') continue
    const slower = instance.prefixCache?.slice(1) ?? []
    if (tokens === 0) delete instance.prefixCache
    else instance.prefixCache = [{ tokens, msPerToken: 0 }, ...slower]
  }
}

/** The shape only: the core checks every row. */
export function isTable(value: unknown): value is TraceTable {
  if (typeof value !== 'object' || value === null) return false
  const { columns, workflows, calls, source, stages, models } = value as Partial<TraceTable>
  if (typeof columns !== 'object' || columns === null) return false
  return (
    typeof source === 'string' &&
    Array.isArray(stages) &&
    Array.isArray(models) &&
    columns.firstCall instanceof Uint32Array &&
    columns.promptTokens instanceof Uint32Array &&
    columns.outputTokens instanceof Uint32Array &&
    columns.firstCall.length === (workflows ?? Number.NaN) + 1 &&
    columns.promptTokens.length === calls &&
    columns.outputTokens.length === calls
  )
}
