import { Readable } from 'node:stream'
import { expected, LaxityError, quote } from '../errors.ts'
import { HexgenReader } from './hexgen.ts'
import { JsonlReader } from './jsonl.ts'
import { Place } from './place.ts'
import { readBytes } from './source.ts'
import type { TraceTable } from './table.ts'

export type TraceFormat = 'jsonl' | 'hexgen'

const FORMATS = ['auto', 'jsonl', 'hexgen']

export interface ReadTraceOptions {
  /** `auto` (default): JSONL starts with `{`, HexGen-Flow's JSON with `[`. */
  format?: 'auto' | TraceFormat
  signal?: AbortSignal
  /** Name of a stream in messages and in `TraceTable.source`; default: its path, or `<stream>`. */
  source?: string
}

/** A format's reader: bytes in, table out. */
interface Reader {
  push(chunk: Buffer): void
  end(): TraceTable
}

/**
 * Reads a trace from a file or a stream of bytes, in the package's own JSONL (docs/trace-format.md) or in HexGen-Flow's
 * JSON, gzipped or not. Memory is bounded by the columns kept, plus one workflow. A stream is destroyed on errors.
 *
 * @throws LaxityError with the place as `file:line: field.path`: ERR_LAXITY_FILE, ERR_LAXITY_GZIP, ERR_LAXITY_UTF8,
 *   ERR_LAXITY_SYNTAX, ERR_LAXITY_FIELD, ERR_LAXITY_DUPLICATE, ERR_LAXITY_PARENT, ERR_LAXITY_CYCLE,
 *   ERR_LAXITY_EMPTY, ERR_LAXITY_LIMIT, ERR_LAXITY_OPTION, ERR_LAXITY_ABORTED
 */
export async function readTrace(
  input: string | Readable,
  options: ReadTraceOptions = {},
): Promise<TraceTable> {
  const { format = 'auto', signal } = options
  if (!FORMATS.includes(format)) {
    throw new LaxityError('ERR_LAXITY_OPTION', expected('auto, jsonl or hexgen', 'format', format), 'format')
  }
  if (typeof input !== 'string' && !(input instanceof Readable)) {
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      expected('a file name or a readable stream', 'input', input),
      'input',
    )
  }
  const place = new Place(options.source ?? nameOf(input))
  let reader: Reader | undefined
  for await (const chunk of readBytes(input, place.file, signal)) {
    if (reader !== undefined) {
      reader.push(chunk)
      continue
    }
    const start = skipSpace(chunk, place)
    if (start === chunk.length) continue
    const text = chunk.subarray(start)
    reader = await createReader(format === 'auto' ? detect(text, place) : format, place)
    reader.push(text)
  }
  if (reader === undefined) throw place.errorOfFile('ERR_LAXITY_EMPTY', 'The file is empty')
  return reader.end()
}

async function createReader(format: TraceFormat, place: Place): Promise<Reader> {
  return format === 'jsonl' ? new JsonlReader(place) : await HexgenReader.create(place)
}

function nameOf(input: string | Readable): string {
  if (typeof input === 'string') return input
  const { path } = input as { path?: unknown }
  return typeof path === 'string' ? path : '<stream>'
}

/** The position of the first byte that is not white space; counts the lines before it. */
function skipSpace(chunk: Buffer, place: Place): number {
  let i = 0
  for (; i < chunk.length; i++) {
    const byte = chunk[i]
    if (byte === 0x0a) place.line++
    else if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) break
  }
  return i
}

function detect(text: Buffer, place: Place): TraceFormat {
  const first = String.fromCharCode(text[0]!)
  if (first === '{') return 'jsonl'
  if (first === '[') return 'hexgen'
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(text, { stream: true })
  } catch {
    throw place.error('ERR_LAXITY_UTF8', '', 'The file is not UTF-8 text')
  }
  const [character] = new TextDecoder().decode(text.subarray(0, 4))
  const message = `Expected a trace to start with "{" (JSONL) or "[" (HexGen-Flow's JSON), got ${quote(character ?? '')}`
  throw place.error('ERR_LAXITY_SYNTAX', '', message)
}
