import { LaxityError } from '../errors.ts'
import { abortedError } from '../simulator/status.ts'
import type { Planner } from './plan.ts'
import type { ChunkResult, SetAside, Store } from './store.ts'
import type { Range } from './study.ts'

/** Attempts before a chunk is halved, or set aside where it is one run. */
export const ATTEMPTS = 3

/** Beyond this many runs set aside, failing chunks are no longer halved: the cause is not one run. */
const MOST_ASIDE = 20

/** Where chunks are computed. */
export interface Executor {
  /** Chunks that should be under way now. */
  window(): number
  /** Fails after ATTEMPTS; rejects when the study must stop. */
  run(chunk: Range): Promise<Executed | ChunkFailure>
}

export interface Executed extends Omit<ChunkResult, 'from' | 'to'> {
  /** Called when the result is stored: the executor may forget it. */
  stored?: () => Promise<void>
}

/** A chunk that failed as often as it may. */
export interface ChunkFailure {
  failed: string
  attempts: number
}

export interface DriveOptions {
  signal: AbortSignal | undefined
  /** After every chunk. */
  onChunk: (doneRuns: number) => void
}

export interface Driven {
  aside: SetAside[]
  chunks: number
  /** Of this session. */
  cpuMs: number
  runs: number
  /** Chunks whose result was there already. */
  repeated: number
}

/**
 * Runs what is left of a study: chunks that were planned before, then new ones, `window` at a time. Each result is stored
 * before the next is planned in its place. A chunk that fails for good is halved until the run that is to blame is alone.
 *
 * @throws LaxityError ERR_LAXITY_ABORTED; what the store throws.
 */
export async function drive(
  store: Store,
  planner: Planner,
  executor: Executor,
  { signal, onChunk }: DriveOptions,
): Promise<Driven> {
  const result: Driven = { aside: [], chunks: 0, cpuMs: 0, runs: 0, repeated: 0 }
  const waiting: Range[] = [...store.open]
  const under = new Set<Promise<void>>()
  let failure: unknown
  let asideRuns = 0

  const settle = async (chunk: Range): Promise<void> => {
    const done = await executor.run(chunk)
    if ('failed' in done) {
      if (chunk.to - chunk.from > 1 && asideRuns < MOST_ASIDE) {
        const middle = (chunk.from + chunk.to) >>> 1
        const halves = [
          { from: chunk.from, to: middle },
          { from: middle, to: chunk.to },
        ]
        for (const half of halves) await store.plan(half)
        waiting.unshift(...halves)
        return
      }
      const aside = { ...chunk, error: done.failed, attempts: done.attempts }
      asideRuns += chunk.to - chunk.from
      result.aside.push(aside)
      await store.setAside(aside)
      return
    }
    const isNew = await store.append({ ...chunk, rows: done.rows, cpuMs: done.cpuMs })
    await done.stored?.()
    planner.learn(chunk, done.cpuMs)
    if (isNew) {
      result.chunks++
      result.cpuMs += done.cpuMs
      result.runs += chunk.to - chunk.from
    } else result.repeated++
    onChunk(store.doneRuns)
  }

  let wake = () => {}
  const onAbort = () => wake()
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    while (failure === undefined) {
      if (signal?.aborted) throw abortedError(signal)
      while (under.size < executor.window() && (waiting.length > 0 || !planner.done)) {
        let chunk = waiting.shift()
        if (chunk === undefined) {
          chunk = planner.next()
          await store.plan(chunk)
        }
        const job = settle(chunk)
          .catch((error) => {
            failure ??= error
          })
          .finally(() => under.delete(job))
        under.add(job)
        // The first chunk tells how long others should be; a second one bridges the way of its result.
        if (!planner.measured && under.size >= 2) break
      }
      if (under.size === 0) break
      const aborted = new Promise<void>((resolve) => {
        wake = resolve
      })
      await Promise.race([...under, aborted])
    }
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
  if (failure !== undefined) throw failure
  if (signal?.aborted) throw new LaxityError('ERR_LAXITY_ABORTED', 'Stopped before it was done')
  result.aside.sort((a, b) => a.from - b.from)
  return result
}
