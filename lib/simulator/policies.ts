import type { Binding } from '../native.ts'

/** Order × placement × binding, chosen independently, and whether waiting calls may move. */
export interface Policy {
  order: string
  placement: string
  binding: Binding
  migrate: boolean
  /** Other than their defaults; what is given with the policy goes before. */
  parameters?: Readonly<Record<string, number>>
}

/** Named combinations; `laxity` is the best untuned one on unified clusters (docs/quality.md). */
export const POLICY_PRESETS: Readonly<Record<string, Policy>> = {
  vllm: { order: 'fcfs', placement: 'round-robin', binding: 'at-reveal', migrate: false },
  'hexgen-flow': {
    order: 'urgency',
    placement: 'workload-balanced',
    binding: 'at-reveal',
    migrate: false,
  },
  laxity: { order: 'ratio', placement: 'eftxp', binding: 'at-reveal', migrate: true },
}

/** On prefill-decode clusters: HexAGenT's rule (arXiv 2605.16637). */
const HEXAGENT: Policy = {
  order: 'ratio',
  placement: 'earliest-finish',
  binding: 'at-credit',
  migrate: false,
}
export const PAIR_POLICY_PRESETS: Readonly<Record<string, Policy>> = {
  hexagent: HEXAGENT,
  /** Chosen by bench/optimality. */
  laxity: { ...HEXAGENT, order: 'level-ratio', placement: 'kv-price', parameters: { structuralMinimum: 1 } },
}

/** What a run does that names no policy. */
export const DEFAULT_POLICY = { unified: 'hexgen-flow', paired: 'hexagent' } as const

/** Pair placements that plan: order and pair are chosen together, with binding `at-credit`. */
const PLANNING = new Set(['earliest-finish', 'kv-price'])

export function plans({ placement, binding }: { placement: unknown; binding: Binding }): boolean {
  return typeof placement === 'string' && PLANNING.has(placement) && binding === 'at-credit'
}

/** Orders that use what is declared of the time after a call. */
const WITH_REMAINING = new Set(['ratio', 'level-laxity', 'level-ratio'])

export function usesRemaining({ order }: Pick<Policy, 'order'>): boolean {
  return WITH_REMAINING.has(order)
}

/** Placements that choose among instances with credit, so that the call must wait in one shared queue. */
const SHARED_QUEUE = new Set(['global-queue', 'earliest-finish', 'kv-price'])

export function defaultBinding(placement: string): Binding {
  return SHARED_QUEUE.has(placement) ? 'at-credit' : 'at-reveal'
}
