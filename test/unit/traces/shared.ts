import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type ErrorCode, LaxityError } from '../../../lib/errors.ts'
import { type ReadTraceOptions, readTrace } from '../../../lib/traces/read.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { shared, skipWithout } from '../../support/shared.ts'

/** A file of this repository. */
export function repositoryFile(path: string): string {
  return fileURLToPath(new URL(`../../../${path}`, import.meta.url))
}

/** A file of the data folder beside the repository; where it is absent, says so and skips the test. */
export function sharedFile(test: Mocha.Context, path: string): string {
  skipWithout(test, path)
  return shared(path)
}

/** Reads a text or bytes as a stream named `t`. */
export function readText(content: string | Buffer, options: ReadTraceOptions = {}): Promise<TraceTable> {
  return readTrace(Readable.from([Buffer.from(content)]), { source: 't', ...options })
}

/** The same, in chunks of `size` bytes. */
export function readInChunks(content: Buffer, size: number): Promise<TraceTable> {
  const chunks = Array.from({ length: Math.ceil(content.length / size) }, (_, i) =>
    content.subarray(i * size, (i + 1) * size),
  )
  return readTrace(Readable.from(chunks), { source: 't' })
}

/** Asserts one coded error with this place and a message that matches. */
export async function assertFails(
  result: Promise<unknown>,
  code: ErrorCode,
  place: string,
  message: RegExp = /./,
): Promise<void> {
  await assert.rejects(result, (error) => {
    assert.ok(error instanceof LaxityError, `not a LaxityError: ${error}`)
    assert.equal(error.code, code, error.message)
    assert.equal(error.place, place)
    assert.ok(error.message.startsWith(`${place}: `) || error.message.includes(`\`${place}\``), error.message)
    assert.match(error.message, message)
    return true
  })
}

interface AnyCall {
  [field: string]: unknown
}

export function call(id: string, fields: AnyCall = {}): AnyCall {
  return { id, stage: 's', promptTokens: 10, outputTokens: 2, ...fields }
}

export function workflow(id: string, calls: unknown[] = [call('c0')], fields: AnyCall = {}): string {
  return `${JSON.stringify({ id, ...fields, calls })}\n`
}

/** Everything of a table that its file holds. */
export function contentOf(table: TraceTable): Omit<TraceTable, 'source'> {
  const { source: _, ...content } = table
  return content
}
