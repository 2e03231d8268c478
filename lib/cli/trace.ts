import { describe, LaxityError } from '../errors.ts'
import type { TraceTable } from '../traces/table.ts'

/** Workflows of the published traces that the generator follows. */
const CHESS_SIZE = { 1: 90, 2: 96, 3: 110 } as const

/** What a `<trace>` argument accepts. */
export const TRACE_HELP =
  'HexGen-Flow JSON or laxity JSONL, gzipped or not; `-` = standard input; or chess:1, chess:2, chess:3[:workflows] for generated ones'

/** Opens a `<trace>` argument. Generated workloads are always the same: seeds of a run draw its arrivals only. */
export async function openTrace(argument: string, signal: AbortSignal): Promise<TraceTable> {
  if (argument.startsWith('chess:')) return generate(argument)
  const { readTrace } = await import('../traces/read.ts')
  if (argument === '-') return readTrace(process.stdin, { signal, source: '<stdin>' })
  return readTrace(argument, { signal })
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
