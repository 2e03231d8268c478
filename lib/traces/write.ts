import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { expected, LaxityError } from '../errors.ts'
import { callId, DEFAULT_NAME, type TraceTable, workflowId } from './table.ts'

const CHUNK_LENGTH = 2 ** 16

export interface WriteTraceOptions {
  signal?: AbortSignal
}

/**
 * Writes a trace in the JSONL format (docs/trace-format.md), gzipped where a file's name ends in `.gz`. `readTrace`
 * gives an equal table back, `source` aside. A file appears only when it is complete, in place of an older one; a
 * stream is written with backpressure and not ended.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_ABORTED, ERR_LAXITY_OPTION
 */
export async function writeTrace(
  table: TraceTable,
  target: string | Writable,
  options: WriteTraceOptions = {},
): Promise<void> {
  const { signal } = options
  const name = typeof target === 'string' ? target : '<stream>'
  try {
    signal?.throwIfAborted()
    if (typeof target === 'string') await writeFile(table, target, signal)
    else if (target instanceof Writable) await writeStream(table, target, signal)
    else
      throw new LaxityError(
        'ERR_LAXITY_OPTION',
        expected('a file name or a writable stream', 'target', target),
      )
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    if (signal?.aborted) throw new LaxityError('ERR_LAXITY_ABORTED', 'Writing was aborted', name, { cause })
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot be written: ${reason}`, name, { cause })
  }
}

async function writeFile(table: TraceTable, path: string, signal: AbortSignal | undefined): Promise<void> {
  const final = await realpath(path).catch(() => path)
  const existing = await stat(final).catch(() => undefined)
  // A pipe or a device cannot be replaced by a rename.
  const isReplaceable = existing === undefined || existing.isFile()
  const temporary = join(dirname(final), `.${basename(final)}.${randomUUID().slice(0, 8)}.tmp`)
  const file = createWriteStream(isReplaceable ? temporary : final)
  const lines = Readable.from(traceLines(table), { objectMode: false })
  const options = signal === undefined ? {} : { signal }
  try {
    if (path.endsWith('.gz')) await pipeline(lines, createGzip(), file, options)
    else await pipeline(lines, file, options)
    if (isReplaceable) await rename(temporary, final)
  } catch (error) {
    if (isReplaceable) await rm(temporary, { force: true })
    throw error
  }
}

async function writeStream(
  table: TraceTable,
  stream: Writable,
  signal: AbortSignal | undefined,
): Promise<void> {
  let wake: (() => void) | undefined
  let failure: Error | undefined
  const onEnd = (error?: Error) => {
    failure ??= error ?? stream.errored ?? new Error('the stream was closed')
    wake?.()
  }
  const onDrain = () => wake?.()
  const onAbort = () => wake?.()
  stream.on('error', onEnd).on('close', onEnd).on('drain', onDrain)
  signal?.addEventListener('abort', onAbort)
  try {
    for (const lines of traceLines(table)) {
      if (!stream.write(lines) && failure === undefined && !signal?.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      signal?.throwIfAborted()
      if (failure !== undefined) throw failure
    }
    // The callback of an empty write comes after everything before it was taken.
    await new Promise<void>((resolve, reject) =>
      stream.write('', (error) => (error ? reject(error) : resolve())),
    )
  } finally {
    stream.off('error', onEnd).off('close', onEnd).off('drain', onDrain)
    signal?.removeEventListener('abort', onAbort)
  }
}

/** The text of a trace in pieces of whole lines, header first. */
export function* traceLines(table: TraceTable): Generator<string> {
  let text = `${JSON.stringify(headerOf(table))}\n`
  const writeWorkflow = workflowWriter(table)
  for (let w = 0; w < table.workflows; w++) {
    text += writeWorkflow(w)
    if (text.length < CHUNK_LENGTH) continue
    yield text
    text = ''
  }
  if (text !== '') yield text
}

function headerOf(table: TraceTable): object {
  const groups = (table.stageGroups ?? []).flatMap((group, id) =>
    group === '' ? [] : [[table.stages[id]!, group]],
  )
  return {
    laxity: 'trace',
    version: 1,
    ...(table.template !== undefined && { template: table.template }),
    ...(table.pessimisticTemplate !== undefined && { pessimisticTemplate: table.pessimisticTemplate }),
    ...(groups.length > 0 && { stageGroups: Object.fromEntries(groups) }),
    ...(table.context !== undefined && { context: table.context }),
  }
}

/** Makes a function that gives the line of one workflow. Texts are built by hand: names repeat, so quote them once. */
function workflowWriter(table: TraceTable): (workflow: number) => string {
  const { columns } = table
  const stages = table.stages.map((name) => JSON.stringify(name))
  const models = table.models.map((name) => (name === DEFAULT_NAME ? '' : `,"model":${JSON.stringify(name)}`))
  const tenants = table.tenants.map((name) =>
    name === DEFAULT_NAME ? '' : `,"tenant":${JSON.stringify(name)}`,
  )

  const parentsOf = (workflow: number, row: number): string => {
    const ids: string[] = []
    for (let i = columns.parentOffset[row]!; i < columns.parentOffset[row + 1]!; i++) {
      ids.push(JSON.stringify(callId(table, workflow, columns.parents[i]!)))
    }
    return ids.length === 0 ? '' : `,"parents":[${ids.join(',')}]`
  }

  const callOf = (workflow: number, row: number): string => {
    const cached = columns.cachedTokens?.[row] ?? 0
    const output = columns.outputTokens[row]!
    const predicted = columns.predictedTokens?.[row] ?? output
    const gap = columns.toolGapMs?.[row] ?? 0
    let text = `{"id":${JSON.stringify(callId(table, workflow, row - columns.firstCall[workflow]!))}`
    text += `,"stage":${stages[columns.stage[row]!]!}${parentsOf(workflow, row)}`
    if (gap > 0) text += `,"toolGapMs":${gap}`
    text += `${models[columns.model?.[row] ?? 0]!},"promptTokens":${columns.promptTokens[row]!}`
    if (cached > 0) text += `,"cachedTokens":${cached}`
    text += `,"outputTokens":${output}`
    if (predicted !== output) text += `,"predictedTokens":${predicted}`
    return `${text}}`
  }

  return (workflow) => {
    const slo = columns.sloMs?.[workflow] ?? Number.NaN
    let text = `{"id":${JSON.stringify(workflowId(table, workflow))}`
    if (columns.arrivalMs !== undefined) text += `,"arrivedAtMs":${columns.arrivalMs[workflow]!}`
    text += tenants[columns.tenant?.[workflow] ?? 0]!
    if (!Number.isNaN(slo)) text += `,"sloMs":${slo}`
    text += ',"calls":['
    const first = columns.firstCall[workflow]!
    const end = columns.firstCall[workflow + 1]!
    for (let row = first; row < end; row++) text += `${row === first ? '' : ','}${callOf(workflow, row)}`
    return `${text}]}\n`
  }
}
