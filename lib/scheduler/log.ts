import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream/promises'
import { LaxityError } from '../errors.ts'
import type { NativeCluster, NativeLatency, NativeRun } from '../native.ts'
import { decodeRecord, type EventObject, encodeRecord, RECORD_BYTES } from './records.ts'

/** What a log's first line holds besides `{"laxity":"log","version":1}`: all that a replay needs to start. */
export interface LogHeader {
  run: NativeRun
  cluster: NativeCluster
  trace: { source: string; stages: readonly string[]; models: readonly string[] }
}

export interface EventLog {
  header: LogHeader
  /** Records of 128 bytes: events, decide marks, decisions. */
  records: Uint8Array
  /** The last line was cut off: the process that wrote it was killed. It is left out. */
  truncated?: boolean
}

export const LOG_VERSION = 1

export function plain(_: string, value: unknown): unknown {
  if (value instanceof Float64Array) return Array.from(value)
  // Beyond 2^53 ns (104 days) JSON numbers are not exact.
  return typeof value === 'bigint' ? value.toString() : value
}

/** Writes a log as JSON Lines: the header, then one line per record. Nothing is left behind on failure. */
export async function writeLog(path: string, header: LogHeader, records: Uint8Array): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`
  const stream = createWriteStream(temporary)
  try {
    const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
    let chunk = `${JSON.stringify({ laxity: 'log', version: LOG_VERSION, ...header }, plain)}\n`
    for (let at = 0; at < records.length; at += RECORD_BYTES) {
      chunk += `${JSON.stringify(decodeRecord(view, at), plain)}\n`
      if (chunk.length < 1 << 16) continue
      if (!stream.write(chunk)) await once(stream, 'drain') // rejects on 'error'
      chunk = ''
    }
    stream.end(chunk)
    await finished(stream)
    await rename(temporary, path)
  } catch (cause) {
    stream.destroy()
    await rm(temporary, { force: true })
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot write the log: ${(cause as Error).message}`, path, {
      cause,
    })
  }
}

/** Reads a log. Every problem is a LaxityError with its line. */
export async function readLog(path: string): Promise<EventLog> {
  const file = await open(path).catch((cause: Error) => {
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot read the log: ${cause.message}`, path, { cause })
  })
  try {
    let header: LogHeader | undefined
    let bytes = new Uint8Array(1 << 16)
    let used = 0
    let number = 0
    let torn: LaxityError | undefined
    const lines = createInterface({ input: file.createReadStream(), crlfDelay: Number.POSITIVE_INFINITY })
    for await (const line of lines) {
      number += 1
      const place = `${path}:${number}`
      if (torn !== undefined) throw torn
      let object: Record<string, unknown>
      try {
        object = parse(line, place)
      } catch (error) {
        // Only the last line may be torn, and only where a living process wrote it.
        if (header === undefined || !('live' in header)) throw error
        torn = error as LaxityError
        continue
      }
      if (header === undefined) {
        header = readHeader(object, place)
        continue
      }
      if (used + RECORD_BYTES > bytes.length) {
        const grown = new Uint8Array(bytes.length * 2)
        grown.set(bytes)
        bytes = grown
      }
      const problem = encodeRecord(new DataView(bytes.buffer), used, revive(object))
      if (problem !== undefined) throw new LaxityError('ERR_LAXITY_LOG', problem, place)
      used += RECORD_BYTES
    }
    if (header === undefined) throw new LaxityError('ERR_LAXITY_EMPTY', 'The log is empty', path)
    return { header, records: bytes.subarray(0, used), ...(torn !== undefined && { truncated: true }) }
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot read the log: ${(cause as Error).message}`, path, {
      cause,
    })
  } finally {
    await file.close().catch(() => {})
  }
}

function parse(line: string, place: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {}
  throw new LaxityError('ERR_LAXITY_SYNTAX', 'Expected one JSON object', place)
}

/** Integers beyond 2^53 travel as decimal strings. */
function revive(object: Record<string, unknown>): EventObject {
  for (const [name, value] of Object.entries(object)) {
    if (name !== 'kind' && typeof value === 'string' && /^-?\d{1,20}$/.test(value))
      object[name] = BigInt(value)
  }
  return object as EventObject
}

/** Runs what believes a log: of a file of any content every problem is a LaxityError. */
export function replayable<T>(place: string, use: () => T): T {
  try {
    return use()
  } catch (cause) {
    throw notReplayable(cause, place)
  }
}

export function notReplayable(cause: unknown, place: string): LaxityError {
  if (cause instanceof LaxityError) return cause
  const message = `The log cannot be replayed: ${(cause as Error).message}`
  return new LaxityError('ERR_LAXITY_LOG', message, place, { cause })
}

function readHeader(object: Record<string, unknown>, place: string): LogHeader {
  if (object.laxity !== 'log')
    throw new LaxityError('ERR_LAXITY_LOG', 'Expected a log header: {"laxity":"log",…}', place)
  if (object.version !== LOG_VERSION) {
    throw new LaxityError(
      'ERR_LAXITY_LOG',
      `Expected log version ${LOG_VERSION}, got ${String(object.version)}`,
      place,
    )
  }
  const { run, cluster, trace } = object as unknown as LogHeader
  if (
    typeof run !== 'object' ||
    run === null ||
    typeof cluster !== 'object' ||
    !Array.isArray(cluster?.latencies)
  ) {
    throw new LaxityError('ERR_LAXITY_LOG', 'Expected `run` and `cluster` in the log header', place)
  }
  const latencies = cluster.latencies.map((latency): NativeLatency => {
    if (latency?.kind !== 'table') return latency
    const { tokens, prefillMs } = latency as { tokens: unknown; prefillMs: unknown }
    if (!Array.isArray(tokens) || !Array.isArray(prefillMs))
      throw new LaxityError('ERR_LAXITY_LOG', 'Expected the knots of a table in the log header', place)
    return { ...latency, tokens: Float64Array.from(tokens), prefillMs: Float64Array.from(prefillMs) }
  })
  const read = { run, cluster: { ...cluster, latencies }, trace }
  return 'live' in object ? ({ ...read, live: object.live } as LogHeader) : read
}
