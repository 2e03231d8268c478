import { namesAt } from '../cluster/bind.ts'
import { type ErrorCode, LaxityError } from '../errors.ts'
import type { NativeAddon } from '../native.ts'
import { placementError } from '../scheduler/placement.ts'
import type { TraceTable } from '../traces/table.ts'
import { CANCELLED, type ChunkResult, THROWN } from './chunk.ts'

/** Statuses of `native/base/status.h` that have a better code than ERR_LAXITY_NATIVE. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  5: 'ERR_LAXITY_PARENT',
  9: 'ERR_LAXITY_FIELD',
  10: 'ERR_LAXITY_FIELD',
  11: 'ERR_LAXITY_OPTION',
  14: 'ERR_LAXITY_NEVER_FITS',
  15: 'ERR_LAXITY_OPTION',
  17: 'ERR_LAXITY_OPTION',
  18: 'ERR_LAXITY_LIMIT',
  19: 'ERR_LAXITY_OPTION',
  20: 'ERR_LAXITY_LOG',
  [CANCELLED]: 'ERR_LAXITY_ABORTED',
  22: 'ERR_LAXITY_CYCLE',
  23: 'ERR_LAXITY_LIMIT',
}

/** A placement function threw, or named no candidate. */
const PLACEMENT_FAILED = 26

/** What a batch that stopped means to its caller. */
export function batchError(native: NativeAddon, trace: TraceTable, answer: ChunkResult): LaxityError {
  const { status, badRow, message } = answer
  if (status === PLACEMENT_FAILED) return placementError(answer.placementFailure)
  if (status === THROWN) return new LaxityError('ERR_LAXITY_OPTION', message ?? 'Refused by the core')
  return badRow === undefined ? statusError(native, status) : rowError(native, trace, badRow)
}

/** The status with which the core declined a run, as an error. */
function statusError(native: NativeAddon, status: number): LaxityError {
  return new LaxityError(CODES[status] ?? 'ERR_LAXITY_NATIVE', reason(native, status))
}

/** The first row of a trace that the core declined, as an error that names it. */
function rowError(
  native: NativeAddon,
  trace: TraceTable,
  bad: { status: number; workflow: number; call: number },
): LaxityError {
  const code = bad.status === 11 ? 'ERR_LAXITY_FIELD' : (CODES[bad.status] ?? 'ERR_LAXITY_NATIVE')
  const row = (trace.columns.firstCall[bad.workflow] ?? 0) + bad.call
  const { workflow, call } = namesAt(trace, row)
  return new LaxityError(
    code,
    `workflow ${workflow}, call ${call}: ${reason(native, bad.status)}`,
    trace.source,
  )
}

export function abortedError(signal: AbortSignal | undefined): LaxityError {
  return new LaxityError('ERR_LAXITY_ABORTED', 'Stopped before it was done', undefined, {
    cause: signal?.reason,
  })
}

function reason(native: NativeAddon, status: number): string {
  return native.statusReasons[status] ?? `the core answered with status ${status}`
}
