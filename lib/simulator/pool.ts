import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import type { Piscina } from 'piscina'
import { besideScheduler } from './background.ts'
import type { Chunk, ChunkResult } from './chunk.ts'

/** Idle threads end after this time: a tuner that sweeps every few seconds finds them warm. */
const IDLE_MS = 10_000

export interface PoolLease {
  readonly size: number
  run(chunk: Chunk): Promise<ChunkResult>
  /** Gives a task to the default export of another module, by its URL, on the same threads. */
  runModule(url: string, task: unknown): Promise<unknown>
  /** Rejects when a thread dies without a task of its own, as when it cannot load the addon. */
  readonly failed: Promise<never>
  /** Gives the pool back. `broken`: its threads may be busy with abandoned work, so nobody may get it again. */
  release(broken: boolean): Promise<void>
}

/** What a pool's threads are given at their start, once for all tasks. */
export interface WorkerData {
  background: boolean
}

interface Shared {
  key: string
  pool: Piscina
  users: number
  retired: boolean
}

/** One pool per size and priority, since a thread that has lowered its own cannot raise it; threads start on demand. */
const pools = new Map<string, Shared>()

export function defaultWorkers(): number {
  return Math.max(1, availableParallelism() - 1)
}

/**
 * piscina is loaded with the first pool: small jobs never need it. `background`: its threads leave the cores to others;
 * default: where a live scheduler serves in this process.
 */
export async function leasePool(size: number, background = besideScheduler()): Promise<PoolLease> {
  const { Piscina } = await import('piscina')
  const key = `${size} ${background}`
  let shared = pools.get(key)
  if (shared === undefined) {
    // In the sources this file and the worker end in .ts, in the package in .js.
    const filename = new URL(`./worker${extname(import.meta.url)}`, import.meta.url).href
    const workerData: WorkerData = { background }
    const pool = new Piscina({ filename, minThreads: 0, maxThreads: size, idleTimeout: IDLE_MS, workerData })
    // A death between two batches is nobody's error: the pool starts another thread.
    pool.on('error', () => {})
    // One for every batch under way.
    pool.setMaxListeners(0)
    shared = { key, pool, users: 0, retired: false }
    pools.set(key, shared)
  }
  const mine = shared
  mine.users++
  let died: (error: Error) => void = () => {}
  const failed = new Promise<never>((_, reject) => {
    died = reject
  })
  failed.catch(() => {})
  mine.pool.on('error', died)
  return {
    size,
    failed,
    run: (chunk) => mine.pool.run(chunk) as Promise<ChunkResult>,
    runModule: (filename, task) => mine.pool.run(task, { filename }),
    release: async (broken) => {
      mine.users--
      mine.pool.off('error', died)
      if (broken && !mine.retired) {
        mine.retired = true
        if (pools.get(key) === mine) pools.delete(key)
      }
      if (mine.retired && mine.users === 0) await mine.pool.destroy()
    },
  }
}

/** Ends idle threads now, for programs that are about to end. */
export async function closePools(): Promise<void> {
  const idle = [...pools.values()].filter((shared) => shared.users === 0)
  for (const shared of idle) pools.delete(shared.key)
  await Promise.all(idle.map((shared) => shared.pool.destroy()))
}
