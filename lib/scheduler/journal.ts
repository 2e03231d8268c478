import { closeSync, fdatasync, openSync, write, writeSync } from 'node:fs'
import { LaxityError } from '../errors.ts'
import type { Core } from './core.ts'
import { LOG_VERSION, type LogHeader, plain } from './log.ts'
import { decodeRecord, RECORD_BYTES } from './records.ts'

/** A live log's header: what a replay needs, and where its time lies. */
export interface LiveLogHeader extends LogHeader {
  live: {
    /** Wall time of t = 0, ms since 1970. */
    wallMs: number
    tenants: readonly string[]
    options: Record<string, unknown>
  }
}

/**
 * The event log while it is being written: JSON Lines, the header first. With `durable`, whoever waits for the disk is
 * called after the sync that covers his records; everything written meanwhile goes into the next one (group commit), so
 * one record waits for at most two syncs.
 */
export class Journal {
  readonly path: string
  readonly #fd: number
  readonly #durable: boolean
  #text = ''
  #waiting: (() => void)[] = []
  #writing = false
  #closed = false
  #failure: Error | undefined
  #onIdle: (() => void)[] = []
  readonly #onError: (error: LaxityError) => void

  /** Creates the file, or with `append` continues it. */
  constructor(
    path: string,
    header: LiveLogHeader | undefined,
    durable: boolean,
    onError: (error: LaxityError) => void,
  ) {
    this.path = path
    this.#durable = durable
    this.#onError = onError
    try {
      this.#fd = openSync(path, header === undefined ? 'a' : 'wx')
      if (header !== undefined)
        writeSync(this.#fd, `${JSON.stringify({ laxity: 'log', version: LOG_VERSION, ...header }, plain)}\n`)
    } catch (cause) {
      throw new LaxityError('ERR_LAXITY_FILE', `Cannot write the log: ${(cause as Error).message}`, path, {
        cause,
      })
    }
  }

  /** Records as the core logged them; names of calls and workflows ride along, replays pass over them. */
  append(records: Uint8Array, core: Core): void {
    if (records.length === 0 || this.#closed) return
    const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
    let text = ''
    for (let at = 0; at < records.length; at += RECORD_BYTES) {
      const event = decodeRecord(view, at)!
      if (event.kind === 'reveal') {
        const call = core.calls.find(event.call as number, event.callGeneration as number)
        if (call !== undefined) {
          if (call.givenId !== undefined) event.id = call.givenId
          event.stageName = call.stage
        }
      } else if (event.kind === 'openWorkflow') {
        const workflow = core.workflows.table.find(
          event.workflow as number,
          event.workflowGeneration as number,
        )
        if (workflow !== undefined) {
          event.id = workflow.id
          event.deadlineMs = workflow.deadlineMs === Number.POSITIVE_INFINITY ? null : workflow.deadlineMs
          event.named = workflow.named
          event.tenantName = workflow.tenant
        }
      }
      if (event.kind === 'instance') {
        const entry = core.instances.list[event.instance as number]
        if (event.change === 0 && entry !== undefined) event.given = entry.given
      }
      text += `${JSON.stringify(event, plain)}\n`
    }
    this.#text += text
    this.#pump()
  }

  /** Called when everything appended so far is on disk; at once where nothing is to be waited for. */
  afterSync(callback: () => void): void {
    // The records of this decide are appended after its decisions were handed out: the next commit covers them.
    this.#waiting.push(callback)
    this.#pump()
  }

  #pump(): void {
    if (this.#writing || this.#text === '') return
    this.#writing = true
    // One turn later: what the rest of this turn appends shares the commit.
    queueMicrotask(() => this.#commit())
  }

  #commit(): void {
    const bytes = Buffer.from(this.#text)
    const waiting = this.#waiting
    this.#text = ''
    this.#waiting = []
    const done = (error: Error | null) => {
      this.#writing = false
      if (error !== null) this.#fail(error)
      // Without a disk there is no promise to keep any more, but nobody may hang.
      for (const callback of waiting) callback()
      this.#pump()
      if (!this.#writing) for (const idle of this.#onIdle.splice(0)) idle()
    }
    const writeFrom = (offset: number) => {
      write(this.#fd, bytes, offset, bytes.length - offset, null, (error, written) => {
        if (error !== null) return done(error)
        if (offset + written < bytes.length) return writeFrom(offset + written)
        if (this.#durable) fdatasync(this.#fd, done)
        else done(null)
      })
    }
    writeFrom(0)
  }

  #fail(cause: Error): void {
    if (this.#failure !== undefined) return
    this.#failure = cause
    this.#onError(
      new LaxityError('ERR_LAXITY_FILE', `Cannot write the log: ${cause.message}`, this.path, { cause }),
    )
  }

  async close(): Promise<void> {
    if (this.#closed) return
    if (this.#writing || this.#text !== '') {
      this.#pump()
      await new Promise<void>((resolve) => this.#onIdle.push(resolve))
    }
    this.#closed = true
    closeSync(this.#fd)
  }
}
