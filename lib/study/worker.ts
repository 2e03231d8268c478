import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Job } from 'bullmq'
import type { Redis } from 'ioredis'
import { expected, LaxityError } from '../errors.ts'
import { leasePool, type PoolLease } from '../simulator/pool.ts'
import { loadNative } from '../simulator/simulate.ts'
import { download, encodeResult } from './blobs.ts'
import { Threads, warm } from './local.ts'
import { connect, type JobData, KEEP_S, keys, loadPackages, PREFIX, queueName } from './redis.ts'
import type { Range } from './study.ts'

/** Studies whose traces a worker keeps. */
const KEPT_STUDIES = 4

/** Times a chunk may be taken over from workers that went silent, before it counts as failed. */
export const MOST_STALLED = 3

/** A worker that ends looks this often whether its Redis is there, and gives up after so many looks without. */
const LOOK_MS = 250
const MOST_LOOKS = 8

export const DEFAULT_LOCK_MS = 30_000

export interface WorkerOptions {
  url: unknown
  /** Chunks at a time, each on its own thread; default 1. */
  concurrency?: unknown
  /** How long a chunk of a worker that went silent stays its own, ms; default 30,000. */
  lockMs?: unknown
  /** Ends the worker after the chunks it has. */
  signal: AbortSignal
  onNotice?: (text: string) => void
  /** Called when it can take jobs. */
  onReady?: () => void
  onChunk?: (chunk: Range & { study: string; cpuMs: number }) => void
}

/**
 * Serves the chunks of any study on a Redis until `signal`. A chunk is taken by a lock that the process renews; who is
 * killed leaves it to others. A chunk may be computed twice, its result is the same.
 *
 * @throws LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_PACKAGE, ERR_LAXITY_REDIS
 */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const concurrency = whole(options.concurrency, 1, 'concurrency', 1, 256)
  const lockMs = whole(options.lockMs, DEFAULT_LOCK_MS, 'lockMs', 1000, 3_600_000)
  const onNotice = options.onNotice ?? (() => {})
  const redis = await connect(options.url, onNotice)
  const { bullmq } = await loadPackages()
  const native = await loadNative()
  const name = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`

  const studies = new Map<string, Promise<Threads>>()
  const threadsOf = (id: string): Promise<Threads> => {
    let threads = studies.get(id)
    if (threads === undefined) {
      threads = download(redis, id).then((study) => new Threads(native, study))
      threads.catch(() => studies.delete(id))
      studies.set(id, threads)
      for (const oldest of studies.keys()) {
        if (studies.size <= KEPT_STUDIES) break
        studies.delete(oldest)
      }
    }
    return threads
  }

  // Threads start before there is work: the first study does not wait for them.
  let lease: Promise<PoolLease> | undefined = leasePool(concurrency)
  const first = await lease
  await Promise.all(Array.from({ length: concurrency }, () => warm(first)))
  const work = async (job: Job<JobData, number>): Promise<number> => {
    const { study, from, to } = job.data
    const key = keys.result(job.id!)
    // Of a worker that died between its result and the news of it.
    if ((await redis.exists(key)) === 1) return 0
    const threads = await threadsOf(study)
    lease ??= leasePool(concurrency)
    const taken = lease
    const mine = await taken
    let done: Awaited<ReturnType<Threads['compute']>>
    try {
      done = await threads.compute(mine, { from, to })
    } catch (error) {
      // A lease hears of one lost thread only.
      if (!(error instanceof LaxityError) && lease === taken) {
        lease = undefined
        await mine.release(false)
      }
      throw error
    }
    await redis.set(key, await encodeResult({ ...done, worker: name }), 'EX', KEEP_S)
    options.onChunk?.({ study, from, to, cpuMs: done.cpuMs })
    return done.cpuMs
  }

  const worker = new bullmq.Worker<JobData, number>(queueName(), work, {
    connection: redis,
    prefix: PREFIX,
    name,
    // One more than there are threads: while a result travels, its thread has the next chunk.
    concurrency: concurrency + 1,
    lockDuration: lockMs,
    stalledInterval: Math.max(500, Math.floor(lockMs / 2)),
    maxStalledCount: MOST_STALLED,
    runRetryDelay: 500,
    drainDelay: 5,
  })
  // Lost connections and locks: BullMQ goes on by itself, and the coordinator sees what is missing.
  worker.on('error', () => {})
  try {
    await Promise.race([worker.waitUntilReady(), untilAborted(options.signal)])
    options.onReady?.()
    await untilAborted(options.signal)
  } finally {
    await closing(worker, redis)
    await (await lease)?.release(false)
  }
}

/** Ends after the chunks at work, but waits for no Redis that is away. */
async function closing(worker: { close(force?: boolean): Promise<void> }, redis: Redis): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const away = new Promise<void>((resolve) => {
    let looks = 0
    timer = setInterval(() => {
      looks = redis.status === 'ready' ? 0 : looks + 1
      if (looks >= MOST_LOOKS) resolve()
    }, LOOK_MS)
  })
  await Promise.race([worker.close(redis.status !== 'ready').catch(() => {}), away])
  clearInterval(timer)
  redis.disconnect()
}

function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

function whole(value: unknown, fallback: number, name: string, low: number, high: number): number {
  if (value === undefined) return fallback
  if (Number.isInteger(value) && (value as number) >= low && (value as number) <= high) return value as number
  throw new LaxityError(
    'ERR_LAXITY_OPTION',
    expected(`a whole number from ${low} to ${high}`, name, value),
    name,
  )
}
