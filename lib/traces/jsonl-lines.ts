import type { LaxityError } from '../errors.ts'
import {
  countFields,
  fieldError,
  isName,
  isObject,
  isTime,
  isTokens,
  type JsonObject,
  NAME,
  TOKENS,
  TOKENS_OR_ZERO,
  unknownFieldError,
} from './check.ts'
import { CONTEXT_PRESETS, type ContextPreset } from './context.ts'
import { MAX_ARRIVAL_MS, MAX_DURATION_MS, MAX_WORKFLOW_CALLS } from './limits.ts'
import type { Place } from './place.ts'
import type { TemplateEntry } from './table.ts'

// The two kinds of line of the JSONL format (docs/trace-format.md) and the checks of their fields.

export interface Header {
  laxity: 'trace'
  version: 1
  template?: TemplateEntry[]
  pessimisticTemplate?: TemplateEntry[]
  stageGroups?: Record<string, string>
  context?: ContextPreset
}

export interface Call {
  id: string
  stage: string
  parents?: string[]
  toolGapMs?: number
  model?: string
  promptTokens: number
  cachedTokens?: number
  outputTokens: number
  predictedTokens?: number
}

export interface Workflow {
  id: string
  arrivedAtMs?: number
  tenant?: string
  sloMs?: number
  calls: Call[]
}

const HEADER = ['laxity', 'version', 'template', 'pessimisticTemplate', 'stageGroups', 'context']
const TEMPLATE_ENTRY = ['stage', 'promptTokens', 'outputTokens']
const WORKFLOW = ['id', 'arrivedAtMs', 'tenant', 'sloMs', 'calls']
const CALL = [
  'id',
  'stage',
  'parents',
  'toolGapMs',
  'model',
  'promptTokens',
  'cachedTokens',
  'outputTokens',
  'predictedTokens',
]
const ARRIVAL = `a time from 0 to ${MAX_ARRIVAL_MS} ms`
const DURATION = `a time from 0 to ${MAX_DURATION_MS} ms`

/** @throws LaxityError ERR_LAXITY_FIELD */
export function checkHeader(value: JsonObject, place: Place): Header {
  const invalid = (field: string, what: string) => fieldError(place, value, '', field, what, HEADER)
  if (value.laxity !== 'trace') throw invalid('laxity', '"trace"')
  if (value.version !== 1) throw invalid('version', '1')
  const unknown = unknownFieldError(place, value, '', HEADER)
  if (unknown !== undefined) throw unknown

  const { stageGroups, context } = value
  if (context !== undefined && !CONTEXT_PRESETS.includes(context as ContextPreset)) {
    throw invalid('context', '"new" or "full"')
  }
  for (const field of ['template', 'pessimisticTemplate']) {
    const template = value[field]
    if (template === undefined) continue
    if (!Array.isArray(template) || template.length === 0)
      throw invalid(field, 'a list of at least one entry')
    if (template.length > MAX_WORKFLOW_CALLS) {
      throw place.error('ERR_LAXITY_LIMIT', field, `More than ${MAX_WORKFLOW_CALLS} entries`)
    }
    template.forEach((entry, i) => void checkTemplateEntry(entry, `${field}[${i}]`, place))
  }
  if (stageGroups !== undefined) {
    if (!isObject(stageGroups)) throw invalid('stageGroups', 'an object')
    for (const [stage, group] of Object.entries(stageGroups)) {
      if (!isName(stage)) throw place.expected(`${NAME} as key`, 'stageGroups', stage)
      if (!isName(group)) throw fieldError(place, stageGroups, 'stageGroups', stage, NAME, [stage])
    }
  }
  return value as unknown as Header
}

function checkTemplateEntry(entry: unknown, path: string, place: Place): void {
  if (!isObject(entry)) throw place.expected('an object', path, entry)
  const invalid = (field: string, what: string) => fieldError(place, entry, path, field, what, TEMPLATE_ENTRY)
  if (!isName(entry.stage)) throw invalid('stage', NAME)
  if (!isTokens(entry.promptTokens, 1)) throw invalid('promptTokens', TOKENS)
  if (!isTokens(entry.outputTokens, 1)) throw invalid('outputTokens', TOKENS)
  const unknown = unknownFieldError(place, entry, path, TEMPLATE_ENTRY)
  if (unknown !== undefined) throw unknown
}

/** Checks fields, not the graph. @throws LaxityError ERR_LAXITY_FIELD, ERR_LAXITY_SYNTAX, ERR_LAXITY_LIMIT */
export function checkWorkflow(value: unknown, place: Place): Workflow {
  if (!isObject(value))
    throw place.error('ERR_LAXITY_SYNTAX', '', 'Expected one JSON object per line, a workflow')
  if ('laxity' in value)
    throw place.error('ERR_LAXITY_FIELD', 'laxity', 'A header may only be the first line')
  const invalid = (field: string, what: string) => fieldError(place, value, '', field, what, WORKFLOW)
  let known = 2
  if (!isName(value.id)) throw invalid('id', NAME)
  if (value.arrivedAtMs !== undefined) {
    known++
    if (!isTime(value.arrivedAtMs, MAX_ARRIVAL_MS)) throw invalid('arrivedAtMs', ARRIVAL)
  }
  if (value.tenant !== undefined) {
    known++
    if (!isName(value.tenant)) throw invalid('tenant', NAME)
  }
  if (value.sloMs !== undefined) {
    known++
    if (!isTime(value.sloMs, MAX_DURATION_MS) || value.sloMs === 0)
      throw invalid('sloMs', `${DURATION}, above 0`)
  }
  const { calls } = value
  if (!Array.isArray(calls) || calls.length === 0) throw invalid('calls', 'a list of at least one call')
  if (countFields(value) !== known) throw unknownFieldError(place, value, '', WORKFLOW)!
  if (calls.length > MAX_WORKFLOW_CALLS) {
    throw place.error('ERR_LAXITY_LIMIT', 'calls', `More than ${MAX_WORKFLOW_CALLS} calls in one workflow`)
  }
  for (let i = 0; i < calls.length; i++) checkCall(calls[i], i, place)
  return value as unknown as Workflow
}

function checkCall(call: unknown, index: number, place: Place): void {
  if (!isObject(call)) throw place.expected('an object', `calls[${index}]`, call)
  let known = 4
  if (!isName(call.id)) throw callError(place, call, index, 'id', NAME)
  if (!isName(call.stage)) throw callError(place, call, index, 'stage', NAME)
  if (!isTokens(call.promptTokens, 1)) throw callError(place, call, index, 'promptTokens', TOKENS)
  if (!isTokens(call.outputTokens, 1)) throw callError(place, call, index, 'outputTokens', TOKENS)
  if (call.parents !== undefined) {
    known++
    if (!Array.isArray(call.parents)) throw callError(place, call, index, 'parents', 'a list of call ids')
    for (let j = 0; j < call.parents.length; j++) {
      const parent: unknown = call.parents[j]
      if (!isName(parent)) throw place.expected(NAME, `calls[${index}].parents[${j}]`, parent)
    }
  }
  if (call.cachedTokens !== undefined) {
    known++
    if (!isTokens(call.cachedTokens, 0)) throw callError(place, call, index, 'cachedTokens', TOKENS_OR_ZERO)
    if (call.cachedTokens >= call.promptTokens) {
      throw callError(place, call, index, 'cachedTokens', `less than promptTokens (${call.promptTokens})`)
    }
  }
  if (call.predictedTokens !== undefined) {
    known++
    if (!isTokens(call.predictedTokens, 1)) throw callError(place, call, index, 'predictedTokens', TOKENS)
  }
  if (call.toolGapMs !== undefined) {
    known++
    if (!isTime(call.toolGapMs, MAX_DURATION_MS)) throw callError(place, call, index, 'toolGapMs', DURATION)
  }
  if (call.model !== undefined) {
    known++
    if (!isName(call.model)) throw callError(place, call, index, 'model', NAME)
  }
  if (countFields(call) !== known) throw unknownFieldError(place, call, `calls[${index}]`, CALL)!
}

// Not a closure of checkCall: that would be made for every call.
function callError(place: Place, call: JsonObject, index: number, field: string, what: string): LaxityError {
  return fieldError(place, call, `calls[${index}]`, field, what, CALL)
}
