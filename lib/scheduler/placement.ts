import { describe, LaxityError } from '../errors.ts'

/** The name that results and logs give to a placement written in JavaScript. */
export const JAVASCRIPT_PLACEMENT = 'javascript'

/** The call to be placed, as the scheduler knows it. Ids are indices into the trace's name tables. */
export interface PlacementCall {
  /** Number of its workflow, in the order in which workflows were opened. */
  workflow: number
  /** Index into `trace.tenants`. */
  tenant: number
  arrivedAtMs: number
  /** The workflow's absolute deadline; null where none was given. */
  deadlineMs: number | null
  /** Index into `trace.stages`. */
  stage: number
  /** Index into `trace.models`. */
  model: number
  promptTokens: number
  /** Mean of the predicted output, tokens per sequence. */
  predictedOutputTokens: number
  /** Parallel samples (n). */
  sequences: number
  /** Since it became ready; 0 unless it is placed a second time or waited in the shared queue. */
  waitedMs: number
  /** 0 = the first; grows with evictions, failures and lost instances. */
  attempt: number
}

/** An instance that may take the call, as the scheduler's ledger has it. */
export interface PlacementCandidate {
  /** Index into the cluster's instances: what the function returns. */
  instance: number
  /** Instances with one number share model, latency and limits, hence every estimate without a cached prefix. */
  hardwareClass: number
  /** Of this call here, without its cached prefix, alone. */
  prefillMs: number
  /** Prefill and predicted decode, alone: t_comp. */
  execMs: number
  /** Tokens of this call's prompt that are cached here. */
  cachedTokens: number
  /** Sum of execMs over the calls assigned here (OUT). */
  queuedWorkMs: number
  /** Calls waiting or leased here. */
  assigned: number
  /** Sequences waiting in its queue. */
  waiting: number
  /** Sequences leased. */
  leased: number
  /** Leases without a first token. */
  unprefilled: number
  /** What is left of the leased prefills, and the waiting ones. */
  backlogMs: number
  /** Tokens to prefill, waiting and leased. */
  backlogTokens: number
  /** Tokens reserved by leases. */
  reservedKv: number
  /** Tokens that the waiting calls will reserve. */
  waitingKv: number
  /** Capacity, tokens. */
  kvTokens: number
  /** Expected context of the leases, tokens. */
  contextTokens: number
  maxSequences: number
  /** Decayed share of time in prefill, 0 to 1 (policies 4.9). */
  utilisation: number
}

export interface PlacementView {
  nowMs: number
  call: PlacementCall
  /**
   * At least one, in the order of ties: of equals the first is what a native placement takes. At-reveal every instance
   * that can run the call, at-credit those with credit.
   */
  candidates: PlacementCandidate[]
}

/**
 * A placement for experiments: returns the `instance` of one of the candidates. It is called synchronously, must not
 * use the scheduler that calls it, and gives reproducible runs only if it depends on nothing but its view. Much slower
 * than a native placement: every call crosses into JavaScript with a fresh object.
 *
 * An exception, a promise, NaN or anything that is no candidate's index is ERR_LAXITY_PLACEMENT.
 */
export type PlacementFunction = (view: PlacementView) => number

/** Why the core gave up on a placement function. */
export interface PlacementFailure {
  /** True: `value` was thrown; false: it was returned. */
  threw: boolean
  value: unknown
}

/** A promise would be refused by the core, but its rejection would still end the process. */
export function guardPlacement(place: PlacementFunction): PlacementFunction {
  return (view) => {
    const answer: unknown = place(view)
    if (isThenable(answer)) {
      Promise.resolve(answer).catch(() => {})
      throw new TypeError('it returned a promise, and a placement must answer at once')
    }
    return answer as number
  }
}

export function placementError(failure: PlacementFailure | null | undefined): LaxityError {
  const threw = failure?.threw === true
  const value = failure?.value
  const message = threw
    ? `The placement function failed: ${textOf(value)}`
    : `Expected the index of a candidate from the placement function, got ${describe(value)}`
  return new LaxityError('ERR_LAXITY_PLACEMENT', message, 'placement', threw ? { cause: value } : {})
}

export function placementName(placement: string | PlacementFunction): string {
  return typeof placement === 'function' ? JAVASCRIPT_PLACEMENT : placement
}

function isThenable(value: unknown): boolean {
  return (
    (typeof value === 'object' || typeof value === 'function') &&
    value !== null &&
    typeof (value as { then?: unknown }).then === 'function'
  )
}

/** Of something thrown by foreign code, which may throw again when it is looked at. */
function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return String(thrown.message)
    return describe(thrown)
  } catch {
    return 'an error without a message'
  }
}
