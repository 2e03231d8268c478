import { z } from 'zod'
import { hardwareFields } from '../model/schema.ts'
import type { ClusterConfig } from './config.ts'
import { LIMITS } from './limits.ts'
import { ENGINE_MODES } from './modes.ts'
import { ROLES } from './roles.ts'

// Every message is the X of "Expected X for `field`": problems.ts of this folder completes the sentence.

const baseMs = number(0, LIMITS.baseMs)
const slopeMs = number(0, LIMITS.slopeMs)

const decode = {
  decodeBaseMs: number(LIMITS.leastDecodeMs, LIMITS.baseMs).describe(
    'Time of one decode iteration with one running sequence, ms.',
  ),
  decodePerSequenceMs: slopeMs.optional().describe('Per running sequence beyond the first, ms.'),
  decodePerContextMs: slopeMs.optional().describe('Per token of context over all running sequences, ms.'),
}

const constants = z.strictObject(
  {
    kind: z.literal('constants'),
    prefillBaseMs: baseMs.optional().describe('Added to every prefill, ms.'),
    prefillPerTokenMs: slopeMs.describe('Per prompt token, ms.'),
    ...decode,
  },
  'an object',
)

const knot = z.tuple([whole(1, LIMITS.tokens), number(LIMITS.leastDecodeMs, LIMITS.tableMs)], '[tokens, ms]')

const table = z.strictObject(
  {
    kind: z.literal('table'),
    prefill: z
      .array(knot, 'an array of [tokens, ms]')
      .min(1, 'at least one [tokens, ms]')
      .describe('Prefill times by prompt length: ascending, linear between, proportional outside.'),
    ...decode,
  },
  'an object',
)

const prefixTier = z.strictObject(
  {
    tokens: whole(1, LIMITS.prefixTokens).describe('Its size in tokens.'),
    msPerToken: slopeMs.describe('Time to load a token from it, ms.'),
  },
  'an object',
)

const profile = z.strictObject(
  {
    kind: z.literal('profile'),
    csv: text('the path of a CSV').describe('batch,context,newTokens,ms; relative to this file.'),
    extrapolate: z
      .boolean('true or false')
      .optional()
      .describe('Go beyond what was measured; default false.'),
  },
  'an object',
)

const polynomial = z.strictObject(
  {
    kind: z.literal('polynomial'),
    prefill: z
      .array(
        z.strictObject(
          {
            fromTokens: whole(1, LIMITS.tokens).optional().describe('New tokens of a batch; default 1.'),
            baseMs: number(-LIMITS.baseMs, LIMITS.baseMs),
            perTokenMs: number(-LIMITS.slopeMs, LIMITS.slopeMs),
            perTokenSquaredMs: slopeMs.optional().describe('Per squared token of each prompt, ms.'),
          },
          'an object',
        ),
        'an array of regimes',
      )
      .min(1, 'at least one regime')
      .describe('Prefills of one batch by its new tokens: ascending, the first from 1; times above 0.'),
    decode: z
      .array(
        z.strictObject(
          {
            fromSequences: whole(1, LIMITS.sequences).optional().describe('Default 1.'),
            baseMs,
            perSequenceMs: slopeMs.optional().describe('Per running sequence, the first included, ms.'),
            perContextMs: slopeMs.optional().describe('Per token of context over the batch, ms.'),
          },
          'an object',
        ),
        'an array of regimes',
      )
      .min(1, 'at least one regime')
      .describe('Iterations by running sequences: ascending, the first from 1.'),
  },
  'an object',
)

const precision = z.enum(['bf16', 'fp8'], '"bf16" or "fp8"').optional()

const instance = z.strictObject(
  {
    gpu: text('the name of a GPU')
      .optional()
      .describe(
        'Without tp: a GPU with built-in constants, a100, a6000, l40s (any case). With tp: one of the calibrated model.',
      ),
    latency: text('an id of `latencies`').optional().describe('Or an id of `latencies`.'),
    count: whole(1, LIMITS.instances).optional().describe('How many of this kind; default 1.'),
    model: text('a model name').optional().describe('The model it serves; optional when the trace uses one.'),
    kvTokens: whole(1, LIMITS.kvTokens)
      .optional()
      .describe('KV cache in tokens; required with `latency`; with `tp` default: what fits.'),
    maxSequences: whole(1, LIMITS.sequences).optional().describe('Running sequences; default 256.'),
    mode: z
      .enum(ENGINE_MODES, '"prefill-first", "chunked" or "decode-share"')
      .optional()
      .describe('How the engine mixes prefill and decode; default prefill-first.'),
    chunkTokens: whole(1, LIMITS.chunkTokens)
      .optional()
      .describe('Mode chunked: tokens of an iteration, decodes included; default 512.'),
    decodeShare: number(LIMITS.leastDecodeShare, LIMITS.mostDecodeShare)
      .optional()
      .describe('Mode decode-share: speed of decode beside a prefill, in steps of 0.001; default 0.5.'),
    role: z
      .enum(ROLES, '"unified", "prefill" or "decode"')
      .optional()
      .describe('Default unified. A cluster is unified, or prefill and decode, as a whole.'),
    linkGBps: number(LIMITS.leastLinkGBps, LIMITS.linkGBps)
      .optional()
      .describe('Role prefill or decode: its end of a link, 10⁹ bytes/s; default 25 with an A100, else 50.'),
    linkLatencyMs: number(0, LIMITS.linkLatencyMs)
      .optional()
      .describe('Role prefill or decode: fixed part of a transfer, ms; default 1.02.'),
    linkCompression: number(LIMITS.leastLinkCompression, LIMITS.linkCompression)
      .optional()
      .describe('Role prefill or decode: bytes sent / bytes of KV; default 1.'),
    kvBytesPerToken: number(1, LIMITS.kvBytes)
      .optional()
      .describe('Role prefill or decode: KV of a token, bytes; required with `latency`.'),
    prefillBatchTokens: whole(1, LIMITS.chunkTokens)
      .optional()
      .describe('Role prefill: prompts run as one batch up to so many tokens; default one at a time.'),
    prefixCacheTokens: whole(0, LIMITS.prefixTokens)
      .optional()
      .describe('Prefix cache in GPU memory, tokens, beside the KV cache; default 0 = none.'),
    prefixCacheTiers: z
      .array(prefixTier, `an array of at most ${LIMITS.prefixTiers} { tokens, msPerToken }`)
      .max(LIMITS.prefixTiers, `an array of at most ${LIMITS.prefixTiers} { tokens, msPerToken }`)
      .optional()
      .describe('Slower tiers that take what falls out of GPU memory, the fastest first.'),
    tp: z
      .int('1, 2, 4 or 8')
      .min(1, '1, 2, 4 or 8')
      .max(8, '1, 2, 4 or 8')
      .optional()
      .describe('Tensor parallelism: the latency is then estimated for `model` on `gpu`.'),
    precision: precision.describe('Of the weights, with `tp`; default bf16.'),
    kvPrecision: precision.describe('Of the KV cache, with `tp`; default bf16.'),
    calibration: text("a stack's name or a path")
      .optional()
      .describe('With `tp`: default, vllm, trtllm, sglang, none, or the path of a calibration file.'),
  },
  'an object',
)

/** A cluster file. What relates one field to another is checked in check.ts. */
export const clusterSchema = z.strictObject(
  {
    $schema: z.string('a string').optional(),
    name: text('a name').optional().describe('Shown in results; default: the name of the file.'),
    latencies: z
      .record(z.string(), z.discriminatedUnion('kind', [constants, table, profile, polynomial]), 'an object')
      .optional()
      .describe('Latency models by id.'),
    ...hardwareFields,
    instances: z.array(instance, 'an array').min(1, 'at least one instance'),
  },
  'an object',
) satisfies z.ZodType<ClusterConfig>

/** The JSON Schema of a cluster file, for `schemas/cluster.schema.json`. */
export function clusterJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(clusterSchema, { io: 'input' }) as Record<string, unknown>
  return { ...schema, title: 'laxity cluster' }
}

function number(low: number, high: number): z.ZodNumber {
  const what = `a number from ${low} to ${high}`
  return z.number(what).min(low, what).max(high, what)
}

function whole(low: number, high: number): z.ZodNumber {
  const what = `a whole number from ${low} to ${high}`
  return z.int(what).min(low, what).max(high, what)
}

function text(what: string): z.ZodString {
  return z.string(what).min(1, what).max(200, what)
}
