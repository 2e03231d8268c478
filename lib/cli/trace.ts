import { describe, LaxityError } from '../errors.ts'
import type { TraceFormat } from '../traces/read.ts'
import type { TraceTable } from '../traces/table.ts'

/** Workflows of the published traces that the generator follows. */
const CHESS_SIZE = { 1: 90, 2: 96, 3: 110 } as const

/** What a `<trace>` argument accepts. */
export const TRACE_HELP =
  'laxity JSONL, HexGen-Flow JSON, Azure CSV or Mooncake JSONL, gzipped or not; `-` = standard input; or chess:1, chess:2, chess:3, mac-sql[:workflows] for generated ones'

/** Workflows of MAC-SQL's published trace. */
const MAC_SQL_SIZE = 150

export const FORMAT_HELP =
  'jsonl, hexgen, azure, mooncake (single calls) or mooncake-chains (default: by content; Mooncake as single calls)'

/** Opens a `<trace>` argument. Generated workloads are always the same: seeds of a run draw its arrivals only. */
export async function openTrace(argument: string, signal: AbortSignal, format?: string): Promise<TraceTable> {
  const isGenerated = /^(chess:|mac-sql(:|$))/.test(argument)
  if (isGenerated && format !== undefined) {
    throw new LaxityError('ERR_LAXITY_OPTION', '`format` has no meaning for a generated trace', 'format')
  }
  if (argument.startsWith('chess:')) return generate(argument)
  if (isGenerated) return generateMacSql(argument)
  const { readTrace } = await import('../traces/read.ts')
  const options = { signal, ...(format !== undefined && { format: format as TraceFormat }) }
  if (argument === '-') return readTrace(process.stdin, { ...options, source: '<stdin>' })
  return readTrace(argument, options)
}

async function generateMacSql(argument: string): Promise<TraceTable> {
  const match = /^mac-sql(?::(\d{1,9}))?$/.exec(argument)
  if (match === null) {
    const message = `Expected mac-sql, with :workflows or without, for \`trace\`, got ${describe(argument)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'trace')
  }
  const { macSqlTrace } = await import('../traces/mac-sql.ts')
  return macSqlTrace({ workflows: match[1] === undefined ? MAC_SQL_SIZE : Number(match[1]), seed: 1 })
}

async function generate(argument: string): Promise<TraceTable> {
  const match = /^chess:([123])(?::(\d{1,9}))?$/.exec(argument)
  if (match === null) {
    const message = `Expected chess:1, chess:2 or chess:3, with :workflows or without, for \`trace\`, got ${describe(argument)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'trace')
  }
  const { chessTrace } = await import('../traces/chess.ts')
  const preset = Number(match[1]) as 1 | 2 | 3
  const workflows = match[2] === undefined ? CHESS_SIZE[preset] : Number(match[2])
  return chessTrace({ workflows, preset, seed: 1 })
}
