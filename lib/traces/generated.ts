import { expected, LaxityError } from '../errors.ts'
import type { TraceColumns } from '../native.ts'
import { sharedColumn } from './columns.ts'

/** Checks of a generator's options. @throws LaxityError ERR_LAXITY_OPTION */
export function checkWhole(value: unknown, low: number, high: number, field: string): void {
  if (Number.isInteger(value) && (value as number) >= low && (value as number) <= high) return
  const message = expected(`a whole number from ${low} to ${high}`, field, value)
  throw new LaxityError('ERR_LAXITY_OPTION', message, field)
}

/** Columns for a native generator to fill. */
export function emptyColumns(size: { workflows: number; calls: number; edges: number }): TraceColumns {
  return {
    firstCall: sharedColumn(Uint32Array, size.workflows + 1),
    stage: sharedColumn(Uint16Array, size.calls),
    promptTokens: sharedColumn(Uint32Array, size.calls),
    outputTokens: sharedColumn(Uint32Array, size.calls),
    parentOffset: sharedColumn(Uint32Array, size.calls + 1),
    parents: sharedColumn(Uint32Array, size.edges),
  }
}
