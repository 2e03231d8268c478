import { LaxityError } from '../errors.ts'
import { Problems } from '../report/problems.ts'
import { type Column, type CsvTable, readCsv } from './csv.ts'

// The two kinds of rows that people measure. What each column means stands in docs/latency-model.md.

/** Which model on which GPUs a row was measured on; where a column is missing, the caller's options say. */
const SETUP: readonly Column[] = [
  { name: 'model', kind: 'text', optional: true },
  { name: 'gpu', kind: 'text', optional: true, aliases: ['hardware', 'system'] },
  { name: 'tp', optional: true, aliases: ['tensorParallel', 'tpSize', 'tp_size'] },
  { name: 'precision', kind: 'text', optional: true, aliases: ['dtype'] },
  { name: 'kvPrecision', kind: 'text', optional: true },
]

/** One engine iteration: `batch` sequences, each with `context` tokens in the KV cache and `newTokens` new ones. */
export const ITERATION_COLUMNS: readonly Column[] = [
  { name: 'batch', aliases: ['b', 'batchSize', 'sequences'] },
  { name: 'context', aliases: ['ctx', 'contextTokens', 'cached', 'cachedTokens'] },
  { name: 'newTokens', aliases: ['new', 'q', 'promptTokens', 'inputTokens'] },
  { name: 'ms', aliases: ['latencyMs', 'timeMs', 'latency', 'time', 'durationMs'] },
  ...SETUP,
]

/** A whole benchmark: `concurrency` requests at a time, and the mean time per output token. */
export const SERVING_COLUMNS: readonly Column[] = [
  { name: 'concurrency', aliases: ['maxConcurrency'] },
  { name: 'inputTokens', aliases: ['isl', 'promptTokens'] },
  { name: 'outputTokens', aliases: ['osl'] },
  { name: 'tpotMs', aliases: ['tpot', 'msPerToken'] },
  ...SETUP,
]

export interface MeasuredRows {
  table: CsvTable
  kind: 'iteration' | 'serving'
}

/**
 * Reads measured rows of either kind.
 *
 * @throws LaxityError as readCsv; ERR_LAXITY_FIELD also for counts and times outside their range, each with its line.
 */
export async function readRows(path: string): Promise<MeasuredRows> {
  const table = await readCsv(path, { iteration: ITERATION_COLUMNS, serving: SERVING_COLUMNS })
  const kind = table.format as MeasuredRows['kind']
  const problems = new Problems()
  if (kind === 'iteration') {
    checkCounts(table, 'batch', 1, 65_535, problems)
    checkCounts(table, 'context', 0, 100_000_000, problems)
    checkCounts(table, 'newTokens', 0, 100_000_000, problems)
    checkTimes(table, 'ms', problems)
  } else {
    checkCounts(table, 'concurrency', 1, 65_535, problems)
    checkCounts(table, 'inputTokens', 1, 100_000_000, problems)
    checkCounts(table, 'outputTokens', 2, 100_000_000, problems)
    checkTimes(table, 'tpotMs', problems)
  }
  problems.throwIfAny()
  return { table, kind }
}

function checkCounts(table: CsvTable, name: string, low: number, high: number, problems: Problems): void {
  for (const [row, value] of table.numbers[name]!.entries()) {
    if (Number.isInteger(value) && value >= low && value <= high) continue
    const message = `Expected a whole number from ${low} to ${high} for \`${name}\`, got ${value}`
    problems.add('ERR_LAXITY_FIELD', message, place(table, row))
  }
}

function checkTimes(table: CsvTable, name: string, problems: Problems): void {
  for (const [row, value] of table.numbers[name]!.entries()) {
    if (value > 0 && value <= 3_600_000) continue
    const message = `Expected a time in ms above 0 and up to an hour for \`${name}\`, got ${value}`
    problems.add('ERR_LAXITY_FIELD', message, place(table, row))
  }
}

export function place({ source, line }: CsvTable, row: number): string {
  return `${source}:${line[row]}`
}

/**
 * A warning where times differ from the estimates by about a thousand: seconds or microseconds where ms are meant.
 * Undefined where they do not.
 */
export function unitWarning(
  source: string,
  measuredMs: Float64Array,
  estimatedMs: Float64Array,
): string | undefined {
  const ratios = measuredMs.map((ms, row) => ms / estimatedMs[row]!).sort()
  const ratio = ratios[ratios.length >> 1]!
  const unit =
    ratio > 1 / 4000 && ratio < 1 / 250 ? 'seconds' : ratio > 250 && ratio < 4000 ? 'microseconds' : ''
  if (unit === '') return undefined
  const example = `row 1 says ${short(measuredMs[0]!)}, the estimate is ${short(estimatedMs[0]!)} ms`
  return `${source}: the times look like ${unit}, not ms: their median is ${short(ratio)} of the estimate (${example})`
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)))
}

/** @throws LaxityError ERR_LAXITY_OPTION naming what neither the rows nor the options say. */
export function required<T>(value: T | undefined, name: string, source: string): T {
  if (value !== undefined) return value
  const message = `\`${name}\` is needed: give it, or a column \`${name}\` in ${source}`
  throw new LaxityError('ERR_LAXITY_OPTION', message, name)
}
