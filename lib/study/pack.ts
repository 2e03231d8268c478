import { createHash } from 'node:crypto'

/**
 * Values as bytes, the same bytes for the same content on every machine: JSON with sorted keys, in which typed arrays
 * are references into the raw bytes that follow (little-endian). Content addresses and the id of a study are their SHA-256.
 */
export interface Packed {
  header: string
  parts: Uint8Array[]
}

const TYPES = { Uint8Array, Uint16Array, Uint32Array, Float64Array } as const
type TypeName = keyof typeof TYPES

const ARRAY = '$array'
const NUMBER = '$number'

export function pack(value: unknown): Packed {
  const parts: Uint8Array[] = []
  let offset = 0
  const walk = (item: unknown): unknown => {
    if (typeof item === 'number' && !Number.isFinite(item)) return { [NUMBER]: String(item) }
    if (typeof item !== 'object' || item === null) return item
    if (ArrayBuffer.isView(item)) {
      const bytes = new Uint8Array(item.buffer, item.byteOffset, item.byteLength)
      const reference = [item.constructor.name, offset, bytes.length]
      parts.push(bytes)
      offset += bytes.length
      return { [ARRAY]: reference }
    }
    if (Array.isArray(item)) return item.map(walk)
    const entries = Object.entries(item).filter(([, field]) => field !== undefined)
    entries.sort(([a], [b]) => (a < b ? -1 : 1))
    return Object.fromEntries(entries.map(([key, field]) => [key, walk(field)]))
  }
  return { header: JSON.stringify(walk(value)), parts }
}

/** SHA-256 as hexadecimal digits. */
export function digest({ header, parts }: Packed): string {
  const hash = createHash('sha256').update(`${Buffer.byteLength(header)}\n${header}`)
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

export function packedLength({ header, parts }: Packed): number {
  return parts.reduce((sum, part) => sum + part.length, 4 + Buffer.byteLength(header))
}

export function toBytes({ header, parts }: Packed): Buffer {
  const text = Buffer.from(header)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return Buffer.concat([length, text, ...parts])
}

/** Typed arrays come back over shared memory, so that threads read them without a copy. */
export function fromBytes(bytes: Buffer): unknown {
  const start = 4 + bytes.readUInt32LE(0)
  const revive = (_: string, item: unknown): unknown => {
    if (typeof item !== 'object' || item === null) return item
    const { [ARRAY]: reference, [NUMBER]: number } = item as Record<string, unknown>
    if (typeof number === 'string') return Number(number)
    if (!Array.isArray(reference)) return item
    const [type, offset, length] = reference as [TypeName, number, number]
    const shared = new SharedArrayBuffer(length)
    new Uint8Array(shared).set(bytes.subarray(start + offset, start + offset + length))
    return new (TYPES[type] as new (buffer: SharedArrayBuffer) => ArrayBufferView)(shared)
  }
  return JSON.parse(bytes.toString('utf8', 4, start), revive)
}
