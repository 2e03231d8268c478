import { Readable } from 'node:stream'
import { expected, LaxityError, quote } from '../errors.ts'
import { AzureReader, isAzureHeader } from './azure.ts'
import { bfcl, isBfcl } from './bfcl.ts'
import { HexgenReader } from './hexgen.ts'
import { JsonlReader } from './jsonl.ts'
import { isLats, lats } from './lats.ts'
import { type LineFormat, LinesReader, type TraceReader } from './line-formats.ts'
import { isMooncake, MooncakeChainsReader, MooncakeReader } from './mooncake.ts'
import { parseLeniently } from './parse-line.ts'
import { Place } from './place.ts'
import { RecordReader } from './records.ts'
import { readBytes } from './source.ts'
import type { TraceTable } from './table.ts'
import { isToolbench, toolbench } from './toolbench.ts'
import { isWeka, weka } from './weka.ts'

type LineFormatName = Exclude<TraceFormat, 'hexgen'>

const READERS: Readonly<Record<LineFormatName, (place: Place) => LineFormat>> = {
  jsonl: (place) => new JsonlReader(place),
  azure: (place) => new AzureReader(place),
  mooncake: (place) => new MooncakeReader(place),
  'mooncake-chains': (place) => new MooncakeChainsReader(place),
  weka: (place) => new RecordReader(place, weka),
  bfcl: (place) => new RecordReader(place, bfcl),
  toolbench: (place) => new RecordReader(place, toolbench()),
  lats: (place) => new RecordReader(place, lats),
}

/** By the first line, parsed: the first that holds; none = the package’s own. */
const TOLD_BY: readonly (readonly [LineFormatName, (value: unknown) => boolean])[] = [
  ['mooncake', isMooncake],
  ['weka', isWeka],
  ['bfcl', isBfcl],
  ['toolbench', isToolbench],
  ['lats', isLats],
]

/** Names for `format`. */
export const TRACE_FORMATS = [
  'auto',
  'jsonl',
  'hexgen',
  'azure',
  'mooncake',
  'mooncake-chains',
  'weka',
  'bfcl',
  'toolbench',
  'lats',
] as const

export type TraceFormat = Exclude<(typeof TRACE_FORMATS)[number], 'auto'>

export interface ReadTraceOptions {
  /**
   * `auto` (default): HexGen-Flow's JSON starts with `[`, Azure's CSV with its header, JSON Lines with `{`; of these,
   * Mooncake's (read as single calls) and recorded sessions are told by the fields of the first line, and all others are
   * the package's own. `mooncake-chains` reads Mooncake's as chains.
   */
  format?: 'auto' | TraceFormat
  signal?: AbortSignal
  /** Name of a stream in messages and in `TraceTable.source`; default: its path, or `<stream>`. */
  source?: string
}

/**
 * Reads a trace from a file or a stream of bytes, in the package's own JSONL, HexGen-Flow's JSON, Azure's CSV,
 * Mooncake's JSONL or one of the formats of recorded sessions (docs/trace-format.md), gzipped or not. Memory is bounded by the columns kept, plus one workflow, and
 * for Mooncake one number for each different block. A stream is destroyed on errors.
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
  if (!TRACE_FORMATS.includes(format)) {
    const what = `one of ${TRACE_FORMATS.join(', ')}`
    throw new LaxityError('ERR_LAXITY_OPTION', expected(what, 'format', format), 'format')
  }
  if (typeof input !== 'string' && !(input instanceof Readable)) {
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      expected('a file name or a readable stream', 'input', input),
      'input',
    )
  }
  const place = new Place(options.source ?? nameOf(input))
  let reader: TraceReader | undefined
  for await (const chunk of readBytes(input, place.file, signal)) {
    if (reader !== undefined) {
      reader.push(chunk)
      continue
    }
    const start = skipSpace(chunk, place)
    if (start === chunk.length) continue
    const text = chunk.subarray(start)
    reader = await createReader(format, text, place)
    reader.push(text)
  }
  if (reader === undefined) throw place.errorOfFile('ERR_LAXITY_EMPTY', 'The file is empty')
  return reader.end()
}

async function createReader(format: 'auto' | TraceFormat, text: Buffer, place: Place): Promise<TraceReader> {
  const first = String.fromCharCode(text[0]!)
  if (format === 'hexgen' || (format === 'auto' && first === '[')) return await HexgenReader.create(place)
  if (format === 'auto' && !'{"Tt'.includes(first)) throw unknownFormat(text, place)
  return new LinesReader(place, (line) => lineFormat(format, line, place))
}

/** By the first line that is not blank. */
function lineFormat(format: 'auto' | LineFormatName, line: string, place: Place): LineFormat {
  if (format !== 'auto') return READERS[format](place)
  if (isAzureHeader(line)) return READERS.azure(place)
  if (!line.startsWith('{')) throw unknownFormat(Buffer.from(line), place)
  // Its errors are for the reader that will parse it again.
  const value = parseLeniently(line)
  const told = TOLD_BY.find(([, is]) => is(value))
  return READERS[told === undefined ? 'jsonl' : told[0]](place)
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

function unknownFormat(text: Buffer, place: Place): LaxityError {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(text, { stream: true })
  } catch {
    return place.error('ERR_LAXITY_UTF8', '', 'The file is not UTF-8 text')
  }
  const [character] = new TextDecoder().decode(text.subarray(0, 4))
  const message = `Expected a trace to start with "{" (JSONL), "[" (HexGen-Flow's JSON) or TIMESTAMP (Azure's CSV), got ${quote(character ?? '')}`
  return place.error('ERR_LAXITY_SYNTAX', '', message)
}
