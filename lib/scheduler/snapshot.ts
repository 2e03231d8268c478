import { ROLES, type Role } from '../cluster/roles.ts'

/** What the core believes of one instance now; every number is read from the core, none is kept here. */
export interface InstanceSnapshot {
  id: string
  url: string | undefined
  role: Role
  condition: 'absent' | 'up' | 'draining' | 'down' | 'removed'
  /** Up, but gets no new calls: open breaker, or a probe under way. */
  masked: boolean
  breaker: 'closed' | 'open' | 'half-open'
  breakerTransitions: number
  /** Calls that wait here or are leased here. */
  assigned: number
  /** Their execution time, corrections included, ms. */
  workMs: number
  /** Sequences leased. On a decode instance from the lease on, wherever the call is. */
  leased: number
  /** On a prefill instance prompts from their lease until their KV has left; on a decode instance it may exceed `kvTokens`. */
  reservedKv: number
  /** Decode instances: KV and sequences of the calls that have room there. */
  admittedKv: number
  admittedSequences: number
  /** Decode instances: KV in use beyond that of our calls, by a fresh sample of telemetry. Plans count it, credit does not. */
  foreignKv: number
  /** Leases without a first token. */
  unprefilled: number
  unprefilledMs: number
  /** Until the leased prefills are over, ms. */
  prefillsEndMs: number
  waiting: number
  /** No new lease for so long: the engine refused one. */
  pausedMs: number
  /** Part of `workMs` that no call stands for: penalties after faults, load that telemetry saw. */
  correctionMs: number
  maxSequences: number
  kvTokens: number
  /** Present estimate, ms per prompt token at 1,000 tokens. */
  prefillMsPerToken: number
  /** Present estimate of one decode iteration with the leases it has, ms. */
  decodeMs: number
}

export interface Snapshot {
  nowMs: number
  policy: { order: string; placement: string; binding: string; migrate: boolean }
  workflows: number
  /** Calls the facade has not seen end. */
  activeCalls: number
  /** Ready calls without a lease. */
  queued: number
  leasesGranted: number
  retriesRefused: number
  /** Leases taken back: their KV had waited too long on its prefill instance; something more urgent came. */
  kvExpired: number
  revoked: number
  /** Prefill-decode clusters with a placement that plans: plans made, and waiting calls that they looked at. */
  plans: number
  plannedCalls: number
  nextWakeMs: number | null
  instances: InstanceSnapshot[]
}

export const INSTANCE_COLUMNS = 22
const CONDITIONS = ['absent', 'up', 'draining', 'down', 'removed'] as const
const BREAKERS = ['closed', 'open', 'half-open'] as const

export function instanceSnapshot(
  names: { id: string; url: string | undefined },
  columns: Float64Array,
  at: number,
): InstanceSnapshot {
  const column = (i: number) => columns[at + i]!
  return {
    id: names.id,
    url: names.url,
    role: ROLES[column(18)]!,
    condition: CONDITIONS[column(0)]!,
    masked: column(1) === 1,
    breaker: BREAKERS[column(2)]!,
    breakerTransitions: column(3),
    assigned: column(4),
    workMs: column(5),
    leased: column(6),
    reservedKv: column(7),
    admittedKv: column(19),
    admittedSequences: column(20),
    foreignKv: column(21),
    unprefilled: column(8),
    unprefilledMs: column(9),
    prefillsEndMs: column(10),
    waiting: column(11),
    pausedMs: column(12),
    correctionMs: column(13),
    maxSequences: column(14),
    kvTokens: column(15),
    prefillMsPerToken: column(16),
    decodeMs: column(17),
  }
}

export const CALL_COLUMNS = 20
/** Columns of `NativeScheduler.callInfo`. */
export const CALL = {
  state: 0,
  epoch: 1,
  instance: 2,
  revealedMs: 3,
  readyMs: 4,
  meanMs: 5,
  prefillMs: 6,
  execMs: 7,
  budgetMs: 8,
  key: 9,
  deltaMs: 10,
  predicted: 11,
  predictedHigh: 12,
  retries: 13,
  arrivalMs: 14,
  deadlineMs: 15,
  horizonMs: 16,
  demoted: 17,
  prefillsEndMs: 18,
  decode: 19,
} as const

/** `CallState` of native/workflow/graph.h. */
export const STATES = [
  'free',
  'revealed',
  'ready',
  'waiting',
  'prefilling',
  'transferring',
  'wait-decode',
  'decoding',
  'done',
  'failed',
  'cancelled',
  'rejected',
] as const
/** States from `prefilling` to `decoding` are leased. */
export const FIRST_LEASED = 4
export const FIRST_TERMINAL = 8
