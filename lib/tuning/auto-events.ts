/** Why a sweep was made; the order is that of `TunerReason` in native/tuner/tuner.h. */
export const TUNING_REASONS = [
  'initial',
  'welch',
  'ratio-up',
  'ratio-down',
  'service-up',
  'service-down',
  'rate-up',
  'rate-down',
  'work',
  'instance',
  'follow-up',
  'period',
] as const

export type TuningReason = (typeof TUNING_REASONS)[number]

/** What the auto-tuner saw or did, with its evidence. */
export interface TuningEvent {
  /** Ms on the clock of the run or the scheduler. */
  atMs: number
  /** A detector's alarm; or a sweep's answer: the present value stays, or another one is in force from now on. */
  kind: 'trigger' | 'kept' | 'applied'
  reason: TuningReason
  /** Of `service-*` and `instance`: which. */
  instance: number | undefined
  /** Of triggers: the detector's statistic and the threshold it passed (`welch`: t, and the level that `p` passed). */
  statistic: number
  threshold: number
  /** Value in force, and the one that the sweep found best. */
  from: number
  to: number
  /** Share of the P95 that `to` saves in replays of the recorded window; its paired one-sided p. */
  gain: number
  p: number
  /** Of `from`: its P95 above that of the best value in hindsight of that window, as a share. */
  regret: number
}

const COLUMNS = 11
const KINDS = ['trigger', 'kept', 'applied'] as const

export function tuningEvents(rows: Float64Array): TuningEvent[] {
  const events: TuningEvent[] = []
  for (let at = 0; at + COLUMNS <= rows.length; at += COLUMNS) {
    const [atMs, kind, reason, instance, statistic, threshold, from, to, gain, p, regret] = rows.subarray(
      at,
      at + COLUMNS,
    ) as unknown as number[]
    events.push({
      atMs: atMs!,
      kind: KINDS[kind!]!,
      reason: TUNING_REASONS[reason!]!,
      instance: instance! < 0 ? undefined : instance!,
      statistic: statistic!,
      threshold: threshold!,
      from: from!,
      to: to!,
      gain: gain!,
      p: p!,
      regret: regret!,
    })
  }
  return events
}
