import { bindCluster, checkFits } from '../cluster/bind.ts'
import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import { type EngineMode, modeFields } from '../cluster/modes.ts'
import type { ResolvedCluster } from '../cluster/resolve.ts'
import { LaxityError } from '../errors.ts'
import type { NativeAddon, NativeCluster, NativeRun } from '../native.ts'
import type { TraceTable } from '../traces/table.ts'
import type { RunOptions } from './options.ts'
import type { CheckedOptions } from './read-options.ts'
import { abortedError } from './status.ts'
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
  const source = readSource(reader)
  problems.throwIfAny()
  if (checked.signal?.aborted) throw abortedError(checked.signal)

  const trace = await readTable(source!, checked.signal)
  if (trace.workflows === 0 || trace.calls === 0) {
    throw new LaxityError('ERR_LAXITY_EMPTY', 'The trace has no calls', trace.source)
  }
  const run = completeRun(reader, checked, trace)
  let nativeCluster: NativeCluster | undefined
  try {
    nativeCluster = bindCluster(cluster!, trace)
    overrideModes(reader, checked, nativeCluster)
    checkFits(trace, nativeCluster, checked.compat !== 'none')
  } catch (error) {
    problems.absorb(error)
  }
  problems.throwIfAny()
  return { native, trace, cluster: cluster!, nativeCluster: nativeCluster!, run }
}

/** Options that override what the instances say, and what goes with what. */
function overrideModes(reader: OptionReader, checked: CheckedOptions, cluster: NativeCluster): void {
  const { chunkTokens, decodeShare } = checked
  for (const instance of cluster.instances) {
    const own = instance.mode
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
  try {
    return await loadCluster(given as string | ClusterConfig)
  } catch (error) {
    reader.problems.absorb(error)
    return undefined
  }
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

function completeRun(reader: OptionReader, checked: CheckedOptions, trace: TraceTable): NativeRun {
  const template = trace.template !== undefined && trace.template.length > 0
  const recorded = trace.columns.arrivalMs !== undefined
  const { policy, rate } = checked
  const knowledge = checked.knowledge ?? (template ? 'template' : 'online')
  const sloBase = checked.sloBase ?? (template ? 'template' : 'exclusive')
  const arrivals = checked.arrivals ?? (recorded && rate === undefined ? 'trace' : 'poisson')
  if (knowledge === 'template' && !template) {
    reader.add('`knowledge` "template" needs a trace that ships a stage template', 'knowledge')
  }
  if (sloBase === 'template' && !template) {
    reader.add('`sloBase` "template" needs a trace that ships a stage template', 'sloBase')
  }
  if (arrivals === 'trace' && !recorded) {
    reader.add('`arrivals` "trace" needs a trace that records arrivals', 'arrivals')
  }
  return {
    ...policy,
    feedback: checked.feedback,
    lookahead: checked.lookahead,
    knowledge,
    parameters: checked.parameters,
    arrivals,
    rate: rate ?? DEFAULT_RATE,
    seed: checked.seed,
    replication: 0,
    tieSeed: checked.tieSeed,
    sloScale: checked.sloScale,
    sloBase,
    compat: checked.compat,
    laws: checked.laws,
  }
}

/** The shape only: the core checks every row. */
function isTable(value: unknown): value is TraceTable {
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
