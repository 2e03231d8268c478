import { z } from 'zod'
import type { GpuConfig, HardwareConfig, ModelConfig } from './config.ts'

// As in cluster/schema.ts, every message is the X of "Expected X for `field`".

function number(low: number, high: number): z.ZodNumber {
  const what = `a number from ${low} to ${high}`
  return z.number(what).min(low, what).max(high, what)
}

function whole(low: number, high: number): z.ZodNumber {
  const what = `a whole number from ${low} to ${high}`
  return z.int(what).min(low, what).max(high, what)
}

const flag = z.boolean('true or false')

export const gpuSchema = z.strictObject(
  {
    bf16Tflops: number(0.1, 1e6).describe('Dense BF16 tensor peak, 1e12 FLOP/s.'),
    fp8Tflops: number(0.1, 1e6).optional().describe('Dense FP8 peak; left out: none.'),
    memoryGBps: number(1, 1e6).describe('Memory bandwidth, 1e9 B/s.'),
    memoryGB: number(1, 1e5).describe('Memory as the driver shows it, 1e9 bytes.'),
    peerGBps: number(0.1, 1e5).optional().describe('NVLink or peer-to-peer per direction, 1e9 B/s.'),
    networkGBps: number(0.01, 1e5).optional().describe('Network per GPU, 1e9 B/s; default 25.'),
    pcieGBps: number(0.1, 1e5).optional().describe('PCIe, 1e9 B/s; default 32.'),
    interconnect: z
      .enum(['switched', 'pcie'], '"switched" or "pcie"')
      .optional()
      .describe('NVLink among all GPUs of the host, or PCIe (default).'),
    kernels: z
      .enum(['a100', 'h100', 'h200', 'l40s'], '"a100", "h100", "h200" or "l40s"')
      .describe('Whose measured kernel efficiencies it takes.'),
  },
  'an object',
) satisfies z.ZodType<GpuConfig>

export const modelSchema = z.strictObject(
  {
    layers: whole(1, 1000),
    hidden: whole(1, 1e6),
    queryHeads: whole(1, 4096),
    kvHeads: whole(1, 4096).optional().describe('Default: queryHeads.'),
    headDim: whole(1, 4096).optional().describe('Default: hidden / queryHeads.'),
    ffn: whole(1, 1e7).optional().describe('Width of a dense feed-forward layer; not with experts.'),
    vocabulary: whole(1, 1e7),
    gated: flag.optional().describe('Gate and up projections (SwiGLU); default true.'),
    tiedEmbeddings: flag.optional().describe('One matrix for input and output; default false.'),
    experts: whole(1, 1e5).optional(),
    expertsPerToken: whole(1, 1e5).optional(),
    expertWidth: whole(1, 1e7).optional(),
  },
  'an object',
) satisfies z.ZodType<ModelConfig>

export const hardwareFields = {
  gpus: z.record(z.string(), gpuSchema, 'an object').optional().describe('Your own GPUs by id.'),
  models: z
    .record(
      z.string(),
      z.union([z.string('a path').min(1, 'a path'), modelSchema], 'a model or the path of a config.json'),
      'an object',
    )
    .optional()
    .describe('Your own models by id: sizes, or the path of a Hugging Face config.json.'),
}

export const hardwareSchema = z.strictObject(
  { $schema: z.string('a string').optional(), ...hardwareFields },
  'an object',
) satisfies z.ZodType<HardwareConfig>

/** The JSON Schema of a hardware file, for `schemas/hardware.schema.json`. */
export function hardwareJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(hardwareSchema, { io: 'input' }) as Record<string, unknown>
  return { ...schema, title: 'laxity hardware' }
}
