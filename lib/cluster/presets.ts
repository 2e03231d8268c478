import type { ClusterConfig, InstanceConfig } from './config.ts'

/** Given the model that replaces the preset's own, if any. */
type Preset = (model: string | undefined) => ClusterConfig

type Pool = readonly [gpu: string, count: number][]

/**
 * The clusters of the papers. HexGen-Flow (arXiv 2505.05286, section 5): four unified instances of Llama-3.1-70B.
 * HexAGenT (arXiv 2605.16637, section 6): a pool of prefill and one of decode instances, alike; tensor parallelism and links are
 * not published, so these are this package's defaults.
 */
const PRESETS: Readonly<Record<string, Preset>> = {
  'hexgen-hetero-1': ofGpus('hexgen-hetero-1', ['A100', 'A6000', 'A100', 'A6000']),
  'hexgen-hetero-2': ofGpus('hexgen-hetero-2', ['A100', 'A100', 'A6000', 'L40S']),
  'hexgen-homo': ofGpus('hexgen-homo', ['A100', 'A100', 'A100', 'A100']),
  'hexagent-hetero-1': ofPools('hexagent-hetero-1', [
    ['a100-80', 2],
    ['h100', 3],
    ['h200', 3],
  ]),
  'hexagent-hetero-2': ofPools('hexagent-hetero-2', [
    ['a100-80', 3],
    ['h100', 4],
    ['h200', 3],
  ]),
  'hexagent-h200': ofPools('hexagent-h200', [['h200', 8]]),
  'hexagent-a100': ofPools('hexagent-a100', [['a100-80', 8]]),
}

/** GPUs per instance: bf16 weights and a useful KV cache fit on every GPU of the pools. */
const TP: Readonly<Record<string, number>> = { 'llama-3.1-70b': 4, 'qwen3-235b-a22b': 8 }
const DEFAULT_TP = 4

/** Names accepted wherever a cluster is asked for. */
export const clusterPresets: readonly string[] = Object.keys(PRESETS)

export function findPreset(name: string, model?: string): ClusterConfig | undefined {
  return Object.hasOwn(PRESETS, name) ? PRESETS[name]!(model) : undefined
}

function ofGpus(name: string, gpus: string[]): Preset {
  return () => ({ name, instances: gpus.map((gpu) => ({ gpu })) })
}

/** Without a `model` of their own they are estimated for Llama-3.1-70B and serve whatever the trace names. */
function ofPools(name: string, pool: Pool): Preset {
  return (model) => {
    const tp = TP[model?.toLowerCase() ?? 'llama-3.1-70b'] ?? DEFAULT_TP
    const instances = (['prefill', 'decode'] as const).flatMap((role) =>
      pool.map(([gpu, count]): InstanceConfig => ({ gpu, tp, count, role })),
    )
    return { name, instances }
  }
}
