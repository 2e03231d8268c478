import { type LaxityError, quote, suggestion } from '../errors.ts'
import { TraceBuilder } from './builder.ts'
import { isObject } from './check.ts'
import { grown } from './columns.ts'
import { type Call, checkHeader, checkWorkflow, type Header, type Workflow } from './jsonl-lines.ts'
import { isBlank, type LineFormat } from './line-formats.ts'
import { parseLine } from './parse-line.ts'
import type { Place } from './place.ts'
import { defaultCallId, type TraceTable } from './table.ts'
import { topologicalOrder } from './topological.ts'

/** Reads the package's own format (docs/trace-format.md). */
export class JsonlReader implements LineFormat {
  readonly #place: Place
  readonly #builder: TraceBuilder
  #header: Header | undefined
  #isFirst = true

  // Of the workflow being added. Parents of call i are #parents[#offset[i]] … #parents[#offset[i + 1] − 1], as positions
  // in the file's list of calls.
  #areUsual = true
  readonly #positions = new Map<string, number>()
  #offset = new Uint32Array(64)
  #parents = new Uint32Array(64)

  constructor(place: Place) {
    this.#place = place
    this.#builder = new TraceBuilder((code, field, message) => place.error(code, field, message))
  }

  /** @throws LaxityError ERR_LAXITY_EMPTY */
  end(): TraceTable {
    if (this.#builder.workflows === 0)
      throw this.#place.errorOfFile('ERR_LAXITY_EMPTY', 'The trace has no workflows')
    const { template, pessimisticTemplate, stageGroups, context } = this.#header ?? {}
    return this.#builder.finish(this.#place.file, {
      ...(template !== undefined && { template }),
      ...(pessimisticTemplate !== undefined && { pessimisticTemplate }),
      ...(stageGroups !== undefined && { stageGroups: new Map(Object.entries(stageGroups)) }),
      ...(context !== undefined && { context }),
    })
  }

  addLine(line: string): void {
    if (isBlank(line)) return
    const value = parseLine(line, this.#place, (parsed) => this.#check(parsed))
    if ('laxity' in value) this.#header = value
    else this.#addWorkflow(value)
    this.#isFirst = false
  }

  #check(value: unknown): Header | Workflow {
    if (this.#isFirst && isObject(value) && 'laxity' in value) return checkHeader(value, this.#place)
    return checkWorkflow(value, this.#place)
  }

  #addWorkflow(workflow: Workflow): void {
    const { calls } = workflow
    this.#builder.addWorkflow(workflow)
    this.#indexIds(calls)
    const isSorted = this.#resolveParents(calls)
    if (isSorted) {
      for (let i = 0; i < calls.length; i++) this.#addCall(calls, i, undefined)
      return
    }
    const sorted = topologicalOrder(calls.length, this.#offset, this.#parents)
    if ('cycle' in sorted) throw cycleError(calls, sorted.cycle, this.#place)
    const local = new Uint32Array(calls.length)
    for (let i = 0; i < calls.length; i++) local[sorted.order[i]!] = i
    for (const position of sorted.order) this.#addCall(calls, position, local)
  }

  /** `local` gives the place of each call where the order of the file is not kept. */
  #addCall(calls: readonly Call[], position: number, local: Uint32Array | undefined): void {
    this.#builder.addCall(calls[position]!)
    const end = this.#offset[position + 1]!
    for (let i = this.#offset[position]!; i < end; i++) {
      const parent = this.#parents[i]!
      this.#builder.addParent(local === undefined ? parent : local[parent]!)
    }
  }

  #indexIds(calls: readonly Call[]): void {
    let usual = 0
    while (usual < calls.length && calls[usual]!.id === defaultCallId(usual)) usual++
    this.#areUsual = usual === calls.length
    if (this.#areUsual) return
    const positions = this.#positions
    positions.clear()
    for (let i = 0; i < calls.length; i++) {
      const { id } = calls[i]!
      positions.set(id, i)
      if (positions.size > i) continue
      const first = calls.findIndex((call) => call.id === id)
      const message = `Call id ${quote(id)} was used before, by calls[${first}]`
      throw this.#place.error('ERR_LAXITY_DUPLICATE', `calls[${i}].id`, message)
    }
  }

  #positionOf(id: string, calls: readonly Call[]): number | undefined {
    if (!this.#areUsual) return this.#positions.get(id)
    const position = Number(id.slice(1))
    return calls[position]?.id === id ? position : undefined
  }

  /** Fills #offset and #parents. True where every parent stands before its child, as in most files. */
  #resolveParents(calls: readonly Call[]): boolean {
    while (this.#offset.length <= calls.length) this.#offset = grown(this.#offset)
    let isSorted = true
    let edges = 0
    for (let i = 0; i < calls.length; i++) {
      const { parents } = calls[i]!
      for (let j = 0; j < (parents?.length ?? 0); j++) {
        const parent = this.#positionOf(parents![j]!, calls)
        if (parent === undefined) throw parentError(calls, i, j, this.#place)
        if (parent >= i) isSorted = false
        if (edges === this.#parents.length) this.#parents = grown(this.#parents)
        this.#parents[edges++] = parent
      }
      if (parents !== undefined && parents.length > 1 && hasRepeats(parents)) {
        throw repeatedParentError(parents, i, this.#place)
      }
      this.#offset[i + 1] = edges
    }
    return isSorted
  }
}

function hasRepeats(parents: readonly string[]): boolean {
  if (parents.length > 8) return new Set(parents).size < parents.length
  for (let i = 1; i < parents.length; i++) if (parents.indexOf(parents[i]!) < i) return true
  return false
}

function parentError(calls: readonly Call[], i: number, j: number, place: Place): LaxityError {
  const id = calls[i]!.parents![j]!
  const hint =
    calls.length <= 1000
      ? suggestion(
          id,
          calls.map((call) => call.id),
        )
      : ''
  const message = `Unknown parent ${quote(id)}: no call of this workflow has that id${hint}`
  return place.error('ERR_LAXITY_PARENT', `calls[${i}].parents[${j}]`, message)
}

function repeatedParentError(parents: readonly string[], i: number, place: Place): LaxityError {
  const seen = new Set<string>()
  const j = parents.findIndex((id) => seen.size === seen.add(id).size)
  return place.error(
    'ERR_LAXITY_DUPLICATE',
    `calls[${i}].parents[${j}]`,
    `Parent ${quote(parents[j]!)} is named twice`,
  )
}

function cycleError(calls: readonly Call[], cycle: readonly number[], place: Place): LaxityError {
  const names = cycle.slice(0, 10).map((position) => quote(calls[position]!.id))
  if (cycle.length > 10) names.push(`… (${cycle.length} calls)`)
  names.push(names[0]!)
  const message = `Parents form a cycle: ${names.join(' waits for ')}`
  return place.error('ERR_LAXITY_CYCLE', `calls[${cycle[0]}].parents`, message)
}
