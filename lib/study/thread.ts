import { native } from '../native.ts'
import { type Cache, type Chunk, type ChunkResult, COLUMNS, runVariant, THROWN } from '../simulator/chunk.ts'
import { TENANT_COLUMNS } from '../simulator/tenants.ts'
import type { CellPart } from './cells.ts'
import { fillRow, type RowLayout } from './rows.ts'

/** Some runs of a study for one thread. */
export interface ThreadTask {
  parts: readonly CellPart[]
  scales: Float64Array
  layout: RowLayout
  /** See NativeOutputs. */
  control: Int32Array
}

export interface ThreadAnswer {
  /** Rows of all runs in order; shorter where a run failed. */
  rows: Float64Array
  /** Thread CPU time of the runs. */
  cpuMs: number
  /** The first run that failed. */
  failed?: { run: number; answer: ChunkResult }
}

const cache: Cache = {}
const CPU = COLUMNS.indexOf('cpuMs')

/** Runs them in order, until one fails. */
export default function work({ parts, scales, layout, control }: ThreadTask): ThreadAnswer {
  const runs = parts.reduce((sum, { seeds }) => sum + seeds.length, 0)
  const rows = new Float64Array(runs * layout.width)
  const attainment = new Float64Array(scales.length)
  const values = new Float64Array(COLUMNS.length)
  const finished = new Int32Array(new SharedArrayBuffer(4))
  let cpuMs = 0
  let done = 0
  for (const { setup, run, alpha, seeds, tenants } of parts) {
    const tenantWidth = tenants.length > 1 ? tenants.length * TENANT_COLUMNS.length : 0
    const tenantRows = tenantWidth > 0 ? new Float64Array(tenantWidth) : undefined
    const chunk: Chunk = {
      setup,
      base: run,
      variants: [],
      rows: values,
      scales,
      attainment,
      control,
      finished,
      ...(tenantRows && { tenantWidth, tenants: tenantRows }),
    }
    for (const seed of seeds) {
      const answer = attempt(chunk, alpha, seed)
      if (answer.status !== 0) {
        return { rows: rows.subarray(0, done * layout.width), cpuMs, failed: { run: done, answer } }
      }
      const row = rows.subarray(done * layout.width, (done + 1) * layout.width)
      fillRow(row, layout, values, attainment, tenantRows, tenants)
      cpuMs += values[CPU]!
      done++
    }
  }
  return { rows, cpuMs }
}

function attempt(chunk: Chunk, alpha: number, seed: number): ChunkResult {
  try {
    return runVariant(native, cache, chunk, { row: 0, alpha, replication: 0, seed })
  } catch (error) {
    return { status: THROWN, message: error instanceof Error ? error.message : String(error) }
  }
}
