import { setMaxListeners } from 'node:events'
import { lowerBound, searchReference } from '../bounds/bound.ts'
import { largestRatio, seedBound, workflowColumns } from '../bounds/row.ts'
import { LaxityError } from '../errors.ts'
import type { NativeAddon, NativeBound, NativeOutputs, NativeReference } from '../native.ts'
import { type BatchResult, MS_PER_CALL, runBatch } from '../simulator/batch.ts'
import { SIMULATE_KEYS, type SimulateOptions } from '../simulator/options.ts'
import { defaultWorkers } from '../simulator/pool.ts'
import { type Prepared, prepare } from '../simulator/prepare.ts'
import { readOptions } from '../simulator/read-options.ts'
import { sacrificeColumn, sacrificeOf, sacrificeShare } from '../simulator/sacrifice.ts'
import { loadNative } from '../simulator/simulate.ts'
import { OptionReader } from '../simulator/validate.ts'
import type { TraceTable } from '../traces/table.ts'
import { inForce, onlyOnce, readSites, type Setting, type Site, settingsOf } from './grid.ts'
import { inLanes } from './lanes.ts'
import { type CheckedCompare, COMPARE_KEYS, type CompareOptions, readCompare } from './options.ts'
import { type NamedPolicy, policyOption } from './policies.ts'
import { Progresses } from './progress.ts'
import { type CompareRow, type Run, rowsOf, SCALES, siteLabels } from './rows.ts'
import { SATURATION_POLICY, SATURATION_WORKFLOWS, saturationRate } from './saturation.ts'
import { allAtOnce, type Workload } from './workload.ts'

export interface CompareResult {
  /** By setting, then policy, both in the order of the options. */
  rows: CompareRow[]
  /** What load 1.0 is, by cluster, model, workload and context. */
  saturation: (Pick<CompareRow, 'cluster' | 'model' | 'workload' | 'context'> & { ratePerS: number })[]
  timing: {
    wallMs: number
    /** Thread CPU time of all simulations, those that find load 1.0 included. */
    cpuMs: number
    simulatedCalls: number
    runs: number
    /** Threads; 0 = this one. */
    workers: number
  }
}

/** Seed of the workload that load 1.0 is found with. */
const SATURATION_SEED = 0
const ONE_RUN = [{ alpha: undefined, replication: 0 }] as const
/** Below this all runs are done before a pool would have started. */
const INLINE_MS = 30

/**
 * Runs every policy of a grid over the same workflows and arrivals (common random numbers) at a load that is the same
 * part of what each cluster sustains. The result is the same for any number of workers, but for measured times.
 *
 * @throws LaxityError as `simulate`; all problems of the options at once.
 */
export async function compare(options: CompareOptions): Promise<CompareResult> {
  const started = performance.now()
  const native = await loadNative()
  const reader = new OptionReader(options, COMPARE_KEYS)
  const checked = readCompare(reader, native)
  const sites = await readSites(reader, native, checked)
  reader.problems.throwIfAny()
  return new Comparison(native, checked, sites).result(reader, started)
}

class Comparison {
  readonly #native: NativeAddon
  readonly #checked: CheckedCompare
  readonly #sites: readonly Site[]
  readonly #settings: readonly Setting[]
  readonly #stop = new AbortController()
  readonly #signal: AbortSignal
  readonly #tables = new Map<Workload, Map<string, Promise<TraceTable>>>()
  readonly #progress: Progresses
  /** By site, load, knowledge and seed: what else a setting has is the scheduler's, or slows it down. */
  readonly #bounds = new Map<Site, Map<string, Promise<NativeBound>>>()
  /** By setting and seed. */
  readonly #references = new Map<Setting, Promise<NativeReference>[]>()
  #workers = 0
  #cpuMs = 0
  #calls = 0
  #runs = 0

  constructor(native: NativeAddon, checked: CheckedCompare, sites: readonly Site[]) {
    this.#native = native
    this.#checked = checked
    this.#sites = sites
    this.#settings = settingsOf(sites, checked)
    const { signal } = checked
    this.#signal = signal ? AbortSignal.any([signal, this.#stop.signal]) : this.#stop.signal
    // One for every run under way.
    setMaxListeners(0, this.#signal)
    this.#progress = new Progresses(checked.onProgress)
  }

  async result(reader: OptionReader, started: number): Promise<CompareResult> {
    await this.#firstLook(reader)
    const rates = await this.#saturationRates()
    const runs = await this.#allRuns(rates)
    const rows = this.#settings.flatMap((setting, s) =>
      rowsOf(this.#native, setting, setting.load * rates.get(setting.site)!, setting.site.policies, runs[s]!),
    )
    const saturation = await Promise.all(
      this.#sites.map(async (site) => {
        const { context } = await this.#table(site.workload, SATURATION_WORKFLOWS, SATURATION_SEED)
        return { ...siteLabels(site, context), ratePerS: rates.get(site)! }
      }),
    )
    return {
      rows,
      saturation,
      timing: {
        wallMs: performance.now() - started,
        cpuMs: this.#cpuMs,
        simulatedCalls: this.#calls,
        runs: this.#runs,
        workers: this.#workers,
      },
    }
  }

  /** Opens every workload and prepares the first run of every setting, so that what is wrong shows before hours of work. */
  async #firstLook(reader: OptionReader): Promise<void> {
    const once = onlyOnce(reader)
    let calls = 0
    let workflows = 0
    for (const setting of this.#settings) {
      await once(async () => {
        const { trace } = await this.#prepared(setting, setting.site.policies[0]!, 1, 1)
        calls += trace.calls * this.#checked.seeds * setting.site.policies.length
        workflows += trace.workflows * this.#checked.seeds * setting.site.policies.length
      })
    }
    for (const site of this.#sites) {
      await once(async () => {
        const { trace } = await this.#saturationRun(site)
        calls += trace.calls
        workflows += trace.workflows
      })
    }
    reader.problems.throwIfAny()
    this.#progress.totalWorkflows = workflows
    this.#progress.totalRuns =
      this.#sites.length +
      this.#checked.seeds * this.#settings.reduce((sum, { site }) => sum + site.policies.length, 0)
    this.#workers = this.#checked.workers ?? (calls * MS_PER_CALL < INLINE_MS ? 0 : defaultWorkers())
  }

  async #saturationRates(): Promise<Map<Site, number>> {
    const rates = await this.#lanes(
      this.#sites.map((site) => async () => {
        const prepared = await this.#saturationRun(site)
        const latencyMs = new Float64Array(new SharedArrayBuffer(8 * prepared.trace.workflows))
        await this.#run(prepared, new Float64Array(0), { latencyMs })
        const rate = saturationRate(latencyMs)
        if (rate > 0) return rate
        const message = `Load 1.0 is undefined: too few of ${SATURATION_WORKFLOWS} workflows of ${site.workload.name} end on ${site.cluster.resolved.name}`
        throw new LaxityError('ERR_LAXITY_OPTION', message, 'load')
      }),
    )
    return new Map(this.#sites.map((site, i) => [site, rates[i]!]))
  }

  /** By setting, policy and seed. Runs of one seed follow each other, so that a thread finds what it needs in its caches. */
  async #allRuns(rates: ReadonlyMap<Site, number>): Promise<Run[][][]> {
    const runs: Run[][][] = this.#settings.map(({ site }) => site.policies.map(() => []))
    const jobs = this.#settings.flatMap((setting, s) =>
      Array.from({ length: this.#checked.seeds }, (_, k) => k + 1).flatMap((seed) =>
        setting.site.policies.map((policy, p) => async () => {
          const rate = setting.load * rates.get(setting.site)!
          const prepared = await this.#prepared(setting, policy, seed, rate)
          const { workflows } = prepared.trace
          const sacrificed = sacrificeShare(prepared.run) > 0 ? sacrificeColumn(workflows) : undefined
          const columns = this.#checked.bound || sacrificed ? workflowColumns(workflows) : undefined
          const batch = await this.#run(
            prepared,
            SCALES,
            columns && { ...columns, ...(sacrificed && { sacrificed }) },
          )
          const bound =
            columns && this.#checked.bound
              ? seedBound(
                  largestRatio(columns),
                  await this.#bound(setting, seed, prepared),
                  await this.#reference(setting, seed, rate),
                )
              : undefined
          const sacrifice =
            columns &&
            sacrificed &&
            (await sacrificeOf(
              prepared,
              { ...columns, sacrificed },
              {
                variants: ONE_RUN,
                workers: Math.min(1, this.#workers),
                threads: this.#workers,
                signal: this.#signal,
              },
            ))
          runs[s]![p]![seed - 1] = {
            seed,
            batch,
            context: prepared.trace.context,
            sloBase: prepared.run.sloBase,
            deadlines: prepared.run.deadlines === false ? 'none' : 'slo',
            error: prepared.error,
            ...(bound && { bound }),
            ...(sacrifice && { sacrifice }),
          }
        }),
      ),
    )
    await this.#lanes(jobs)
    return runs
  }

  #lanes<T>(jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
    return inLanes(this.#workers, jobs, () => this.#stop.abort())
  }

  async #run(prepared: Prepared, scales: Float64Array, outputs?: NativeOutputs): Promise<BatchResult> {
    const done = this.#progress.add(prepared.trace.workflows)
    const batch = await runBatch(prepared, {
      variants: ONE_RUN,
      scales,
      workers: Math.min(1, this.#workers),
      threads: this.#workers,
      signal: this.#signal,
      onProgress: done,
      ...(outputs && { outputs }),
    })
    done({ doneRuns: 1, totalRuns: 1, doneWorkflows: prepared.trace.workflows, totalWorkflows: 0 })
    this.#cpuMs += batch.value(0, 'cpuMs')
    this.#calls += batch.value(0, 'calls')
    this.#runs++
    return batch
  }

  #bound({ site, load, knowledge }: Setting, seed: number, prepared: Prepared): Promise<NativeBound> {
    const own = this.#bounds.get(site) ?? new Map<string, Promise<NativeBound>>()
    this.#bounds.set(site, own)
    const key = `${load} ${knowledge} ${seed}`
    const bound =
      own.get(key) ??
      lowerBound(prepared, this.#workers, this.#signal).then((found) => {
        this.#cpuMs += found.cpuMs
        return found
      })
    own.set(key, bound)
    return bound
  }

  /** It begins with the first policy, so that it is the same for all of them. */
  async #reference(setting: Setting, seed: number, rate: number): Promise<NativeReference | undefined> {
    const { reference } = this.#checked
    if (reference === undefined) return undefined
    const own = this.#references.get(setting) ?? []
    this.#references.set(setting, own)
    own[seed] ??= this.#prepared(setting, setting.site.policies[0]!, seed, rate)
      .then((prepared) => searchReference(prepared, reference, this.#workers, this.#signal))
      .then((found) => {
        this.#cpuMs += found.cpuMs
        return found
      })
    return own[seed]
  }

  #saturationRun(site: Site): Promise<Prepared> {
    const { cluster, workload } = site
    const { kind } = cluster
    return this.#prepare({
      trace: async () => allAtOnce(await this.#table(workload, SATURATION_WORKFLOWS, SATURATION_SEED)),
      cluster: cluster.given,
      model: cluster.model,
      policy: SATURATION_POLICY[kind === 'paired' ? 'paired' : 'unified'],
      knowledge: 'online',
      arrivals: 'trace',
      sloBase: 'exclusive',
      prefixCache: this.#checked.common.prefixCache,
    })
  }

  #prepared(setting: Setting, { name, policy }: NamedPolicy, seed: number, rate: number) {
    const { site, knowledge, feedback, pairs } = setting
    const { planning, remaining } = inForce(setting, policy)
    const { cluster, workload } = site
    return this.#prepare({
      ...this.#checked.common,
      ...pairs,
      planning: planning?.planning,
      planLatencyMs: planning?.latencyMs,
      remaining,
      timePlans: planning !== undefined,
      trace: () => this.#table(workload, this.#checked.workflows, seed),
      cluster: cluster.given,
      model: cluster.model,
      policy: policyOption(name),
      knowledge,
      feedback,
      arrivals: 'poisson',
      rate,
      seed,
    })
  }

  async #prepare(options: SimulateOptions): Promise<Prepared & { error: string | undefined }> {
    const reader = new OptionReader({ ...options, signal: this.#signal }, SIMULATE_KEYS)
    const checked = readOptions(reader, this.#native.parameters)
    return { ...(await prepare(this.#native, reader, checked)), error: checked.error?.text }
  }

  /** Each table is made once: all policies, and all threads, read the same memory. */
  #table(workload: Workload, workflows: number | undefined, seed: number): Promise<TraceTable> {
    const own = this.#tables.get(workload) ?? new Map<string, Promise<TraceTable>>()
    this.#tables.set(workload, own)
    const key = `${workflows} ${seed}`
    const table = own.get(key) ?? workload.open(workflows, seed, this.#signal)
    own.set(key, table)
    return table
  }
}
