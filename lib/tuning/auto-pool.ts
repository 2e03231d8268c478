import { extname } from 'node:path'
import type { Piscina } from 'piscina'
import type { SweepJob } from './auto-worker.ts'

const IDLE_MS = 10_000

let pool: Promise<Piscina> | undefined

/** Sweeps of all live schedulers, one after the other on one thread beside the one that serves, and in its background. */
export async function sweepOnPool(job: SweepJob): Promise<Float64Array> {
  pool ??= import('piscina').then(({ Piscina: Pool }) => {
    const filename = new URL(`./auto-worker${extname(import.meta.url)}`, import.meta.url).href
    const created = new Pool({ filename, minThreads: 0, maxThreads: 1, idleTimeout: IDLE_MS })
    created.on('error', () => {})
    return created
  })
  return (await pool).run(job) as Promise<Float64Array>
}
