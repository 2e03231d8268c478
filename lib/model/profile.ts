import { LaxityError } from '../errors.ts'
import type { NativeGrid, NativeLatency } from '../native.ts'
import { type CsvTable, readCsv } from './csv.ts'
import { ITERATION_COLUMNS, place, readRows } from './rows.ts'

/** How far a measured profile reaches. */
export interface Coverage {
  batch: number
  contextPerSequence: number
  newTokens: number
  extrapolate: boolean
}

export interface MeasuredProfile {
  latency: Extract<NativeLatency, { kind: 'profile' }>
  coverage: Coverage
  /** Cells that fell below a smaller load and were raised to it, and by how much at most. */
  raised: { cells: number; mostPercent: number }
}

/**
 * A measured profile from a CSV of iterations: decode rows have `newTokens` 0 or 1, prefill rows more, with batch 1.
 * Repeated rows count by their median; times that fall where the load grows are raised to the largest before (noise).
 *
 * @throws LaxityError as readRows; ERR_LAXITY_RANGE where the grid has holes and `extrapolate` is not set;
 * ERR_LAXITY_EMPTY without decode or without prefill rows.
 */
export async function readProfile(path: string, extrapolate: boolean): Promise<MeasuredProfile> {
  const { table, kind } = await readRows(path)
  if (kind !== 'iteration') {
    await readCsv(path, { iteration: ITERATION_COLUMNS }) // says which columns are missing
  }
  return profileOf(table, extrapolate)
}

export function profileOf(table: CsvTable, extrapolate: boolean): MeasuredProfile {
  const { batch, context, newTokens, ms } = table.numbers as Record<string, Float64Array>
  const decode: Cell[] = []
  const prefill: Cell[] = []
  for (let row = 0; row < table.rows; row++) {
    if (newTokens![row]! <= 1) decode.push({ row: batch![row]!, column: context![row]!, ms: ms![row]! })
    else if (batch![row] === 1) prefill.push({ row: context![row]!, column: newTokens![row]!, ms: ms![row]! })
    else {
      const message = `Expected batch 1 in a prefill row (\`newTokens\` > 1), got ${batch![row]}`
      throw new LaxityError('ERR_LAXITY_FIELD', message, place(table, row))
    }
  }
  const raised = { cells: 0, mostPercent: 0 }
  const names = { row: 'batch', column: 'context' }
  const decodeGrid = gridOf(decode, names, 'decode', table.source, extrapolate, raised)
  const prefillNames = { row: 'context', column: 'newTokens' }
  const prefillGrid = gridOf(prefill, prefillNames, 'prefill', table.source, extrapolate, raised)
  return {
    latency: { kind: 'profile', decode: decodeGrid, prefill: prefillGrid },
    coverage: {
      batch: decodeGrid.rows.at(-1)!,
      contextPerSequence: decodeGrid.columns.at(-1)!,
      newTokens: prefillGrid.columns.at(-1)!,
      extrapolate,
    },
    raised,
  }
}

/** What of a need lies beyond the profile; undefined where nothing does, or extrapolation is allowed. */
export function beyond(
  coverage: Coverage,
  need: { batch: number; contextPerSequence: number; newTokens: number },
): string | undefined {
  if (coverage.extrapolate) return undefined
  const parts: string[] = []
  if (need.batch > coverage.batch) parts.push(`batch ${need.batch} (measured up to ${coverage.batch})`)
  if (need.contextPerSequence > coverage.contextPerSequence)
    parts.push(`context ${need.contextPerSequence} (measured up to ${coverage.contextPerSequence})`)
  if (need.newTokens > coverage.newTokens)
    parts.push(`prompts of ${need.newTokens} tokens (measured up to ${coverage.newTokens})`)
  return parts.length > 0 ? parts.join(', ') : undefined
}

interface Cell {
  row: number
  column: number
  ms: number
}

function gridOf(
  cells: readonly Cell[],
  names: { row: string; column: string },
  what: string,
  source: string,
  extrapolate: boolean,
  raised: MeasuredProfile['raised'],
): NativeGrid {
  if (cells.length === 0) throw new LaxityError('ERR_LAXITY_EMPTY', `The profile has no ${what} rows`, source)
  const rows = ascending(cells.map((cell) => cell.row))
  const columns = ascending(cells.map((cell) => cell.column))
  const measured = new Map<string, number[]>()
  for (const { row, column, ms } of cells) {
    const key = `${row} ${column}`
    const list = measured.get(key)
    if (list === undefined) measured.set(key, [ms])
    else list.push(ms)
  }
  const ms: number[] = []
  for (const row of rows) {
    const line = columns.map((column) => median(measured.get(`${row} ${column}`)))
    const hole = line.indexOf(undefined)
    if (hole >= 0 && !extrapolate) {
      const message = `No ${what} row for ${names.row} ${row}, ${names.column} ${columns[hole]}: measure it, or allow \`extrapolate\``
      throw new LaxityError('ERR_LAXITY_RANGE', message, source)
    }
    ms.push(...filled(columns, line))
  }
  for (let i = 0; i < ms.length; i++) {
    const left = i % columns.length > 0 ? ms[i - 1]! : 0
    const above = i >= columns.length ? ms[i - columns.length]! : 0
    const least = Math.max(left, above)
    if (ms[i]! >= least) continue
    raised.cells++
    raised.mostPercent = Math.max(raised.mostPercent, 100 * (least / ms[i]! - 1))
    ms[i] = least
  }
  return { rows, columns, ms }
}

/** Holes between two values by interpolation, at the ends along the nearest two; a single value holds everywhere. */
function filled(columns: readonly number[], line: readonly (number | undefined)[]): number[] {
  const known = line.flatMap((ms, at) => (ms === undefined ? [] : [{ at, ms }]))
  return line.map((ms, at) => {
    if (ms !== undefined) return ms
    let upper = known.findIndex((point) => point.at > at)
    if (upper < 0) upper = known.length - 1
    const high = known[Math.max(upper, Math.min(1, known.length - 1))]!
    const low = known[Math.max(known.indexOf(high) - 1, 0)]!
    if (low === high) return low.ms
    const slope = Math.max(0, (high.ms - low.ms) / (columns[high.at]! - columns[low.at]!))
    const value = low.ms + slope * (columns[at]! - columns[low.at]!)
    return Math.max(value, Math.min(low.ms, high.ms) * 0.01)
  })
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b)
}

function median(values: readonly number[] | undefined): number | undefined {
  if (values === undefined) return undefined
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
