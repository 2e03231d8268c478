import { z } from 'zod'
import { CONTEXT_PRESETS } from './context.ts'
import { MAX_ARRIVAL_MS, MAX_DURATION_MS, MAX_NAME, MAX_TOKENS, MAX_WORKFLOW_CALLS } from './limits.ts'

// The rules of one JSONL line, as published in schemas/trace.schema.json (`npm run schemas`). The reader decides by
// `jsonl-lines.ts` instead, which is faster and names lines; only the schema script and the tests import this file.

const name = z.string().min(1).max(MAX_NAME)
const tokens = z.int().min(1).max(MAX_TOKENS)

const call = z
  .strictObject({
    id: name.describe('Unique inside its workflow.'),
    stage: name.describe('What kind of step this is; calls of one kind share a name.'),
    parents: z
      .array(name)
      .optional()
      .describe(
        'Ids of calls of this workflow that finish before this one starts, in any order, without cycles.',
      ),
    toolGapMs: z
      .number()
      .min(0)
      .max(MAX_DURATION_MS)
      .optional()
      .describe('Time between the finish of the last parent and this call being ready, ms. Default 0.'),
    model: name.optional(),
    promptTokens: tokens,
    cachedTokens: z
      .int()
      .min(0)
      .max(MAX_TOKENS)
      .optional()
      .describe('Part of the prompt that a prefix cache may hold; less than promptTokens. Default 0.'),
    outputTokens: tokens,
    predictedTokens: tokens.optional().describe('Output length told to the scheduler. Default outputTokens.'),
  })
  .refine((value) => (value.cachedTokens ?? 0) < value.promptTokens, {
    path: ['cachedTokens'],
    message: 'must be less than promptTokens',
  })

export const workflowLine = z
  .strictObject({
    id: name.describe('Unique in the file.'),
    arrivedAtMs: z
      .number()
      .min(0)
      .max(MAX_ARRIVAL_MS)
      .optional()
      .describe('Recorded arrival, ms. On all workflows of a file or on none.'),
    tenant: name.optional(),
    sloMs: z
      .number()
      .gt(0)
      .max(MAX_DURATION_MS)
      .optional()
      .describe('Wanted time from arrival to the last finish, ms.'),
    calls: z.array(call).min(1).max(MAX_WORKFLOW_CALLS),
  })
  .describe('One workflow.')

const templateEntry = z.strictObject({ stage: name, promptTokens: tokens, outputTokens: tokens })

export const headerLine = z
  .strictObject({
    laxity: z.literal('trace'),
    version: z.literal(1),
    template: z
      .array(templateEntry)
      .min(1)
      .max(MAX_WORKFLOW_CALLS)
      .optional()
      .describe('What a workflow of this kind is expected to do, one sequential stage after another.'),
    pessimisticTemplate: z
      .array(templateEntry)
      .min(1)
      .max(MAX_WORKFLOW_CALLS)
      .optional()
      .describe('The same with every optional round and the longest lengths. Used beside `template`.'),
    stageGroups: z.record(name, name).optional().describe('Group of each stage, for tables of stage shares.'),
    context: z
      .enum(CONTEXT_PRESETS)
      .optional()
      .describe('What prompts hold: `full` = history and new tokens, `new` = the new tokens alone.'),
  })
  .describe('Optional first line.')

/** The JSON Schema of one line of a trace. */
export function traceJsonSchema(): object {
  const line = z.union([workflowLine, headerLine]).meta({
    title: 'A line of a laxity trace (JSONL)',
    description: 'The first line may be a header; every other line is a workflow.',
  })
  return z.toJSONSchema(line, { io: 'input', target: 'draft-2020-12' })
}
