import type { Binding } from '../native.ts'

/** Order × placement × binding, chosen independently. */
export interface Policy {
  order: string
  placement: string
  binding: Binding
}

/** Named combinations (the unified ones of the design's section 7). */
export const POLICY_PRESETS: Readonly<Record<string, Policy>> = {
  vllm: { order: 'fcfs', placement: 'round-robin', binding: 'at-reveal' },
  'hexgen-flow': { order: 'urgency', placement: 'workload-balanced', binding: 'at-reveal' },
  laxity: { order: 'ratio', placement: 'eftxp', binding: 'at-reveal' },
}

/** Placements that choose among instances with credit, so that the call must wait in one shared queue. */
const SHARED_QUEUE = new Set(['global-queue', 'earliest-finish'])

export function defaultBinding(placement: string): Binding {
  return SHARED_QUEUE.has(placement) ? 'at-credit' : 'at-reveal'
}
