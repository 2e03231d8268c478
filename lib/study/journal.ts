import { createHash } from 'node:crypto'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { LaxityError } from '../errors.ts'
import { lockFolder } from './lock.ts'
import type { ChunkResult, SetAside, Store } from './store.ts'
import { type Range, runCount, type Study } from './study.ts'

/**
 * The results of a study as a file that only grows, one record a line, each with a checksum:
 *
 *     {"sum":"…","record":{"study":ID,"runs":N,"width":W,…}}     the first
 *     {"sum":"…","record":{"plan":[from,to]}}                    before the chunk is handed out
 *     {"sum":"…","record":{"done":[from,to],"cpuMs":…,"rows":BASE64 of little-endian doubles}}
 *     {"sum":"…","record":{"aside":[from,to],"error":…}}         for people: the next session tries again
 *
 * Whatever ends the process, what was finished stays: a torn last line is cut off, a damaged one elsewhere counts as
 * never written.
 */
export const JOURNAL = 'results.jsonl'

const SLICE = 1 << 20
/** A line is a chunk's rows; anything longer is no journal. */
const LONGEST_LINE = 1 << 28

interface Place {
  offset: number
  length: number
}

type JournalRecord = Record<string, unknown>

export interface JournalOptions {
  width: number
  /** Opens the file; another one in tests. */
  openFile?: (path: string) => Promise<FileHandle>
}

/** Reads what is there and appends. */
export class Journal implements Store {
  readonly path: string
  readonly runs: number
  /** Lines whose checksum was wrong, without the torn last one. */
  damaged = 0
  /** Bytes cut off the end. */
  torn = 0
  doneRuns = 0
  cpuMs = 0
  planned = 0

  readonly #file: FileHandle
  readonly #unlock: () => Promise<void>
  readonly #width: number
  readonly #plans = new Map<number, Range>()
  readonly #done = new Map<number, Range & Place>()
  #end = 0
  #writes: Promise<void> = Promise.resolve()
  #failure: LaxityError | undefined

  private constructor(
    path: string,
    study: Study,
    width: number,
    file: FileHandle,
    unlock: () => Promise<void>,
  ) {
    this.path = path
    this.runs = runCount(study)
    this.#width = width
    this.#file = file
    this.#unlock = unlock
  }

  /**
   * @throws LaxityError ERR_LAXITY_FILE; ERR_LAXITY_STATE where the folder holds another study's results, or another
   * process works on it.
   */
  static async open(folder: string, study: Study, options: JournalOptions): Promise<Journal> {
    const path = join(folder, JOURNAL)
    let unlock: (() => Promise<void>) | undefined
    let file: FileHandle | undefined
    try {
      await mkdir(folder, { recursive: true })
      unlock = await lockFolder(folder)
      file = await (options.openFile ?? openToAppend)(path)
      const journal = new Journal(path, study, options.width, file, unlock)
      await journal.#load(study)
      return journal
    } catch (error) {
      await file?.close().catch(() => {})
      await unlock?.()
      throw writeError(error, path)
    }
  }

  get open(): readonly Range[] {
    const open = [...this.#plans.values()].filter(({ from, to }) => !this.#covered(from, to))
    return open.sort((a, b) => a.from - b.from || a.to - b.to)
  }

  async plan(range: Range): Promise<void> {
    this.#keepPlan(range)
    await this.#append({ plan: [range.from, range.to] })
  }

  async append(result: ChunkResult): Promise<boolean> {
    const { from, to, cpuMs, rows } = result
    if (this.#covered(from, to)) return false
    const bytes = Buffer.from(rows.buffer, rows.byteOffset, rows.byteLength)
    // Known before it is written: a second result must not slip in between.
    this.#done.set(from, { from, to, offset: -1, length: 0 })
    const place = await this.#append({ done: [from, to], cpuMs, rows: bytes.toString('base64') })
    this.#done.set(from, { from, to, ...place })
    this.doneRuns += to - from
    this.cpuMs += cpuMs
    return true
  }

  async setAside({ from, to, error, attempts }: SetAside): Promise<void> {
    await this.#append({ aside: [from, to], error, attempts })
  }

  async *chunks(): AsyncIterable<ChunkResult> {
    const places = [...this.#done.values()].sort((a, b) => a.from - b.from)
    for (const { offset, length } of places) {
      const line = Buffer.alloc(length)
      await this.#file.read(line, 0, length, offset)
      yield decode(parseLine(line) ?? {}, this.#width)
    }
  }

  async close(): Promise<void> {
    await this.#writes.catch(() => {})
    await this.#file.close()
    await this.#unlock()
  }

  /** Chunks never overlap in part: halves are planned within their whole. */
  #covered(from: number, to: number): boolean {
    for (let at = from; at < to; ) {
      const done = this.#done.get(at)
      if (done === undefined) return false
      at = done.to
    }
    return true
  }

  #keepPlan(range: Range): void {
    // The smaller of two plans that start together is a half of the other.
    const known = this.#plans.get(range.from)
    if (known === undefined || known.to > range.to) this.#plans.set(range.from, range)
    this.planned = Math.max(this.planned, range.to)
  }

  async #append(record: JournalRecord): Promise<Place> {
    if (this.#failure !== undefined) throw this.#failure
    const line = Buffer.from(formatLine(record))
    const offset = this.#end
    this.#end += line.length
    const write = this.#writes.then(async () => {
      if (this.#failure !== undefined) throw this.#failure
      try {
        let written = 0
        while (written < line.length) {
          const { bytesWritten } = await this.#file.write(
            line,
            written,
            line.length - written,
            offset + written,
          )
          written += bytesWritten
        }
        await this.#file.datasync()
      } catch (error) {
        // What follows a gap would be lost too.
        this.#failure = writeError(error, this.path)
        throw this.#failure
      }
    })
    this.#writes = write.catch(() => {})
    await write
    return { offset, length: line.length }
  }

  async #load(study: Study): Promise<void> {
    const stats = await this.#file.stat()
    if (!stats.isFile()) throw new LaxityError('ERR_LAXITY_FILE', 'Not a regular file', this.path)
    let header: JournalRecord | undefined
    let first = true
    for await (const { line, offset, complete } of lines(this.#file, stats.size)) {
      const record = complete ? parseLine(line) : undefined
      if (record === undefined) {
        if (!complete) {
          this.torn = line.length
          break
        }
        if (first) break
        this.damaged++
      } else if (header === undefined) header = record
      else this.#take(record, { offset, length: line.length })
      first = false
      this.#end = offset + line.length
    }
    if (header === undefined) {
      if (stats.size > 0 && !first) throw this.#foreign()
      if (stats.size > this.torn) throw this.#foreign()
      this.#end = 0
      await this.#file.truncate(0)
      const { id, version, name } = study
      await this.#append({ study: id, name, version, runs: this.runs, width: this.#width })
      return
    }
    if (header.study !== study.id || header.runs !== this.runs || header.width !== this.#width) {
      const message = `Holds results of study ${String(header.study)} (laxity ${String(header.version)}), not of ${study.id}: give another folder`
      throw new LaxityError('ERR_LAXITY_STATE', message, this.path)
    }
    if (this.torn > 0) await this.#file.truncate(this.#end)
  }

  #foreign(): LaxityError {
    return new LaxityError('ERR_LAXITY_STATE', 'Not the results of a study: give another folder', this.path)
  }

  #take(record: JournalRecord, place: Place): void {
    const plan = rangeOf(record.plan, this.runs)
    if (plan !== undefined) this.#keepPlan(plan)
    const done = rangeOf(record.done, this.runs)
    if (done === undefined || this.#covered(done.from, done.to)) return
    this.#done.set(done.from, { ...done, ...place })
    this.#keepPlan(done)
    this.doneRuns += done.to - done.from
    this.cpuMs += Number(record.cpuMs)
  }
}

function rangeOf(value: unknown, runs: number): Range | undefined {
  if (!Array.isArray(value)) return undefined
  const [from, to] = value as [number, number]
  return from >= 0 && from < to && to <= runs ? { from, to } : undefined
}

/** @internal */
export function formatLine(record: JournalRecord): string {
  const text = JSON.stringify(record)
  return `{"sum":"${checksum(text)}","record":${text}}\n`
}

/** Undefined where the line is not what was written. */
function parseLine(line: Buffer): JournalRecord | undefined {
  const text = line.toString('utf8')
  const match = /^\{"sum":"([0-9a-f]{16})","record":(\{.*\})\}\n$/s.exec(text)
  if (match === null || checksum(match[2]!) !== match[1]) return undefined
  try {
    return JSON.parse(match[2]!) as JournalRecord
  } catch {
    return undefined
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function decode(record: JournalRecord, width: number): ChunkResult {
  const [from, to] = record.done as [number, number]
  const bytes = Buffer.from(record.rows as string, 'base64')
  const rows = new Float64Array((to - from) * width)
  new Uint8Array(rows.buffer).set(bytes.subarray(0, rows.byteLength))
  return { from, to, cpuMs: Number(record.cpuMs), rows }
}

/** Lines with their newline; the last may lack it. */
async function* lines(
  file: FileHandle,
  size: number,
): AsyncGenerator<{ line: Buffer; offset: number; complete: boolean }> {
  let rest: Buffer = Buffer.alloc(0)
  let offset = 0
  for (let at = 0; at < size; ) {
    const slice = Buffer.alloc(Math.min(SLICE, size - at))
    const { bytesRead } = await file.read(slice, 0, slice.length, at)
    if (bytesRead === 0) break
    at += bytesRead
    rest = Buffer.concat([rest, slice.subarray(0, bytesRead)])
    let start = 0
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10, start)) {
      const line = rest.subarray(start, end + 1)
      yield { line, offset, complete: true }
      offset += line.length
      start = end + 1
    }
    rest = rest.subarray(start)
    if (rest.length > LONGEST_LINE) break
  }
  if (rest.length > 0) yield { line: rest, offset, complete: false }
}

async function openToAppend(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r+')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return open(path, 'wx+')
  }
}

/** A system's error as a coded one; a full disk leaves the study resumable. */
export function writeError(error: unknown, path: string): LaxityError {
  if (error instanceof LaxityError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (code === undefined) throw error
  const more =
    code === 'ENOSPC' ? 'the disk is full: what is finished is kept, the same command continues' : code
  return new LaxityError('ERR_LAXITY_FILE', `Cannot be written (${more})`, path, { cause: message && error })
}
