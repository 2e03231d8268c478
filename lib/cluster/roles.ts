import type { InstanceConfig } from './config.ts'

/** What an instance does with a call. A cluster is unified, or prefill and decode, as a whole. */
export const ROLES = ['unified', 'prefill', 'decode'] as const
export type Role = (typeof ROLES)[number]

/** Fields of an instance that say how its KV travels. */
export const LINK_FIELDS = ['linkGBps', 'linkLatencyMs', 'linkCompression', 'kvBytesPerToken'] as const

/** Sample data, not measured: an A100 host's network, and that of newer ones. GB = 10⁹ bytes. */
const A100_GBPS = 25
const NEWER_GBPS = 50
/** As in docs/latency-model.md: 20 µs between hosts and an assumed handshake. */
const DEFAULT_LINK_LATENCY_MS = 1.02

/** Llama-3.1-70B in bf16, which the constants of built-in GPUs stand for. */
export const BUILT_IN_KV_BYTES = 327_680

/** The link of an instance as the core takes it. */
export interface Link {
  linkMsPerToken: number
  linkLatencyMs: number
}

/** `gpu`: its name where it has one; `kvBytes`: KV of a token on the instance. */
export function linkOf(entry: InstanceConfig, gpu: string | undefined, kvBytes: number): Link {
  const { linkCompression = 1, linkLatencyMs = DEFAULT_LINK_LATENCY_MS } = entry
  const gigabytes = entry.linkGBps ?? (isA100(gpu) ? A100_GBPS : NEWER_GBPS)
  return { linkMsPerToken: (kvBytes * linkCompression) / (gigabytes * 1e6), linkLatencyMs }
}

function isA100(gpu: string | undefined): boolean {
  return gpu !== undefined && /^a100($|-)/i.test(gpu)
}
