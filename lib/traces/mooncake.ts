import { TraceBuilder } from './builder.ts'
import { countFields, fieldError, isObject, isTime, isTokens, TOKENS, unknownFieldError } from './check.ts'
import { grown } from './columns.ts'
import { MAX_ARRIVAL_MS, MAX_CALLS, MAX_DURATION_MS, MAX_WORKFLOW_CALLS } from './limits.ts'
import { isBlank, type LineFormat } from './line-formats.ts'
import { parseLine } from './parse-line.ts'
import type { Place } from './place.ts'
import type { TraceTable } from './table.ts'

const BLOCK_TOKENS = 512
const STAGE = 'request'
const FIELDS = ['timestamp', 'input_length', 'output_length', 'hash_ids']
const BLOCK_ID = `a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`

/** A request continues another only if it repeats at least this many whole blocks of it: one is a system prompt. */
const CHAIN_BLOCKS = 2

/** Different blocks in one trace: a Set or Map holds at most 2^24 values. */
const MAX_BLOCKS = 2 ** 23

interface Request {
  timestamp: number
  input_length: number
  output_length: number
  /** Prefix-chained blocks of 512 tokens: an id stands for its block and everything before it. */
  hash_ids: number[]
}

/** Whether a first line, parsed, is a request of this format. */
export function isMooncake(value: unknown): boolean {
  return (
    isObject(value) && !('laxity' in value) && !('calls' in value) && FIELDS.some((name) => name in value)
  )
}

/**
 * Reads Mooncake's traces (JSON Lines). As single calls, every request is a workflow, and what a prefix cache may hold
 * are the leading blocks that any earlier request had.
 */
export class MooncakeReader implements LineFormat {
  readonly #place: Place
  readonly #builder: TraceBuilder
  readonly #seen = new Set<number>()

  constructor(place: Place) {
    this.#place = place
    this.#builder = new TraceBuilder((code, field, message) => place.error(code, field, message))
  }

  addLine(line: string): void {
    if (isBlank(line)) return
    const request = parseRequest(line, this.#place)
    const blocks = request.hash_ids
    let shared = 0
    while (shared < blocks.length && this.#seen.has(blocks[shared]!)) shared++
    for (let i = shared; i < blocks.length; i++) this.#seen.add(blocks[i]!)
    checkBlocks(this.#seen.size, this.#place)
    this.#builder.addWorkflow({ arrivedAtMs: request.timestamp })
    this.#builder.addCall(callOf(request, shared))
  }

  end(): TraceTable {
    if (this.#builder.workflows === 0) {
      throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    }
    return this.#builder.finish(this.#place.file, { context: 'full' })
  }
}

/**
 * The same as chains: the parent of a request is, of the earlier ones whose whole blocks are a prefix of its own, the one
 * with the most, at least CHAIN_BLOCKS, and of those the latest. A request without one opens a workflow. Parents are
 * inferred from prefixes, the trace does not record them. A call becomes ready as long after its parent's finish as the
 * two requests lay apart; a parent further away than a tool gap may last is none. What a prefix cache may hold are the
 * blocks shared with the parent.
 */
export class MooncakeChainsReader implements LineFormat {
  readonly #place: Place
  /** The latest request that ends, as far as its blocks are whole, with this block. */
  readonly #endingWith = new Map<number, number>()
  #requests = 0

  // By request.
  #timestamp = new Float64Array(64)
  #prompt = new Uint32Array(64)
  #output = new Uint32Array(64)
  /** Leading blocks that are whole. */
  #whole = new Uint32Array(64)
  /** Blocks shared with the parent. */
  #shared = new Uint32Array(64)
  /** 1 + the parent; 0 = none. */
  #parent = new Uint32Array(64)

  constructor(place: Place) {
    this.#place = place
  }

  addLine(line: string): void {
    if (isBlank(line)) return
    const request = parseRequest(line, this.#place)
    const i = this.#requests
    if (i >= MAX_CALLS)
      throw this.#place.error('ERR_LAXITY_LIMIT', '', `More than ${MAX_CALLS} calls in one trace`)
    if (i === this.#timestamp.length) this.#grow()
    const blocks = request.hash_ids
    const parent = this.#parentOf(request)
    this.#timestamp[i] = request.timestamp
    this.#prompt[i] = request.input_length
    this.#output[i] = request.output_length
    this.#parent[i] = parent + 1
    this.#shared[i] = parent < 0 ? 0 : this.#whole[parent]!
    const whole = Math.min(Math.floor(request.input_length / BLOCK_TOKENS), blocks.length)
    this.#whole[i] = whole
    if (whole >= CHAIN_BLOCKS) this.#endingWith.set(blocks[whole - 1]!, i)
    checkBlocks(this.#endingWith.size, this.#place)
    this.#requests++
  }

  end(): TraceTable {
    const n = this.#requests
    if (n === 0) throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    // Every call's workflow, and their sizes; parents come before their children.
    const root = new Uint32Array(n)
    const size = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      const parent = this.#parent[i]!
      root[i] = parent === 0 ? i : root[parent - 1]!
      size[root[i]!]!++
      if (size[root[i]!]! > MAX_WORKFLOW_CALLS) {
        const message = `More than ${MAX_WORKFLOW_CALLS} requests in one chain`
        throw this.#place.errorOfFile('ERR_LAXITY_LIMIT', message)
      }
    }
    // Counting sort by workflow, in the order of the file inside one.
    const next = new Uint32Array(n)
    let start = 0
    for (let i = 0; i < n; i++) {
      next[i] = start
      start += size[i]!
    }
    const order = new Uint32Array(n)
    for (let i = 0; i < n; i++) order[next[root[i]!]!++] = i

    const place = this.#place
    const builder = new TraceBuilder((code, _, message) => place.errorOfFile(code, message))
    const position = new Uint32Array(n)
    let calls = 0
    for (const i of order) {
      const parent = this.#parent[i]!
      if (parent === 0) {
        builder.addWorkflow({ arrivedAtMs: this.#timestamp[i]! })
        calls = 0
      }
      position[i] = calls++
      const request = { input_length: this.#prompt[i]!, output_length: this.#output[i]! }
      const apart = parent === 0 ? 0 : Math.max(0, this.#timestamp[i]! - this.#timestamp[parent - 1]!)
      builder.addCall({ ...callOf(request, this.#shared[i]!), toolGapMs: apart })
      if (parent > 0) builder.addParent(position[parent - 1]!)
    }
    return builder.finish(place.file, { context: 'full' })
  }

  /** −1 = none. */
  #parentOf({ hash_ids: blocks, timestamp }: Request): number {
    for (let k = blocks.length; k >= CHAIN_BLOCKS; k--) {
      const candidate = this.#endingWith.get(blocks[k - 1]!)
      if (candidate === undefined || this.#whole[candidate] !== k) continue
      if (timestamp - this.#timestamp[candidate]! <= MAX_DURATION_MS) return candidate
    }
    return -1
  }

  #grow(): void {
    this.#timestamp = grown(this.#timestamp)
    this.#prompt = grown(this.#prompt)
    this.#output = grown(this.#output)
    this.#whole = grown(this.#whole)
    this.#shared = grown(this.#shared)
    this.#parent = grown(this.#parent)
  }
}

function callOf(
  { input_length, output_length }: Pick<Request, 'input_length' | 'output_length'>,
  shared: number,
) {
  return {
    stage: STAGE,
    promptTokens: input_length,
    // The engine computes at least the last token.
    cachedTokens: Math.min(shared * BLOCK_TOKENS, input_length - 1),
    outputTokens: output_length,
  }
}

function checkBlocks(blocks: number, place: Place): void {
  if (blocks <= MAX_BLOCKS) return
  throw place.error('ERR_LAXITY_LIMIT', 'hash_ids', `More than ${MAX_BLOCKS} different blocks in one trace`)
}

function parseRequest(line: string, place: Place): Request {
  return parseLine(line, place, (value) => checkRequest(value, place))
}

function checkRequest(value: unknown, place: Place): Request {
  if (!isObject(value)) throw place.error('ERR_LAXITY_SYNTAX', '', 'Expected one JSON object per line')
  const invalid = (field: string, what: string) => fieldError(place, value, '', field, what, FIELDS)
  const { timestamp, input_length, output_length, hash_ids } = value
  if (!isTime(timestamp, MAX_ARRIVAL_MS)) throw invalid('timestamp', `a time from 0 to ${MAX_ARRIVAL_MS} ms`)
  if (!isTokens(input_length, 1)) throw invalid('input_length', TOKENS)
  if (!isTokens(output_length, 1)) throw invalid('output_length', TOKENS)
  if (!Array.isArray(hash_ids)) throw invalid('hash_ids', 'a list of block ids')
  for (let i = 0; i < hash_ids.length; i++) {
    const id: unknown = hash_ids[i]
    if (!Number.isSafeInteger(id) || (id as number) < 0) throw place.expected(BLOCK_ID, `hash_ids[${i}]`, id)
  }
  if (countFields(value) !== FIELDS.length) throw unknownFieldError(place, value, '', FIELDS)!
  return value as unknown as Request
}
