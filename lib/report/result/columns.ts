import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { LaxityError } from '../../errors.ts'

/**
 * A typed array as JSON: its little-endian bytes, transposed (byte 0 of every element, then byte 1, …: neighbours are
 * alike there), deflated (raw), in base64.
 */
export interface EncodedColumn {
  type: ColumnType
  length: number
  data: string
}

const CLASSES = { u16: Uint16Array, u32: Uint32Array, f64: Float64Array } as const

interface Columns {
  u16: Uint16Array
  u32: Uint32Array
  f64: Float64Array
}

export type ColumnType = keyof Columns
export const COLUMN_TYPES = Object.keys(CLASSES) as [ColumnType, ...ColumnType[]]
export type Column<T extends ColumnType = ColumnType> = Columns[T]

/** Fast, and after the transposition within a few percent of the best. */
const LEVEL = 3

export function encodeColumn(column: Column): EncodedColumn {
  const type = COLUMN_TYPES.find((name) => column instanceof CLASSES[name])!
  const planes = transpose(littleEndian(column), column.BYTES_PER_ELEMENT)
  return {
    type,
    length: column.length,
    data: deflateRawSync(planes, { level: LEVEL }).toString('base64'),
  }
}

/** @throws LaxityError ERR_LAXITY_FIELD at `place` where the data is not what `type` and `length` say. */
export function decodeColumn<T extends ColumnType>(
  encoded: EncodedColumn,
  type: T,
  place: string,
): Column<T> {
  const { BYTES_PER_ELEMENT: width } = CLASSES[type]
  if (encoded.type !== type) throw wrong(`Expected a column of type ${type}, got ${encoded.type}`, place)
  const bytes = encoded.length * width
  let planes: Buffer
  try {
    // One byte of room beyond what is due: longer data ends at once and does not fill the memory.
    planes = inflateRawSync(Buffer.from(encoded.data, 'base64'), { maxOutputLength: bytes + 1 })
  } catch {
    throw wrong('Not deflated data in base64, or longer than it says', place)
  }
  if (planes.length !== bytes) throw wrong(`Expected ${bytes} bytes, got ${planes.length}`, place)
  const elements = untranspose(planes, width)
  if (!IS_LITTLE_ENDIAN) reverseElements(elements, width)
  return new CLASSES[type](elements.buffer, 0, encoded.length) as Columns[ColumnType] as Column<T>
}

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1

function littleEndian(column: Column): Uint8Array {
  const bytes = new Uint8Array(column.buffer, column.byteOffset, column.byteLength)
  if (IS_LITTLE_ENDIAN) return bytes
  const copy = bytes.slice()
  reverseElements(copy, column.BYTES_PER_ELEMENT)
  return copy
}

function reverseElements(bytes: Uint8Array, width: number): void {
  for (let at = 0; at < bytes.length; at += width) bytes.subarray(at, at + width).reverse()
}

function transpose(bytes: Uint8Array, width: number): Uint8Array<ArrayBuffer> {
  const planes = new Uint8Array(bytes.length)
  const length = bytes.length / width
  for (let plane = 0; plane < width; plane++) {
    const from = plane * length
    for (let i = 0; i < length; i++) planes[from + i] = bytes[i * width + plane]!
  }
  return planes
}

function untranspose(planes: Uint8Array, width: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(planes.length)
  const length = planes.length / width
  for (let plane = 0; plane < width; plane++) {
    const from = plane * length
    for (let i = 0; i < length; i++) bytes[i * width + plane] = planes[from + i]!
  }
  return bytes
}

function wrong(message: string, place: string): LaxityError {
  return new LaxityError('ERR_LAXITY_FIELD', message, place)
}
