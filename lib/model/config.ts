/** A GPU of your own. Gigabytes are 10⁹ bytes. */
export interface GpuConfig {
  /** Dense BF16 tensor peak, 10¹² FLOP/s. */
  bf16Tflops: number
  /** Dense FP8 peak; left out = none. */
  fp8Tflops?: number | undefined
  memoryGBps: number
  /** As the driver shows it, not the marketing number: that costs 7–14 % of the KV cache. */
  memoryGB: number
  /** NVLink or peer-to-peer, per direction; default 300 where `switched`, else `pcieGBps`. */
  peerGBps?: number | undefined
  /** Network per GPU; default 25. */
  networkGBps?: number | undefined
  /** Default 32. */
  pcieGBps?: number | undefined
  /** `switched`: NVLink among all GPUs of the host. Default `pcie`. */
  interconnect?: 'switched' | 'pcie' | undefined
  /** Whose measured kernel efficiencies it takes. */
  kernels: 'a100' | 'h100' | 'h200' | 'l40s'
}

/** A decoder-only transformer with grouped-query attention. */
export interface ModelConfig {
  layers: number
  hidden: number
  queryHeads: number
  /** Default: queryHeads. */
  kvHeads?: number | undefined
  /** Default: hidden / queryHeads. */
  headDim?: number | undefined
  /** Width of a dense feed-forward layer; not with `experts`. */
  ffn?: number | undefined
  vocabulary: number
  /** Gate and up projections (SwiGLU); default true. */
  gated?: boolean | undefined
  /** Input and output embeddings are one matrix; default false. */
  tiedEmbeddings?: boolean | undefined
  experts?: number | undefined
  expertsPerToken?: number | undefined
  expertWidth?: number | undefined
}

/** Your own hardware and models by id (`schemas/hardware.schema.json`). A model may be a path to a Hugging Face config.json. */
export interface HardwareConfig {
  $schema?: string | undefined
  gpus?: Record<string, GpuConfig> | undefined
  models?: Record<string, ModelConfig | string> | undefined
}

export type Precision = 'bf16' | 'fp8'
