type Column = Uint16Array | Uint32Array | Float64Array

interface ColumnClass<T extends Column> {
  new (buffer: SharedArrayBuffer): T
  new (length: number): T
  readonly BYTES_PER_ELEMENT: number
}

function classOf<T extends Column>(column: T): ColumnClass<T> {
  return column.constructor as unknown as ColumnClass<T>
}

/** A zeroed column over shared memory. */
export function sharedColumn<T extends Column>(type: ColumnClass<T>, length: number): T {
  return new type(new SharedArrayBuffer(length * type.BYTES_PER_ELEMENT))
}

/** A copy with twice the room. */
export function grown<T extends Column>(column: T): T {
  const larger = new (classOf(column))(column.length * 2)
  larger.set(column)
  return larger
}

/** The first `length` values in shared memory of exactly that size. */
export function finished<T extends Column>(column: T, length: number): T {
  const exact = sharedColumn(classOf(column), length)
  exact.set(column.subarray(0, length))
  return exact
}

/** Like `finished`, with row i taken from `order[i]`. */
export function reordered<T extends Column>(column: T, order: Uint32Array): T {
  const exact = sharedColumn(classOf(column), order.length)
  for (let i = 0; i < order.length; i++) exact[i] = column[order[i]!]!
  return exact
}
