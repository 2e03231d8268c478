import type { JSONParser } from '@streamparser/json'
import { LaxityError, quote } from '../errors.ts'
import { TraceBuilder } from './builder.ts'
import { fieldError, isName, isObject, isTokens, join, NAME, TOKENS, unknownFieldError } from './check.ts'
import { chessStageGroups, chessTemplate, pessimisticChessTemplate } from './chess-template.ts'
import { MAX_LINE_BYTES, MAX_WORKFLOW_CALLS, MAX_WORKFLOW_EDGES } from './limits.ts'
import type { Place } from './place.ts'
import type { TraceTable } from './table.ts'

const CANDIDATE = 'generate_candidate_llama-agent'
const EVALUATE = 'evaluate'
const LIST = 'Text2SQLRequest'
const STEP = ['step', 'input_length', 'output_length']

/** Depths of the format: the file's array, a workflow, its list, a step. */
const STEP_DEPTH = 4
const MAX_DEPTH = 16
const NEWLINE = 10
const PIECE_BYTES = 2 ** 16

type Library = typeof import('@streamparser/json')
let library: Promise<Library> | undefined

interface Step {
  step: string
  input_length: number
  output_length: number
}

/**
 * Reads HexGen-Flow's JSON: an array of `{"Text2SQLRequest": [{step, input_length, output_length}, …]}` in execution
 * order. The steps of a workflow form a chain of stages: all candidates are one parallel stage at the place of the
 * first, all evaluations another, and every other step is a stage of its own. A call's parents are all calls of the
 * stage before. Where every step is one of CHESS, the table has the CHESS template.
 */
export class HexgenReader {
  readonly #place: Place
  readonly #parser: JSONParser
  readonly #builder: TraceBuilder
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true })
  readonly #groups = chessStageGroups(CANDIDATE)
  #isChess = true
  #elements = 0
  /** Bytes since the last whole element. */
  #pending = 0

  // Where the fields of the current element stand, so that its errors name their own line.
  #depth = 0
  #steps = 0
  #lastText = ''
  #fields: { path: string; line: number }[] = []

  /** The streaming parser is loaded only for this format: the main export must not need it. */
  static async create(place: Place): Promise<HexgenReader> {
    library ??= import('@streamparser/json')
    return new HexgenReader(place, await library)
  }

  private constructor(place: Place, { JSONParser, TokenType }: Library) {
    this.#place = place
    this.#builder = new TraceBuilder((code, _, message) => {
      return place.error(code, `${this.#elementPath()}.${LIST}`, message)
    })
    this.#parser = new JSONParser({ paths: ['$.*'], keepStack: false })
    this.#parser.onToken = ({ token, value }) => {
      if (this.#depth === 0 && token !== TokenType.LEFT_BRACKET) {
        throw place.error('ERR_LAXITY_SYNTAX', '', 'Expected an array of workflows')
      }
      if (token === TokenType.LEFT_BRACE || token === TokenType.LEFT_BRACKET) this.#open()
      else if (token === TokenType.RIGHT_BRACE || token === TokenType.RIGHT_BRACKET) this.#depth--
      else if (token === TokenType.STRING) this.#lastText = value as string
      else if (token === TokenType.COLON) this.#fields.push({ path: this.#fieldPath(), line: place.line })
    }
    this.#parser.onValue = ({ value }) => {
      this.#addWorkflow(value)
      this.#elements++
      this.#pending = 0
      this.#steps = 0
      this.#fields = []
    }
  }

  push(chunk: Buffer): void {
    // By line, so that `place.line` is right inside the parser's callbacks.
    for (let start = 0; start < chunk.length; ) {
      let piece = chunk.subarray(start, start + PIECE_BYTES)
      const newline = piece.indexOf(NEWLINE)
      if (newline >= 0) piece = piece.subarray(0, newline + 1)
      this.#pushPiece(piece)
      if (newline >= 0) this.#place.line++
      start += piece.length
    }
  }

  /** @throws LaxityError ERR_LAXITY_SYNTAX (truncated), ERR_LAXITY_EMPTY */
  end(): TraceTable {
    this.#decode(new Uint8Array(), false)
    if (!this.#parser.isEnded) {
      throw this.#place.error(
        'ERR_LAXITY_SYNTAX',
        '',
        'The file ends before its closing "]": it is truncated',
      )
    }
    if (this.#builder.workflows === 0) {
      throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    }
    const chess = {
      template: chessTemplate(CANDIDATE),
      pessimisticTemplate: pessimisticChessTemplate(CANDIDATE),
      stageGroups: this.#groups,
    }
    return this.#builder.finish(this.#place.file, this.#isChess ? chess : {})
  }

  #pushPiece(piece: Buffer): void {
    this.#decode(piece, true)
    this.#pending += piece.length
    if (this.#pending > MAX_LINE_BYTES) {
      const message = `The workflow is longer than ${MAX_LINE_BYTES / 2 ** 20} MiB`
      throw this.#place.error('ERR_LAXITY_LIMIT', this.#elementPath(), message)
    }
    try {
      this.#parser.write(piece)
    } catch (cause) {
      throw cause instanceof LaxityError ? cause : this.#syntaxError(cause)
    }
  }

  #decode(piece: Uint8Array, stream: boolean): void {
    try {
      this.#utf8.decode(piece, { stream })
    } catch {
      throw this.#place.error('ERR_LAXITY_UTF8', '', 'The line is not UTF-8 text')
    }
  }

  #open(): void {
    this.#depth++
    if (this.#depth === STEP_DEPTH) this.#steps++
    if (this.#depth > MAX_DEPTH)
      throw this.#place.error('ERR_LAXITY_SYNTAX', '', 'Too deeply nested for this format')
  }

  #elementPath(): string {
    return `[${this.#elements}]`
  }

  #stepPath(index: number): string {
    return `${this.#elementPath()}.${LIST}[${index}]`
  }

  #fieldPath(): string {
    return join(
      this.#depth < STEP_DEPTH ? this.#elementPath() : this.#stepPath(this.#steps - 1),
      this.#lastText,
    )
  }

  #syntaxError(cause: unknown): LaxityError {
    const message = cause instanceof Error ? cause.message : ''
    const unexpected =
      /^Unexpected "(.)" at/su.exec(message)?.[1] ?? /^Unexpected \w+ \("(.*)"\) in/s.exec(message)?.[1]
    const last = this.#fields.at(-1)
    if (this.#depth === STEP_DEPTH && (unexpected === 'N' || unexpected === 'I') && last !== undefined) {
      // NaN or Infinity, as Python writes them.
      return this.#place.expected(
        TOKENS,
        last.path,
        unexpected === 'N' ? Number.NaN : Number.POSITIVE_INFINITY,
      )
    }
    const what = unexpected === undefined ? '' : `: unexpected ${quote(unexpected)}`
    return this.#place.error('ERR_LAXITY_SYNTAX', this.#elementPath(), `Not valid JSON${what}`)
  }

  #addWorkflow(value: unknown): void {
    let steps: Step[]
    try {
      steps = this.#check(value)
    } catch (error) {
      throw this.#atItsLine(error)
    }
    const stages = stagesOf(steps)
    let edges = 0
    for (let i = 1; i < stages.length; i++) edges += stages[i]!.length * stages[i - 1]!.length
    if (edges > MAX_WORKFLOW_EDGES) {
      const message = `Parallel stages imply more than ${MAX_WORKFLOW_EDGES} parents in one workflow`
      throw this.#place.error('ERR_LAXITY_LIMIT', `${this.#elementPath()}.${LIST}`, message)
    }
    this.#builder.addWorkflow({})
    let before = 0 // position of the previous stage's first call
    let first = 0
    for (const stage of stages) {
      for (const { step, input_length, output_length } of stage) {
        if (!this.#groups.has(step)) this.#isChess = false
        this.#builder.addCall({ stage: step, promptTokens: input_length, outputTokens: output_length })
        for (let parent = before; parent < first; parent++) this.#builder.addParent(parent)
      }
      before = first
      first += stage.length
    }
  }

  #check(value: unknown): Step[] {
    const place = this.#place
    const path = this.#elementPath()
    if (!isObject(value)) throw place.expected('an object', path, value)
    const steps = value[LIST]
    if (!Array.isArray(steps) || steps.length === 0) {
      throw fieldError(place, value, path, LIST, 'a list of at least one step', [LIST])
    }
    const unknown = unknownFieldError(place, value, path, [LIST])
    if (unknown !== undefined) throw unknown
    if (steps.length > MAX_WORKFLOW_CALLS) {
      throw place.error('ERR_LAXITY_LIMIT', `${path}.${LIST}`, `More than ${MAX_WORKFLOW_CALLS} steps`)
    }
    for (let i = 0; i < steps.length; i++) {
      const step: unknown = steps[i]
      if (!isObject(step)) throw place.expected('an object', this.#stepPath(i), step)
      const invalid = (field: string, what: string) =>
        fieldError(place, step, this.#stepPath(i), field, what, STEP)
      if (!isName(step.step)) throw invalid('step', NAME)
      if (!isTokens(step.input_length, 1)) throw invalid('input_length', TOKENS)
      if (!isTokens(step.output_length, 1)) throw invalid('output_length', TOKENS)
      const unknownField = unknownFieldError(place, step, this.#stepPath(i), STEP)
      if (unknownField !== undefined) throw unknownField
    }
    return steps as Step[]
  }

  /** An element is checked once it is complete, so an error of one of its fields has the line of its end. */
  #atItsLine(error: unknown): unknown {
    if (!(error instanceof LaxityError) || error.place === undefined) return error
    const { file, line } = this.#place
    const prefix = `${file}:${line}: `
    const path = error.place.slice(prefix.length)
    const field = this.#fields.find((candidate) => candidate.path === path)
    if (field === undefined) return error
    return new LaxityError(
      error.code,
      error.message.slice(error.place.length + 2),
      `${file}:${field.line}: ${path}`,
    )
  }
}

function stagesOf(steps: readonly Step[]): Step[][] {
  const stages: Step[][] = []
  const parallel = new Map<string, Step[]>()
  for (const step of steps) {
    const stage = parallel.get(step.step)
    if (stage !== undefined) {
      stage.push(step)
      continue
    }
    const opened = [step]
    stages.push(opened)
    if (step.step === CANDIDATE || step.step === EVALUATE) parallel.set(step.step, opened)
  }
  return stages
}
