import { AGENTIC_STAGES } from './agentic.ts'
import { isObject } from './check.ts'
import { MAX_DURATION_MS } from './limits.ts'
import type { Place } from './place.ts'
import {
  checkFields,
  type Fields,
  filledList,
  list,
  name,
  type RecordFormat,
  type RecordWriter,
  seconds,
  tokens,
  tokensOrZero,
  whole,
} from './records.ts'

const [, , , EXPAND, VALUE] = AGENTIC_STAGES
const MOST_S = MAX_DURATION_MS / 1000
const MS_PER_S = 1000

const LOG: Fields = { task: name, calls: filledList }
const REQUEST: Fields = {
  kind: { what: '"expand" or "value"', is: (value) => value === 'expand' || value === 'value' },
  iter: whole(0, 1e9),
  t: seconds(MOST_S),
  dur: seconds(MOST_S),
  in: tokens,
  outs: filledList,
  child_depths: { ...list, required: false },
}
const depth = whole(1, 1e9)

interface Request {
  kind: 'expand' | 'value'
  iter: number
  t: number
  dur: number
  in: number
  outs: number[]
  child_depths?: number[]
}

/** Whether a first line, parsed, is a log of this format. */
export function isLats(value: unknown): boolean {
  return isObject(value) && 'task' in value && 'calls' in value && !('id' in value)
}

/**
 * Reads logs of tree searches (LATS, tree of thoughts). An expansion is one call for each sampled candidate; valuations
 * wait for all candidates of the expansion before them, and the next expansion waits for those valuations, or for the
 * candidates where there are none. An expansion of the root opens a search, which is a workflow.
 */
export const lats: RecordFormat = {
  idField: 'task',
  add(value, writer) {
    const { place } = writer
    const log = checkFields(place, value, '', LOG)
    const requests = log.calls as unknown[]
    for (const [i, request] of requests.entries()) checkRequest(request, `calls[${i}]`, place)
    let search: Search | undefined
    let searches = 0
    for (const [i, request] of (requests as Request[]).entries()) {
      const path = `calls[${i}]`
      if (request.kind === 'value') {
        if (search === undefined) {
          throw place.error('ERR_LAXITY_PARENT', path, 'A valuation needs an expansion before it')
        }
        search.value(request, path)
        continue
      }
      if (search === undefined || search.isEndedBy(request)) {
        writer.workflow(`${log.task}/${++searches}`)
        search = new Search(writer)
      }
      search.expand(request, path)
    }
  },
}

/** Where a search is: what the next request waits for and repeats. */
class Search {
  readonly #writer: RecordWriter
  /** Prompts of the latest expansions by the depth of their children. */
  readonly #prompts = new Map<number, number>()
  #lastPrompt = 0
  #candidates: number[] = []
  #values: number[] = []
  /** End of the last expansion, and of the last request, s. */
  #expandedS = 0
  #endS = 0
  /** Between the expansion and its first valuation: the environment's step. */
  #valueGapMs = 0

  constructor(writer: RecordWriter) {
    this.#writer = writer
  }

  /** A node's prompt continues its parent's, so where depths are missing, a shorter one belongs to another search. */
  isEndedBy(expansion: Request): boolean {
    const childDepth = expansion.child_depths?.[0]
    return childDepth === undefined ? expansion.in <= this.#lastPrompt : childDepth === 1
  }

  expand(request: Request, path: string): void {
    const childDepth = request.child_depths?.[0]
    const parents = this.#values.length > 0 ? this.#values : this.#candidates
    const history = childDepth === undefined ? this.#lastPrompt : (this.#prompts.get(childDepth - 1) ?? 0)
    const toolGapMs = parents.length === 0 ? 0 : milliseconds(request.t - this.#endS)
    this.#candidates = request.outs.map((outputTokens, i) => {
      // Siblings send the same prompt.
      const cachedTokens = i === 0 ? history : request.in
      const row = { stage: EXPAND, promptTokens: request.in, cachedTokens, outputTokens, toolGapMs }
      return this.#writer.call(row, parents, path)
    })
    this.#values = []
    this.#lastPrompt = request.in
    if (childDepth !== undefined) this.#prompts.set(childDepth, request.in)
    this.#expandedS = this.#endS = request.t + request.dur
  }

  value(request: Request, path: string): void {
    // The log values candidates one after another, but none waits for another.
    if (this.#values.length === 0) this.#valueGapMs = milliseconds(request.t - this.#expandedS)
    for (const outputTokens of request.outs) {
      const row = { stage: VALUE, promptTokens: request.in, outputTokens, toolGapMs: this.#valueGapMs }
      this.#values.push(this.#writer.call(row, this.#candidates, path))
    }
    this.#endS = Math.max(this.#endS, request.t + request.dur)
  }
}

function milliseconds(s: number): number {
  return Math.max(0, Math.round(s * MS_PER_S))
}

function checkRequest(value: unknown, path: string, place: Place): void {
  const { outs, child_depths } = checkFields(place, value, path, REQUEST)
  for (const [i, out] of (outs as unknown[]).entries()) {
    if (!tokensOrZero.is(out)) throw place.expected(tokensOrZero.what, `${path}.outs[${i}]`, out)
  }
  for (const [i, child] of ((child_depths as unknown[] | undefined) ?? []).entries()) {
    if (!depth.is(child)) throw place.expected(depth.what, `${path}.child_depths[${i}]`, child)
  }
}
