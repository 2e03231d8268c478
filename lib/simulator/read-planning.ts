import type { NativeRun, Planning } from '../native.ts'
import { type Policy, plans, usesRemaining } from './policies.ts'
import type { OptionReader } from './validate.ts'

export const PLANNINGS = ['sync', 'async', 'async-paper'] as const
const MOST_LATENCY_MS = 1e9
const MOST_SIGMA = 10

/** `exact`, sigma of an estimate, or sigma of a predictor. */
export type ToldFuture = 'exact' | number | `predictor:${number}`

/** How plans arrive and what is declared of the time after a call. */
export interface CheckedPlanning {
  planning: Planning
  latencyMs: number
  /** Undefined = nothing is told. */
  remaining: ToldFuture | undefined
  timed: boolean
}

/** What depends on the policy is left to `completePlanning`; problems are left in the reader. */
export function readPlanning(reader: OptionReader): CheckedPlanning {
  const planning = reader.oneOf('planning', PLANNINGS, 'sync' as const)
  const latencyMs = reader.number('planLatencyMs', 0, PLAN_LATENCY, isPlanLatency)
  if (planning === 'sync' && latencyMs > 0) addLatencyProblem(reader)
  return {
    planning,
    latencyMs,
    remaining: readRemaining(reader, reader.raw('remaining')),
    timed: reader.boolean('timePlans'),
  }
}

export const PLAN_LATENCY = `a number of ms from 0 to ${MOST_LATENCY_MS}`

export function isPlanLatency(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MOST_LATENCY_MS
}

export function addLatencyProblem(reader: OptionReader): void {
  const message = '`planLatencyMs` needs asynchronous `planning`: a synchronous plan is never late'
  reader.add(message, 'planLatencyMs')
}

/** In its one form, an estimate of sigma 0 being exact; undefined where nothing, or nonsense, is given. */
export function readRemaining(reader: OptionReader, given: unknown): ToldFuture | undefined {
  if (given === undefined) return undefined
  if (given === 'exact' || given === 0) return 'exact'
  if (isSigma(given)) return given
  const predictor =
    typeof given === 'string' && PREDICTOR.test(given)
      ? Number(given.slice('predictor:'.length))
      : (given as { predictor?: unknown } | null)?.predictor
  if (isSigma(predictor)) return `predictor:${predictor}`
  const wanted = `exact, a sigma from 0 to ${MOST_SIGMA}, or predictor:sigma`
  reader.wrong(wanted, 'remaining', given)
  return undefined
}

const PREDICTOR = /^predictor:\d+(\.\d+)?$/

function isSigma(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MOST_SIGMA
}

/** For results. */
export function remainingText(told: ToldFuture | undefined): string | null {
  return told === undefined ? null : String(told)
}

function nativeRemaining(told: ToldFuture, seed: number): NonNullable<NativeRun['remaining']> {
  if (told === 'exact') return { sigma: 0, seed }
  if (typeof told === 'number') return { sigma: told, seed }
  return { sigma: Number(told.slice('predictor:'.length)), seed, predictor: true }
}

/** What needs a policy that has a use for it. */
export function checkPlanning(
  reader: OptionReader,
  { planning, remaining }: CheckedPlanning,
  policy: Policy,
  compat: string,
): void {
  if (planning !== 'sync' && !plans(policy))
    reader.add(
      '`planning` needs a policy that plans: placement "earliest-finish" or "kv-price" with binding "at-credit"',
      'planning',
    )
  if (remaining === undefined) return
  if (!usesRemaining(policy))
    reader.add(
      '`remaining` is what the orders "ratio", "level-laxity" and "level-ratio" use, and no other',
      'remaining',
    )
  if (compat !== 'none')
    reader.add(
      '`compat` reproduces a simulator in which callers declare nothing: leave out `remaining`',
      'remaining',
    )
}

/** The same for the core, but for `planning`, which is one of `pairs`. */
export function nativePlanning(
  { latencyMs, remaining, timed }: CheckedPlanning,
  seed: number,
): Pick<NativeRun, 'planLatencyMs' | 'timePlans' | 'remaining'> {
  return {
    ...(latencyMs > 0 && { planLatencyMs: latencyMs }),
    ...(timed && { timePlans: true }),
    ...(remaining !== undefined && { remaining: nativeRemaining(remaining, seed) }),
  }
}
