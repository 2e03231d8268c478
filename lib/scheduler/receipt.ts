import type { LeaseReason } from './lease.ts'

export interface Candidate {
  instance: string
  prefillMs: number
  /** Prefill and predicted decode, alone. */
  execMs: number
  /** Projected finish from now, calls that wait there not counted. */
  projectedMs: number
}

/** Why a lease went where it went, and how the prediction came out (live-scheduling 8). */
export interface Receipt {
  call: string
  workflow: string
  epoch: number
  instance: string
  /** Prefill-decode: the decode instance; `instance` prefills. */
  decode?: string
  reason: LeaseReason
  policy: string
  tieSeed: number
  /** As the call found them when it was revealed, before anything of that instant. */
  candidates: Candidate[]
  /** From ready to leased. */
  queueMs: number
  /** t_SLO of the call; 0 under orders that keep none. */
  budgetMs: number
  /** Absolute, of the scheduler's clock. */
  deadlineMs: number
  horizonMs: number
  predictedTokens: number
  predicted: { ttftMs: number; finishMs: number }
  /** When the lease is closed. */
  actual?: { ttftMs: number | undefined; finishMs: number; errorMs: number; outcome: string }
}

/** What a call would meet if it were ready now. */
export interface CallEstimate {
  /** Where the placement would put it; undefined where nothing can serve it now. */
  instance: string | undefined
  candidates: Candidate[]
}
