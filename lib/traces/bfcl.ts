import { AGENTIC_STAGES } from './agentic.ts'
import { isObject } from './check.ts'
import {
  checkColumns,
  checkFields,
  type Fields,
  filledList,
  list,
  name,
  names,
  type RecordFormat,
  tokens,
  tokensOrZero,
  whole,
} from './records.ts'

const [, TOOL, ANSWER] = AGENTIC_STAGES

/**
 * Length of the call that closes a turn, which BFCL does not tell (assumption: the low end of usual answers; published
 * input lengths then hold within 0.1 %).
 */
const ANSWER_TOKENS = 30

const ENTRY: Fields = {
  id: name,
  category: name,
  classes: names,
  func_doc_tokens: tokensOrZero,
  num_funcs: whole(0, 1e9),
  turns: filledList,
}
const TURN: Fields = { user: tokensOrZero, steps: list }
const STEP: Fields = { 'call tokens': tokens, 'result tokens': tokensOrZero }

interface Turn {
  user: number
  steps: [call: number, result: number][]
}

/** Whether a first line, parsed, is an entry of this format. */
export function isBfcl(value: unknown): boolean {
  return isObject(value) && 'turns' in value && !('calls' in value)
}

/**
 * Reads entries of BFCL v3 multi-turn (lengths and call structure): a chain, for every turn one call for each step of
 * the ground truth and a closing one. A call's prompt is the function documentation and all that was said before.
 */
export const bfcl: RecordFormat = {
  idField: 'id',
  add(value, writer) {
    const { place } = writer
    const entry = checkFields(place, value, '', ENTRY)
    const turns = (entry.turns as unknown[]).map((turn, t) => {
      const { steps } = checkFields(place, turn, `turns[${t}]`, TURN)
      for (const [s, step] of (steps as unknown[]).entries()) {
        checkColumns(place, step, `turns[${t}].steps[${s}]`, STEP)
      }
      return turn as Turn
    })
    writer.workflow(entry.id as string)
    let prompt = entry.func_doc_tokens as number
    let history = 0
    let last: number[] = []
    const call = (stage: string, outputTokens: number, path: string) => {
      last = [writer.call({ stage, promptTokens: prompt, cachedTokens: history, outputTokens }, last, path)]
      prompt = history = prompt + outputTokens
    }
    for (const [t, { user, steps }] of turns.entries()) {
      prompt += user
      for (const [s, [callTokens, resultTokens]] of steps.entries()) {
        call(TOOL, callTokens, `turns[${t}].steps[${s}]`)
        prompt += resultTokens
      }
      call(ANSWER, ANSWER_TOKENS, `turns[${t}]`)
    }
  },
}
