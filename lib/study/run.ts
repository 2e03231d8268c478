import { defaultWorkers } from '../simulator/pool.ts'
import { loadNative } from '../simulator/simulate.ts'
import { type Driven, drive, type Executor } from './drive.ts'
import { Journal } from './journal.ts'
import { LocalExecutor, Threads } from './local.ts'
import { writeOutputs } from './output.ts'
import { Planner } from './plan.ts'
import { type ChunkResult, MemoryStore, type SetAside, type Store } from './store.ts'
import { runCount, type Study } from './study.ts'
import { type CellSummary, summarise } from './summary.ts'

export interface StudyProgress {
  doneRuns: number
  totalRuns: number
  /** Of these: finished in earlier sessions. */
  resumedRuns: number
  /** Of the rest, by what this session needed so far; undefined before its first chunk. */
  remainingMs: number | undefined
}

export interface RunStudyOptions {
  /** Folder of results and outputs. */
  out: string
  /** Threads of a local run; default: cores − 1. */
  workers?: number | undefined
  /** With it, workers on a Redis run the chunks. */
  redis?: unknown
  parquet?: boolean | undefined
  /** Summarise the cells over their seeds. */
  summary?: boolean | undefined
  signal?: AbortSignal | undefined
  onProgress?: ((progress: StudyProgress) => void) | undefined
  /** Things to know while it runs, one line each. */
  onNotice?: ((text: string) => void) | undefined
}

export interface StudyResult {
  id: string
  name: string
  runs: number
  /** Finished, also in earlier sessions. */
  doneRuns: number
  resumedRuns: number
  aside: SetAside[]
  files: string[]
  /** Lines of the journal that were damaged, and whose runs ran again. */
  damaged: number
  /** With `summary`. */
  cells?: CellSummary[]
  timing: {
    wallMs: number
    /** Thread CPU time of this session's runs. */
    cpuMs: number
    chunks: number
    /** Threads of this process; 0 = a Redis' workers. */
    workers: number
  }
}

/**
 * Runs what is left of a study and writes its outputs. Their bytes depend on the study only: not on workers, machines,
 * interruptions.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_STATE, ERR_LAXITY_REDIS, ERR_LAXITY_PACKAGE, ERR_LAXITY_ABORTED
 */
export async function runStudy(study: Study, options: RunStudyOptions): Promise<StudyResult> {
  const started = performance.now()
  const native = await loadNative()
  const threads = new Threads(native, study)
  const { width } = threads.layout
  const journal = await Journal.open(options.out, study, { width })
  const runs = runCount(study)
  const resumedRuns = journal.doneRuns
  try {
    const workers = options.redis === undefined ? (options.workers ?? defaultWorkers()) : 0
    const driven = await execute(study, threads, journal, workers, options)
    const files = [
      journal.path,
      ...(await writeOutputs(
        options.out,
        study,
        threads.layout,
        journal,
        (run) => threads.tenants(run),
        options.parquet === true,
      )),
    ]
    return {
      id: study.id,
      name: study.name,
      runs,
      doneRuns: journal.doneRuns,
      resumedRuns,
      aside: driven.aside,
      files,
      damaged: journal.damaged,
      ...(options.summary && { cells: await summarise(native, study, threads.layout, journal) }),
      timing: { wallMs: performance.now() - started, cpuMs: driven.cpuMs, chunks: driven.chunks, workers },
    }
  } finally {
    await journal.close()
  }
}

async function execute(
  study: Study,
  threads: Threads,
  store: Store,
  workers: number,
  options: Omit<RunStudyOptions, 'out'>,
): Promise<Driven> {
  const { signal, onProgress, onNotice = () => {} } = options
  const runs = runCount(study)
  const resumedRuns = store.doneRuns
  const started = performance.now()
  const onChunk = (doneRuns: number) => {
    const mine = doneRuns - resumedRuns
    const remainingMs = mine === 0 ? undefined : ((performance.now() - started) / mine) * (runs - doneRuns)
    onProgress?.({ doneRuns, totalRuns: runs, resumedRuns, remainingMs })
  }
  const planner = new Planner(runs, (run) => threads.calls(run), threads.layout.width, store)
  if (planner.done && store.open.length === 0) return { aside: [], chunks: 0, cpuMs: 0, runs: 0, repeated: 0 }
  onChunk(resumedRuns)
  const executor = await open(study, threads, workers, options.redis, onNotice)
  let finished = false
  try {
    const driven = await drive(store, planner, executor, { signal, onChunk })
    finished = true
    return driven
  } finally {
    await executor.close(finished)
  }
}

interface Closing extends Executor {
  close(finished: boolean): Promise<void>
}

async function open(
  study: Study,
  threads: Threads,
  workers: number,
  redis: unknown,
  onNotice: (text: string) => void,
): Promise<Closing> {
  if (redis === undefined) return new LocalExecutor(threads, Math.max(1, workers))
  const { RemoteExecutor } = await import('./remote.ts')
  return RemoteExecutor.open(study, { url: redis, onNotice })
}

/** Runs a study in memory and gives its chunks in grid order; for questions that studies answer. */
export async function runInMemory(
  study: Study,
  options: Omit<RunStudyOptions, 'out' | 'parquet' | 'summary'>,
): Promise<{ chunks: ChunkResult[]; layout: Threads['layout']; driven: Driven }> {
  const threads = new Threads(await loadNative(), study)
  const store = new MemoryStore()
  const workers = options.redis === undefined ? (options.workers ?? defaultWorkers()) : 0
  const driven = await execute(study, threads, store, workers, options)
  const chunks: ChunkResult[] = []
  for await (const chunk of store.chunks()) chunks.push(chunk)
  return { chunks, layout: threads.layout, driven }
}
