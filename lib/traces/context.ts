import { expected, LaxityError } from '../errors.ts'
import { sharedColumn } from './columns.ts'
import type { TraceTable } from './table.ts'

/**
 * What the prompts of a trace hold. `full`: history and new tokens, `cachedTokens` = the history. `new`: the new tokens
 * alone, as with a prefix cache that never misses.
 */
export type ContextPreset = 'new' | 'full'

export const CONTEXT_PRESETS = ['new', 'full'] as const

/** @throws LaxityError ERR_LAXITY_OPTION */
export function readContext(value: unknown): ContextPreset {
  if (CONTEXT_PRESETS.includes(value as ContextPreset)) return value as ContextPreset
  throw new LaxityError('ERR_LAXITY_OPTION', expected('new or full', 'context', value), 'context')
}

/**
 * The trace in the preset: for `new`, every prompt without its cached tokens. The given one is not changed.
 *
 * @throws LaxityError ERR_LAXITY_OPTION for `full` where the trace holds new tokens alone: the history is gone
 */
export function withContext(table: TraceTable, context: ContextPreset): TraceTable {
  readContext(context)
  if (table.context === context) return table
  if (table.context === 'new') {
    const message = `\`context\` "full" needs a trace with the history; that of ${table.source} was left out`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'context')
  }
  const { cachedTokens, ...columns } = table.columns
  if (context === 'full' || cachedTokens === undefined) return { ...table, context }
  const promptTokens = sharedColumn(Uint32Array, table.calls)
  for (let call = 0; call < table.calls; call++) {
    promptTokens[call] = columns.promptTokens[call]! - cachedTokens[call]!
  }
  return { ...table, context, columns: { ...columns, promptTokens } }
}
