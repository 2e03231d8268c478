// Which random seeds are for choosing the tuner's constants (minGain, which alarms halve it, …), and which for reporting.
// Nothing that is reported was looked at when a constant was chosen: the two never share a stream (test/unit/tuning/bench-seeds.test.ts).

/** Of a part of the evidence: the seed of the i-th repetition, i from 0. Parts are 10^6 apart, sets 10^5. */
const PARTS = { scenario: 1, phases: 2, stationary: 3, doubled: 4 }
const SETS = { choose: 0, report: 1 }
export const MOST_REPETITIONS = 1000

/** @throws RangeError beyond MOST_REPETITIONS */
export function seedOf(set, part, i) {
  if (!(set in SETS) || !(part in PARTS)) throw new RangeError(`no such seeds: ${set}, ${part}`)
  if (!Number.isInteger(i) || i < 0 || i >= MOST_REPETITIONS)
    throw new RangeError(`Expected a repetition from 0 to ${MOST_REPETITIONS - 1}, got ${i}`)
  return PARTS[part] * 1_000_000 + SETS[set] * 100_000 + i
}

/** The seed of a phase's stream inside a scenario; `phase` from 0. */
export function streamOf(seed, phase) {
  if (!Number.isInteger(phase) || phase < 0 || phase >= 100)
    throw new RangeError(`Expected a phase, got ${phase}`)
  return seed * 100 + phase
}

export const SEED_SETS = Object.keys(SETS)
export const SEED_PARTS = Object.keys(PARTS)
