import { expected, LaxityError, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { text, whole } from './checks.ts'
import { NO_SLOT, type RevealFields } from './events.ts'
import type { Instances } from './instances.ts'
import type { Names } from './names.ts'
import { readRemaining } from './remaining.ts'
import type { CallOptions, Workflow } from './workflow.ts'

const MAX_TOKENS = 100_000_000

/** Turns a call's description into the fields of its reveal. */
export class CallReader {
  readonly #instances: Instances
  readonly #stages: Names
  readonly #parameters: Readonly<Record<string, number>>

  constructor(instances: Instances, stages: Names, parameters: Readonly<Record<string, number>>) {
    this.#instances = instances
    this.#stages = stages
    this.#parameters = parameters
  }

  readonly #fields: RevealFields = {
    slot: 0,
    generation: 0,
    workflow: 0,
    workflowGeneration: 0,
    stage: 0,
    model: 0,
    adapter: 0,
    sequences: 1,
    promptTokens: 1,
    predictedTokens: 0,
    predictedHigh: 0,
    silent: false,
    parents: undefined,
    cachedOn0: NO_SLOT,
    cachedTokens0: 0,
    cachedOn1: NO_SLOT,
    cachedTokens1: 0,
    remaining: -1,
    exactRemaining: false,
  }

  /** Checks a call's description; nothing has changed when it throws. The result is overwritten by the next. */
  read(workflow: Workflow | undefined, options: CallOptions): RevealFields {
    const fields = this.#fields
    const {
      promptTokens,
      outputTokens,
      highOutputTokens,
      maxOutputTokens,
      n,
      stage,
      model,
      remaining,
      stream,
    } = options
    whole(promptTokens, 'promptTokens', 1, MAX_TOKENS)
    if (outputTokens !== undefined) whole(outputTokens, 'outputTokens', 1, MAX_TOKENS)
    if (highOutputTokens !== undefined) whole(highOutputTokens, 'highOutputTokens', 1, MAX_TOKENS)
    if (maxOutputTokens !== undefined) whole(maxOutputTokens, 'maxOutputTokens', 1, MAX_TOKENS)
    if (n !== undefined) whole(n, 'n', 1, 65_535)
    if (n !== undefined && (outputTokens ?? 1) * n > MAX_TOKENS)
      throw new LaxityError('ERR_LAXITY_FIELD', `Expected at most ${MAX_TOKENS} output tokens in all`, 'n')
    if (stage !== undefined) text(stage, 'stage')
    if (stream !== undefined && typeof stream !== 'boolean')
      throw new LaxityError('ERR_LAXITY_FIELD', expected('true or false', 'stream', stream), 'stream')
    const told = readRemaining(remaining)
    if (model !== undefined) text(model, 'model')
    const served = this.#instances.modelOf(model)
    if (served === undefined) {
      const known = this.#instances.models.filter((name) => name !== '')
      const message =
        model === undefined
          ? 'Expected a `model`: the cluster serves several'
          : `No instance serves model ${quote(model)}${hint(model, known)}`
      throw new LaxityError(
        model === undefined ? 'ERR_LAXITY_FIELD' : 'ERR_LAXITY_NO_INSTANCE',
        message,
        'model',
      )
    }
    if (outputTokens === undefined && this.#parameters.predictLengths !== 1)
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('a whole number', 'outputTokens', undefined),
        'outputTokens',
      )
    fields.workflow = workflow?.slot ?? NO_SLOT
    fields.workflowGeneration = workflow?.generation ?? 0
    fields.stage = this.#stages.id(stage ?? 'default')
    fields.model = served.model
    fields.adapter = served.adapter
    fields.sequences = n ?? 1
    fields.promptTokens = promptTokens
    fields.predictedTokens = outputTokens ?? 0
    fields.predictedHigh = outputTokens === undefined ? (maxOutputTokens ?? 0) : (highOutputTokens ?? 0)
    fields.silent = stream === false
    fields.remaining = told.ns
    fields.exactRemaining = told.exact
    fields.parents = undefined
    fields.cachedOn0 = fields.cachedOn1 = NO_SLOT
    fields.cachedTokens0 = fields.cachedTokens1 = 0
    if (options.cachedTokens !== undefined) this.#cached(workflow, options.cachedTokens, promptTokens, fields)
    return fields
  }

  #cached(
    workflow: Workflow | undefined,
    cached: NonNullable<CallOptions['cachedTokens']>,
    promptTokens: number,
    fields: RevealFields,
  ): void {
    if (typeof cached === 'number') {
      whole(cached, 'cachedTokens', 0, MAX_TOKENS)
      if (cached === 0 || workflow === undefined || workflow.lastInstance < 0) return
      fields.cachedOn0 = workflow.lastInstance
      fields.cachedTokens0 = Math.min(cached, promptTokens - 1)
      return
    }
    if (typeof cached !== 'object' || cached === null)
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('tokens by instance id', 'cachedTokens', cached),
        'cachedTokens',
      )
    const held = Object.entries(cached).map(([id, tokens]) => {
      whole(tokens, `cachedTokens.${id}`, 0, MAX_TOKENS)
      return {
        slot: this.#instances.find(id, 'cachedTokens').slot,
        tokens: Math.min(tokens, promptTokens - 1),
      }
    })
    // The two largest count; equal ones by instance.
    held.sort((a, b) => b.tokens - a.tokens || a.slot - b.slot)
    if (held[0] !== undefined && held[0].tokens > 0) {
      fields.cachedOn0 = held[0].slot
      fields.cachedTokens0 = held[0].tokens
    }
    if (held[1] !== undefined && held[1].tokens > 0) {
      fields.cachedOn1 = held[1].slot
      fields.cachedTokens1 = held[1].tokens
    }
  }
}
