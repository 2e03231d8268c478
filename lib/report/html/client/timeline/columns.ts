import { TIMELINE_COLUMNS, type TimelineFigure } from '../../figure.ts'

const CLASSES = { u16: Uint16Array, u32: Uint32Array } as const

type Columns = {
  [K in keyof typeof TIMELINE_COLUMNS]: InstanceType<(typeof CLASSES)[(typeof TIMELINE_COLUMNS)[K]]>
}

/** Reads the columns of a timeline out of the page, and frees their texts. */
export async function readColumns({ id, calls }: TimelineFigure): Promise<Columns> {
  const entries = Object.entries(TIMELINE_COLUMNS).map(async ([name, type]) => {
    const holder = document.getElementById(`${id}-${name}`)!
    const text = holder.textContent
    holder.remove()
    const width = CLASSES[type].BYTES_PER_ELEMENT
    const planes = new Uint8Array(await inflate(fromBase64(text)))
    return [name, new CLASSES[type](untranspose(planes, width, calls))] as const
  })
  return Object.fromEntries(await Promise.all(entries)) as Columns
}

function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))
  return new Response(stream).arrayBuffer()
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const { fromBase64: decode } = Uint8Array as unknown as {
    fromBase64?: (text: string) => Uint8Array<ArrayBuffer>
  }
  if (decode !== undefined) return decode(text)
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

/** Little-endian elements from their byte planes; so is every platform with a browser. */
function untranspose(planes: Uint8Array, width: number, length: number): ArrayBuffer {
  const bytes = new Uint8Array(planes.length)
  for (let plane = 0; plane < width; plane++) {
    const from = plane * length
    for (let i = 0; i < length; i++) bytes[i * width + plane] = planes[from + i]!
  }
  return bytes.buffer
}
