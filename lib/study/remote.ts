import type { Job, Queue, QueueEvents } from 'bullmq'
import type { Redis } from 'ioredis'
import { Blobs, decodeResult } from './blobs.ts'
import { ATTEMPTS, type ChunkFailure, type Executed, type Executor } from './drive.ts'
import {
  connect,
  type JobData,
  jobId,
  KEEP_S,
  keys,
  loadPackages,
  PREFIX,
  publicUrl,
  queueName,
} from './redis.ts'
import type { Range, Study } from './study.ts'

/** How often what is under way is looked up, beside the news of it: news may be lost with a connection. */
const LOOK_MS = 1000
/** Chunks under way beyond twice those at work. */
const AHEAD = 8
const NO_WORKER_MS = 2000
const CLOSE_MS = 2000

interface Pending {
  chunk: Range
  since: number
  resolve: (done: Executed | ChunkFailure) => void
  busy: boolean
}

export interface RemoteOptions {
  url: unknown
  onNotice: (text: string) => void
}

/**
 * Runs a study's chunks by whatever workers a Redis has. Jobs are named by study and runs, so that a coordinator that comes
 * back finds those of the one before; what Redis has lost is sent again.
 */
export class RemoteExecutor implements Executor {
  readonly #redis: Redis
  readonly #url: string
  readonly #study: Study
  readonly #blobs: Blobs
  readonly #queue: Queue<JobData>
  readonly #events: QueueEvents
  readonly #onNotice: (text: string) => void
  readonly #pending = new Map<string, Pending>()
  readonly #timer: NodeJS.Timeout
  #active = 0
  #looking = false
  #alone: number | undefined = performance.now()
  #told = false
  #closed = false

  private constructor(
    redis: Redis,
    url: string,
    study: Study,
    blobs: Blobs,
    queue: Queue<JobData>,
    events: QueueEvents,
    onNotice: (text: string) => void,
  ) {
    this.#redis = redis
    this.#url = url
    this.#study = study
    this.#blobs = blobs
    this.#queue = queue
    this.#events = events
    this.#onNotice = onNotice
    const heard = ({ jobId }: { jobId: string }) => this.#settle(jobId)
    events.on('completed', heard)
    events.on('failed', heard)
    queue.on('error', () => {})
    events.on('error', () => {})
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
  }

  /** @throws LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_PACKAGE, ERR_LAXITY_REDIS, ERR_LAXITY_LIMIT */
  static async open(study: Study, { url, onNotice }: RemoteOptions): Promise<RemoteExecutor> {
    const redis = await connect(url, onNotice)
    const { bullmq } = await loadPackages()
    try {
      const blobs = new Blobs(redis, study)
      await blobs.upload()
      const options = { connection: redis, prefix: PREFIX }
      const queue = new bullmq.Queue<JobData>(queueName(), options)
      const events = new bullmq.QueueEvents(queueName(), options)
      await events.waitUntilReady()
      return new RemoteExecutor(redis, url as string, study, blobs, queue, events, onNotice)
    } catch (error) {
      redis.disconnect()
      throw error
    }
  }

  window(): number {
    return 2 * this.#active + AHEAD
  }

  run(chunk: Range): Promise<Executed | ChunkFailure> {
    const id = jobId(this.#study.id, chunk)
    return new Promise((resolve) => {
      this.#pending.set(id, { chunk, since: performance.now(), resolve, busy: false })
      this.#add(id, chunk).catch(() => {
        // The next look adds it.
      })
    })
  }

  /** Takes back what no worker has begun; `finished`: the study is over. */
  async close(finished: boolean): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    const clean = async () => {
      if (finished) await this.#blobs.remove()
      else await Promise.allSettled([...this.#pending.keys()].map((id) => this.#queue.remove(id)))
    }
    await Promise.race([
      clean().catch(() => {}),
      new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref()),
    ])
    this.#events.removeAllListeners()
    this.#events.on('error', () => {})
    const quiet = [this.#events.close(), this.#queue.close()].map((closing) => closing.catch(() => {}))
    await Promise.race([Promise.all(quiet), new Promise((resolve) => setTimeout(resolve, CLOSE_MS).unref())])
    this.#redis.disconnect()
  }

  async #add(id: string, { from, to }: Range): Promise<void> {
    await this.#queue.add(
      'chunk',
      { study: this.#study.id, from, to },
      {
        jobId: id,
        attempts: ATTEMPTS,
        backoff: { type: 'fixed', delay: 500 },
        removeOnComplete: { age: KEEP_S },
        removeOnFail: { age: KEEP_S },
      },
    )
    // A job of an earlier coordinator may be over already.
    await this.#settleNow(id, true)
  }

  #settle(id: string): void {
    void this.#settleNow(id, false).catch(() => {})
  }

  /** Ends a pending chunk whose job is over. `fresh`: what a job left behind before this session is not its end. */
  async #settleNow(id: string, fresh: boolean): Promise<void> {
    const pending = this.#pending.get(id)
    if (pending === undefined || pending.busy || this.#closed) return
    pending.busy = true
    try {
      const bytes = await this.#redis.getBuffer(keys.result(id))
      if (bytes !== null) {
        const { rows, cpuMs } = await decodeResult(bytes)
        this.#pending.delete(id)
        pending.resolve({ rows, cpuMs, stored: () => this.#forget(id) })
        return
      }
      const job = await this.#queue.getJob(id)
      if (job === undefined) return
      if (job.finishedOn === undefined) return
      if ((await job.isFailed()) && !fresh) {
        this.#pending.delete(id)
        await job.remove().catch(() => {})
        pending.resolve({ failed: oneReason(job), attempts: job.attemptsMade })
        return
      }
      // Failed in an earlier session, or completed and its result gone: once more.
      await job.remove()
      if (!fresh) await this.#add(id, pending.chunk)
      else await this.#queue.add('chunk', job.data, { ...job.opts, jobId: id })
    } finally {
      pending.busy = false
    }
  }

  async #forget(id: string): Promise<void> {
    try {
      if (this.#redis.status !== 'ready') return
      await Promise.all([this.#redis.del(keys.result(id)), this.#queue.remove(id)])
    } catch {
      // It expires.
    }
  }

  /** What should be there and is not, is added; what is over and was not heard of, ends. */
  async #look(): Promise<void> {
    if (this.#looking || this.#closed || this.#redis.status !== 'ready') return
    this.#looking = true
    try {
      this.#active = await this.#queue.getActiveCount()
      await this.#blobs.upload()
      const now = performance.now()
      for (const [id, { chunk, since }] of [...this.#pending]) {
        if (now - since < LOOK_MS) continue
        if (!this.#pending.has(id)) continue
        const job = await this.#queue.getJob(id)
        if (job === undefined) {
          if ((await this.#redis.exists(keys.result(id))) === 1) await this.#settleNow(id, false)
          else if (this.#pending.has(id)) await this.#add(id, chunk)
        } else if (job.finishedOn !== undefined) await this.#settleNow(id, false)
      }
      await this.#lookForWorkers(now)
    } catch {
      // The connection went; the next look tells.
    } finally {
      this.#looking = false
    }
  }

  async #lookForWorkers(now: number): Promise<void> {
    const workers = this.#active > 0 ? 1 : await this.#queue.getWorkersCount().catch(() => 1)
    if (workers > 0) {
      this.#alone = undefined
      this.#told = false
      return
    }
    this.#alone ??= now
    if (this.#told || now - this.#alone < NO_WORKER_MS) return
    this.#told = true
    this.#onNotice(
      `no worker is connected: start \`laxity worker --redis ${publicUrl(this.#url)}\` on any machine`,
    )
  }
}

function oneReason({ failedReason }: Job): string {
  return (failedReason ?? 'no reason given').replace(/\s+/g, ' ').trim()
}
