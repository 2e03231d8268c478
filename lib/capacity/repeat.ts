import { expected, LaxityError } from '../errors.ts'
import type { TraceColumns } from '../native.ts'
import { sharedColumn } from '../traces/columns.ts'
import { MAX_CALLS } from '../traces/limits.ts'
import type { TraceTable } from '../traces/table.ts'

/**
 * The workflows of a trace `times` times, one copy after the other, without recorded arrivals: a trace that is long enough
 * for a steady state. Ids are left out.
 *
 * @throws LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_LIMIT
 */
export function repeatTrace(trace: TraceTable, times: number): TraceTable {
  if (!Number.isInteger(times) || times < 1 || times > 1_000_000) {
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      expected('a whole number from 1 to 1000000', 'repeat', times),
      'repeat',
    )
  }
  if (times === 1) return trace
  const { workflows, calls } = trace
  if (calls * times > MAX_CALLS) {
    throw new LaxityError('ERR_LAXITY_LIMIT', `More than ${MAX_CALLS} calls: lower \`repeat\``, 'repeat')
  }
  const { firstCall, parentOffset, arrivalMs: _, ...plain } = trace.columns
  const columns = Object.fromEntries(
    Object.entries(plain).map(([name, column]) => [name, copies(column, times)]),
  ) as unknown as Omit<TraceColumns, 'firstCall' | 'parentOffset'>
  const { workflowIds: __, callIds: ___, ...rest } = trace
  return {
    ...rest,
    workflows: workflows * times,
    calls: calls * times,
    columns: {
      ...columns,
      firstCall: offsets(firstCall, times),
      parentOffset: offsets(parentOffset, times),
    },
  }
}

function copies<T extends Uint16Array | Uint32Array | Float64Array>(column: T, times: number): T {
  const all = sharedColumn(column.constructor as never, column.length * times) as T
  for (let copy = 0; copy < times; copy++) all.set(column, copy * column.length)
  return all
}

/** Offsets of rows into another column: those of a copy begin where the one before ended. */
function offsets(column: Uint32Array, times: number): Uint32Array {
  const rows = column.length - 1
  const length = column[rows]!
  const all = sharedColumn(Uint32Array, rows * times + 1)
  for (let copy = 0; copy < times; copy++) {
    for (let row = 0; row < rows; row++) all[copy * rows + row] = column[row]! + copy * length
  }
  all[rows * times] = length * times
  return all
}
