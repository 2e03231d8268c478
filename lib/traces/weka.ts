import { AGENTIC_STAGES } from './agentic.ts'
import { isObject } from './check.ts'
import { MAX_DURATION_MS, MAX_WORKFLOW_CALLS, MAX_WORKFLOW_EDGES } from './limits.ts'
import type { Place } from './place.ts'
import {
  checkColumns,
  checkFields,
  type Fields,
  filledList,
  list,
  name,
  names,
  type RecordFormat,
  seconds,
  tokens,
  tokensOrZero,
  whole,
} from './records.ts'
import { topologicalOrder } from './topological.ts'

const [, , , , , STEP, SUB_AGENT] = AGENTIC_STAGES
const MOST_S = MAX_DURATION_MS / 1000
const MS_PER_S = 1000

const RUN: Fields = {
  id: name,
  block: whole(1, 1e9),
  tool_tokens: tokensOrZero,
  system_tokens: tokensOrZero,
  models: names,
  subagents: whole(0, MAX_WORKFLOW_CALLS),
  calls: filledList,
}
const CALL: Fields = {
  index: whole(0, MAX_WORKFLOW_CALLS),
  agent: whole(0, MAX_WORKFLOW_CALLS),
  start: seconds(1e9),
  'input tokens': tokens,
  'output tokens': tokensOrZero,
  'cached tokens': tokensOrZero,
  'API time': seconds(MOST_S),
  'think time': seconds(MOST_S),
  stop: whole(0, 3),
  model: whole(0, 1e9),
  parents: list,
  'prefix parent': whole(-1, MAX_WORKFLOW_CALLS),
}

type Call = [
  index: number,
  agent: number,
  startS: number,
  inputTokens: number,
  outputTokens: number,
  cachedTokens: number,
  apiS: number,
  thinkS: number,
  stop: number,
  model: number,
  parents: number[],
  prefixParent: number,
]

/** Whether a first line, parsed, is a run of this format. */
export function isWeka(value: unknown): boolean {
  return isObject(value) && ('subagents' in value || 'block' in value)
}

/**
 * Reads runs of coding agents as derived from WEKA's traces: a chain of calls of the root agent, which forks sub-agents
 * and joins those that it waited for. Sub-agents in the background are nobody's parent: they never join.
 */
export const weka: RecordFormat = {
  idField: 'id',
  add(value, writer) {
    const { place } = writer
    const run = checkFields(place, value, '', RUN)
    const calls = run.calls as unknown[]
    if (calls.length > MAX_WORKFLOW_CALLS) {
      throw place.error('ERR_LAXITY_LIMIT', 'calls', `More than ${MAX_WORKFLOW_CALLS} calls in one workflow`)
    }
    checkCalls(calls, (run.models as unknown[]).length, place)
    const sorted = sort(calls, place)
    writer.workflow(run.id as string)
    const position = new Uint32Array(calls.length)
    for (const i of sorted) {
      const [, agent, , promptTokens, outputTokens, cachedTokens, , , , , parents] = calls[i]!
      const stage = agent === 0 ? STEP : SUB_AGENT
      const toolGapMs = gapMs(calls, i)
      const row = { stage, promptTokens, cachedTokens, outputTokens, toolGapMs }
      position[i] = writer.call(
        row,
        parents.map((parent) => position[parent]!),
        `calls[${i}]`,
      )
    }
  },
}

/**
 * The client's delay before the call. Where a call joins sub-agents, the recorded delay counts from the fork and holds
 * their work; what remains after the last of them is the gap.
 */
function gapMs(calls: readonly Call[], i: number): number {
  const [, , startS, , , , , thinkS, , , parents] = calls[i]!
  if (parents.length === 0) return 0
  if (parents.length === 1) return Math.round(thinkS * MS_PER_S)
  const finishS = Math.max(...parents.map((parent) => calls[parent]![2] + calls[parent]![6]))
  return Math.round(Math.min(thinkS, Math.max(0, startS - finishS)) * MS_PER_S)
}

function checkCalls(calls: unknown[], models: number, place: Place): asserts calls is Call[] {
  let edges = 0
  for (let i = 0; i < calls.length; i++) {
    const path = `calls[${i}]`
    const call = checkColumns(place, calls[i], path, CALL) as Call
    const [index, , , inputTokens, , cachedTokens, , , , model, parents] = call
    if (index !== i) throw place.expected(`its own index, ${i},`, `${path}[0]`, index)
    if (cachedTokens > inputTokens) {
      throw place.expected(`at most the input tokens (${inputTokens})`, `${path}[5]`, cachedTokens)
    }
    if (model >= models) throw place.expected(`the index of one of ${models} models`, `${path}[9]`, model)
    edges += parents.length
    if (edges > MAX_WORKFLOW_EDGES) {
      const message = `More than ${MAX_WORKFLOW_EDGES} parents in one workflow`
      throw place.error('ERR_LAXITY_LIMIT', `${path}[10]`, message)
    }
    for (const [j, parent] of parents.entries()) {
      const at = `${path}[10][${j}]`
      if (!Number.isInteger(parent)) throw place.expected('the index of a call', at, parent)
      if (parent < 0 || parent >= calls.length) {
        throw place.error(
          'ERR_LAXITY_PARENT',
          at,
          `Unknown parent ${parent}: there are ${calls.length} calls`,
        )
      }
    }
    const distinct = new Set(parents)
    if (distinct.size < parents.length) {
      throw place.error('ERR_LAXITY_DUPLICATE', `${path}[10]`, 'A parent is listed twice')
    }
  }
}

/** Parents first, else the order of the file. */
function sort(calls: readonly Call[], place: Place): Uint32Array {
  const offset = new Uint32Array(calls.length + 1)
  for (const [i, call] of calls.entries()) offset[i + 1] = offset[i]! + call[10].length
  const sorted = topologicalOrder(calls.length, offset, Uint32Array.from(calls.flatMap((call) => call[10])))
  if ('order' in sorted) return sorted.order
  const { cycle } = sorted
  const names = [...cycle.slice(0, 10), ...(cycle.length > 10 ? ['…'] : []), cycle[0]!]
  const message = `Parents form a cycle: ${names.join(' waits for ')}`
  throw place.error('ERR_LAXITY_CYCLE', `calls[${cycle[0]}][10]`, message)
}
