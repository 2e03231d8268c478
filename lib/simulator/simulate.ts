import type { NativeAddon, NativeOutputs } from '../native.ts'
import { placementName } from '../scheduler/placement.ts'
import type { TraceTable } from '../traces/table.ts'
import { checkAutoTune } from '../tuning/auto-options.ts'
import { readScript } from '../tuning/auto-script.ts'
import { hindsight } from '../tuning/auto-simulate.ts'
import { runBatch } from './batch.ts'
import type { Column } from './chunk.ts'
import { SIMULATE_KEYS, type SimulateOptions } from './options.ts'
import { plans } from './policies.ts'
import { prepare } from './prepare.ts'
import { isAlpha, readOptions } from './read-options.ts'
import { type CheckedPlanning, remainingText } from './read-planning.ts'
import { type CacheCounts, type CallColumns, SimulationResult } from './result.ts'
import { sacrificeColumn, sacrificeOf, sacrificeShare } from './sacrifice.ts'
import { policyOf, setupOf } from './setup.ts'
import { OptionReader } from './validate.ts'

export const DEFAULT_ALPHA = 0.3

/** Loaded with the first run, so that help and validation of files need no addon. */
export async function loadNative(): Promise<NativeAddon> {
  return (await import('../native.ts')).native
}

/**
 * Simulates one policy on a trace and a cluster. Times are in milliseconds of simulated time.
 *
 * @throws LaxityError ERR_LAXITY_OPTION and ERR_LAXITY_FIELD with all problems at once, ERR_LAXITY_NEVER_FITS,
 * ERR_LAXITY_EMPTY, ERR_LAXITY_ABORTED, ERR_LAXITY_PLACEMENT where `placement` is a function that fails, and what reading trace and cluster may throw.
 */
export async function simulate(options: SimulateOptions): Promise<SimulationResult> {
  const started = performance.now()
  const native = await loadNative()
  const reader = new OptionReader(options, SIMULATE_KEYS)
  const checked = readOptions(reader, native.parameters)
  const alpha = reader.number('alpha', DEFAULT_ALPHA, 'a number from 0 to 1', isAlpha)
  const replication = reader.whole('replication', 0, 0, 2 ** 31)
  const perCall = reader.boolean('perCall')
  const record = reader.boolean('log')
  const autoTune = checkAutoTune(reader.raw('autoTune'), native.parameters, reader.problems)
  const script = readScript(reader)
  const prepared = await prepare(native, reader, checked)
  if (autoTune !== undefined) prepared.run.autoTune = autoTune.native
  if (script !== undefined) prepared.run.script = script

  const { trace, run } = prepared
  const columns = {
    latencyMs: doubles(trace.workflows),
    baseMs: doubles(trace.workflows),
    arrivalMs: doubles(trace.workflows),
  }
  const paired = run.pairs !== undefined
  const callColumns = perCall ? perCallColumns(trace, paired) : undefined
  const { pairs: pairColumns, ...common } = callColumns ?? {}
  const sacrificed = sacrificeShare(run) > 0 ? sacrificeColumn(trace.workflows) : undefined
  const outputs: NativeOutputs = {
    ...columns,
    ...common,
    ...pairColumns,
    ...(sacrificed && { sacrificed }),
  }
  const { workers, background, signal, onProgress } = checked
  const variants = [{ alpha, replication }]
  const batch = await runBatch(prepared, {
    variants,
    scales: new Float64Array(0),
    workers,
    background,
    signal,
    onProgress,
    outputs,
    record,
  })

  const sacrifice =
    sacrificed && (await sacrificeOf(prepared, { ...columns, sacrificed }, { variants, workers, signal }))
  const tuning =
    autoTune && (await hindsight(prepared, autoTune, batch, { alpha, replication, workers, signal }))
  const value = (name: Parameters<typeof batch.value>[1]) => batch.value(0, name)
  return new SimulationResult({
    trace,
    cluster: prepared.cluster,
    policy: policyOf(run),
    knowledge: run.knowledge,
    feedback: run.feedback,
    arrivals: run.arrivals,
    rate: run.arrivals === 'trace' ? undefined : run.rate,
    metrics: {
      meanMs: value('meanMs'),
      p50Ms: value('p50Ms'),
      p95Ms: value('p95Ms'),
      p99Ms: value('p99Ms'),
      sloScale95: value('sloScale95'),
      sloScale99: value('sloScale99'),
      throughputPerS: value('throughputPerS'),
      makespanMs: value('makespanMs'),
    },
    counts: {
      workflows: value('workflows'),
      completed: value('completed'),
      calls: value('calls'),
      rejected: value('rejected'),
      evictions: value('evictions'),
      hiddenEvictions: value('hiddenEvictions'),
      events: value('events'),
    },
    cache: prepared.nativeCluster.instances.some(({ prefixCache }) => prefixCache)
      ? cacheCounts(value)
      : undefined,
    pairs: paired
      ? {
          prefillUtilisation: value('prefillUtilisation'),
          decodeUtilisation: value('decodeUtilisation'),
          decodeKvPeak: value('decodeKvPeak'),
          ...(plans(run) && { planning: planCounts(checked.planning, value) }),
        }
      : undefined,
    error: checked.error?.text,
    remaining: remainingText(checked.planning.remaining),
    tuning,
    sacrifice,
    ...columns,
    perCall: callColumns,
    log: batch.log,
    logHeader: record
      ? {
          run: {
            ...run,
            placement: placementName(run.placement),
            parameters: { ...run.parameters, alpha },
            replication,
          },
          cluster: prepared.nativeCluster,
          trace: { source: trace.source, stages: trace.stages, models: trace.models },
        }
      : undefined,
    timing: { wallMs: performance.now() - started, cpuMs: value('cpuMs'), workers: batch.workers },
    tenants: batch.tenants(0),
    arrivalShape: checked.shape,
    setup: setupOf(prepared, checked.error?.text, { alpha, replication }),
  })
}

function planCounts({ planning, latencyMs, timed }: CheckedPlanning, value: (name: Column) => number) {
  const orNone = (name: Column) => (Number.isNaN(value(name)) ? 0 : value(name))
  return {
    planning,
    latencyMs,
    plans: orNone('plans'),
    plannedCalls: orNone('plannedCalls'),
    ...(timed && {
      planUs: { mean: orNone('planMeanUs'), p50: orNone('planP50Us'), p99: orNone('planP99Us') },
    }),
  }
}

function cacheCounts(value: (name: Column) => number): CacheCounts {
  const promptTokens = value('cachePromptTokens')
  const cachedTokens = value('cacheFoundTokens')
  return {
    hits: value('cacheHits'),
    misses: value('cacheMisses'),
    stale: value('cacheStale'),
    promptTokens,
    sharedTokens: value('cacheSharedTokens'),
    cachedTokens,
    loadedTokens: value('cacheLoadedTokens'),
    hitRate: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
  }
}

function perCallColumns({ calls }: TraceTable, paired: boolean): CallColumns {
  return {
    instance: new Uint16Array(new SharedArrayBuffer(2 * calls)),
    readyMs: doubles(calls),
    leasedMs: doubles(calls),
    firstTokenMs: doubles(calls),
    finishedMs: doubles(calls),
    ...(paired && {
      pairs: {
        decodeInstance: new Uint16Array(new SharedArrayBuffer(2 * calls)),
        transferStartMs: doubles(calls),
        transferredMs: doubles(calls),
        decodeMs: doubles(calls),
      },
    }),
  }
}

function doubles(length: number): Float64Array {
  return new Float64Array(new SharedArrayBuffer(8 * length))
}
