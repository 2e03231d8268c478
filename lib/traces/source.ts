import { createReadStream } from 'node:fs'
import { addAbortSignal, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { describe, LaxityError } from '../errors.ts'

type Chunks = AsyncIterable<Buffer>

/**
 * The bytes of a file or stream, decompressed where they start as gzip does, without a byte order mark. Leaving the
 * loop early destroys the stream. Errors: ERR_LAXITY_FILE, ERR_LAXITY_GZIP, ERR_LAXITY_ABORTED.
 */
export async function* readBytes(
  input: string | Readable,
  source: string,
  signal?: AbortSignal,
): AsyncGenerator<Buffer> {
  const plain = await withHead(rawBytes(input, source, signal), 2)
  const isGzip = plain.head[0] === 0x1f && plain.head[1] === 0x8b
  const text = await withHead(isGzip ? gunzip(plain.chunks, source) : plain.chunks, 3)
  const hasMark = text.head[0] === 0xef && text.head[1] === 0xbb && text.head[2] === 0xbf
  let skip = hasMark ? 3 : 0
  for await (const chunk of text.chunks) {
    yield skip === 0 ? chunk : chunk.subarray(skip)
    skip = 0
  }
}

async function* rawBytes(
  input: string | Readable,
  source: string,
  signal?: AbortSignal,
): AsyncGenerator<Buffer> {
  if (signal?.aborted) throw aborted(source, signal.reason)
  const stream = typeof input === 'string' ? createReadStream(input, { highWaterMark: 2 ** 18 }) : input
  if (signal !== undefined) addAbortSignal(signal, stream)
  try {
    for await (const chunk of stream as AsyncIterable<unknown>) yield toBuffer(chunk, source)
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    if (signal?.aborted) throw aborted(source, signal.reason)
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot be read: ${reason(cause)}`, source, { cause })
  }
}

async function* gunzip(chunks: Chunks, source: string): AsyncGenerator<Buffer> {
  const inflate = createGunzip({ chunkSize: 2 ** 16 })
  const feeding = pipeline(chunks, inflate)
  // Its failure also reaches the loop below; unheard, it would end the process.
  feeding.catch(() => {})
  try {
    for await (const chunk of inflate) yield chunk as Buffer
    await feeding
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    throw new LaxityError('ERR_LAXITY_GZIP', `Damaged or truncated gzip data: ${reason(cause)}`, source, {
      cause,
    })
  } finally {
    inflate.destroy()
  }
}

/** The first `length` bytes (fewer where there are no more) and, again from the start, all chunks. */
async function withHead(chunks: Chunks, length: number): Promise<{ head: Buffer; chunks: Chunks }> {
  const iterator = chunks[Symbol.asyncIterator]()
  let head: Buffer = Buffer.alloc(0)
  while (head.length < length) {
    const { value, done } = await iterator.next()
    if (done) break
    head = head.length === 0 ? value : Buffer.concat([head, value])
  }
  return { head, chunks: resume(head, iterator) }
}

async function* resume(head: Buffer, iterator: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    if (head.length > 0) yield head
    for (;;) {
      const { value, done } = await iterator.next()
      if (done) return
      yield value
    }
  } finally {
    await iterator.return?.()
  }
}

function toBuffer(chunk: unknown, source: string): Buffer {
  if (Buffer.isBuffer(chunk)) return chunk
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  if (typeof chunk === 'string') return Buffer.from(chunk)
  throw new LaxityError(
    'ERR_LAXITY_OPTION',
    `Expected a stream of bytes or text, got ${describe(chunk)}`,
    source,
  )
}

function aborted(source: string, cause: unknown): LaxityError {
  return new LaxityError('ERR_LAXITY_ABORTED', 'Reading was aborted', source, { cause })
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
