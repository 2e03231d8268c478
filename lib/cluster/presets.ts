import type { ClusterConfig } from './config.ts'

/** The clusters of HexGen-Flow (arXiv 2505.05286, section 5): four unified instances of Llama-3.1-70B. */
export const CLUSTER_PRESETS: Readonly<Record<string, ClusterConfig>> = {
  'hexgen-hetero-1': ofGpus('hexgen-hetero-1', ['A100', 'A6000', 'A100', 'A6000']),
  'hexgen-hetero-2': ofGpus('hexgen-hetero-2', ['A100', 'A100', 'A6000', 'L40S']),
  'hexgen-homo': ofGpus('hexgen-homo', ['A100', 'A100', 'A100', 'A100']),
}

/** Names accepted wherever a cluster is asked for. */
export const clusterPresets: readonly string[] = Object.keys(CLUSTER_PRESETS)

export function findPreset(name: string): ClusterConfig | undefined {
  return Object.hasOwn(CLUSTER_PRESETS, name) ? CLUSTER_PRESETS[name] : undefined
}

function ofGpus(name: string, gpus: string[]): ClusterConfig {
  return { name, instances: gpus.map((gpu) => ({ gpu })) }
}
