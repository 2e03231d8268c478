import { type EventField, native } from '../native.ts'

/**
 * Event records (128 bytes, `native/scheduler/events.h`) to plain objects and back. The addon names every field and its
 * place, so this file knows no layout. 64-bit integers are numbers where they are safe and bigints beyond.
 */
export interface EventObject {
  /** Nanoseconds. */
  t: number | bigint
  kind: string
  /** [slot, generation] each; reveals only. */
  parents?: [number, number][]
  [field: string]: unknown
}

type Integer = number | bigint

interface Kind {
  readonly name: string
  readonly id: number
  readonly fields: readonly EventField[]
}

const layout = native.eventLayout
const T_OFFSET = 0
const KIND_OFFSET = 8

/** Fields that logs and callers may leave out. */
const DEFAULTS: Readonly<Record<string, Integer>> = {
  adapter: 0,
  adapters: 0,
  cachedLoadUs0: 0,
  cachedLoadUs1: 0,
  weight: 0,
  revocable: 0,
  migrate: 0,
  role: 0,
  linkPerToken: 0,
  linkLatency: 0,
  exactRemaining: 0,
  predictedHorizon: 0,
}

export const RECORD_BYTES = layout.recordBytes

const kindByName = new Map<string, Kind>(layout.kinds.map((kind) => [kind.name, kind]))
const kindById = new Map<number, Kind>(layout.kinds.map((kind) => [kind.id, kind]))

export function kindOf(name: string): Kind | undefined {
  return kindByName.get(name)
}

/** The kind's name of a record, or undefined where it has none. */
export function kindAt(view: DataView, at: number): string | undefined {
  return kindById.get(view.getUint16(at + KIND_OFFSET, true))?.name
}

function getField(view: DataView, at: number, type: EventField['type']): Integer {
  switch (type) {
    case 'u8':
      return view.getUint8(at)
    case 'u16':
      return view.getUint16(at, true)
    case 'u32':
      return view.getUint32(at, true)
    case 'i16':
      return view.getInt16(at, true)
    case 'i32':
      return view.getInt32(at, true)
    case 'f64':
      return view.getFloat64(at, true)
    default: {
      const value = type === 'i64' ? view.getBigInt64(at, true) : view.getBigUint64(at, true)
      return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
    }
  }
}

function setField(view: DataView, at: number, type: EventField['type'], value: Integer): void {
  switch (type) {
    case 'u8':
      view.setUint8(at, Number(value))
      break
    case 'u16':
      view.setUint16(at, Number(value), true)
      break
    case 'u32':
      view.setUint32(at, Number(value), true)
      break
    case 'i16':
      view.setInt16(at, Number(value), true)
      break
    case 'i32':
      view.setInt32(at, Number(value), true)
      break
    case 'f64':
      view.setFloat64(at, Number(value), true)
      break
    case 'i64':
      view.setBigInt64(at, BigInt(value), true)
      break
    case 'u64':
      view.setBigUint64(at, BigInt(value), true)
      break
  }
}

function readParents(view: DataView, at: number, count: number): [number, number][] {
  return Array.from({ length: count }, (_, i) => [
    view.getUint32(at + i * 8, true),
    view.getUint32(at + i * 8 + 4, true),
  ])
}

/** Decodes the record at `at`; undefined where its kind is unknown. */
export function decodeRecord(view: DataView, at: number): EventObject | undefined {
  const kind = kindById.get(view.getUint16(at + KIND_OFFSET, true))
  if (kind === undefined) return undefined
  const object: EventObject = { t: getField(view, at + T_OFFSET, 'i64'), kind: kind.name }
  for (const field of kind.fields) {
    if (field.name !== 'parentCount' && !(kind.name === 'moreParents' && field.name === 'count')) {
      object[field.name === 'kind' ? 'decision' : field.name] = getField(view, at + field.offset, field.type)
    }
  }
  if (kind.name === 'reveal') {
    const count = kind.fields.find((field) => field.name === 'parentCount')!
    object.parents = readParents(view, at + layout.parentsOffset, view.getUint8(at + count.offset))
  } else if (kind.name === 'moreParents') {
    object.parents = readParents(
      view,
      at + layout.moreParentsOffset,
      view.getUint32(at + kind.fields[0]!.offset, true),
    )
  }
  return object
}

/**
 * Writes one record of zeroed memory at `at`. Returns what is wrong, or undefined: a missing or ill-typed field, an
 * unknown kind, more parents than one record holds (see `encodeEvent`).
 */
export function encodeRecord(view: DataView, at: number, object: EventObject): string | undefined {
  const kind = kindByName.get(object.kind)
  if (kind === undefined) return `unknown kind ${JSON.stringify(object.kind)}`
  if (!isInteger(object.t)) return 'expected integer nanoseconds for `t`'
  view.setBigInt64(at + T_OFFSET, BigInt(object.t), true)
  view.setUint16(at + KIND_OFFSET, kind.id, true)
  const parents = object.parents ?? []
  const room =
    kind.name === 'moreParents' ? layout.moreParents : kind.name === 'reveal' ? layout.inlineParents : 0
  if (!Array.isArray(parents) || parents.length > room) return `at most ${room} parents`
  for (const field of kind.fields) {
    const given = object[field.name === 'kind' ? 'decision' : field.name]
    const value =
      field.name === 'parentCount' || (kind.name === 'moreParents' && field.name === 'count')
        ? parents.length
        : (given ?? DEFAULTS[field.name])
    if (field.type === 'f64' ? typeof value !== 'number' : !isInteger(value))
      return `expected a number for \`${field.name}\``
    setField(view, at + field.offset, field.type, value as Integer)
  }
  const offset = kind.name === 'moreParents' ? layout.moreParentsOffset : layout.parentsOffset
  for (const [i, parent] of parents.entries()) {
    if (!Array.isArray(parent) || !isInteger(parent[0]) || !isInteger(parent[1]))
      return 'expected [slot, generation] parents'
    view.setUint32(at + offset + i * 8, Number(parent[0]), true)
    view.setUint32(at + offset + i * 8 + 4, Number(parent[1]), true)
  }
  return undefined
}

function isInteger(value: unknown): value is Integer {
  return typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value))
}
