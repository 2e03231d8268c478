import { describe, expected } from '../errors.ts'
import type { NativeTunerOptions } from '../native.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'
import { ascending, parseGrid } from './grid.ts'

export type Detector = 'welch' | 'ratio' | 'service' | 'load'

/** What to tune, and how carefully (docs/auto-tuner.md). */
export interface AutoTuneOptions {
  /** Any numeric parameter of the policy; default `alpha`. */
  parameter?: string | undefined
  /** Candidates: a list or `from:to:step`; default `0:1:0.1`. Needed for other parameters than alpha. */
  values?: readonly number[] | string | undefined
  /** How far back a sweep looks after a change; default 100,000. In a lasting regime it is up to four times that. */
  windowMs?: number | undefined
  /** In simulations: from a trigger to its result; default 1,000. Live it takes as long as it takes. */
  latencyMs?: number | undefined
  /** A sweep at least so often, whatever the detectors say; default 0 = never. */
  periodMs?: number | undefined
  /** Replays of the window per candidate; default 16. */
  replications?: number | undefined
  /** Least share of the P95 that a switch must save; default 0.04. */
  minGain?: number | undefined
  /** Largest p of the paired one-sided t over the replications; default 0.005. */
  significance?: number | undefined
  /** Share of the replications that must agree; default 0.8. */
  agreement?: number | undefined
  /** Of each direction of each calibrated detector, per stationary hour; default 0.5. */
  falseAlarmsPerHour?: number | undefined
  /** Stationary hours simulated to calibrate thresholds; default 8. */
  calibrationRuns?: number | undefined
  /** Level of the paper's Welch test; default 0.05. */
  welchLevel?: number | undefined
  /** Default: all. */
  detectors?: readonly Detector[] | undefined
  /** Of the replays' random streams; default 1. */
  seed?: number | undefined
}

export interface CheckedAutoTune {
  parameter: string
  native: NativeTunerOptions
}

const DETECTORS: readonly Detector[] = ['welch', 'ratio', 'service', 'load']

interface Range {
  fallback: number
  low: number
  high: number
  /** The least is excluded. */
  open?: boolean
  whole?: boolean
}

const NUMBERS = {
  windowMs: { fallback: 100_000, low: 1_000, high: 86_400_000 },
  latencyMs: { fallback: 1_000, low: 0, high: 86_400_000 },
  periodMs: { fallback: 0, low: 0, high: 1e12 },
  replications: { fallback: 16, low: 4, high: 400, whole: true },
  minGain: { fallback: 0.04, low: 0, high: 0.99 },
  significance: { fallback: 0.005, low: 0, high: 0.5, open: true },
  agreement: { fallback: 0.8, low: 0, high: 1 },
  falseAlarmsPerHour: { fallback: 0.5, low: 0, high: 100, open: true },
  calibrationRuns: { fallback: 8, low: 2, high: 400, whole: true },
  welchLevel: { fallback: 0.05, low: 0, high: 0.5, open: true },
  seed: { fallback: 1, low: 0, high: Number.MAX_SAFE_INTEGER, whole: true },
} as const satisfies Record<string, Range>

const KEYS = ['parameter', 'values', 'detectors', ...Object.keys(NUMBERS)]

/** Undefined where `given` is undefined, or wrong; problems are left in `problems`. `true`: the defaults. */
export function checkAutoTune(
  given: unknown,
  parameters: readonly string[],
  problems: Problems,
): CheckedAutoTune | undefined {
  if (given === undefined || given === false) return undefined
  const before = problems.count
  const add = (message: string, name: string) => problems.add('ERR_LAXITY_OPTION', message, name)
  if (given !== true && (typeof given !== 'object' || given === null || Array.isArray(given))) {
    add(expected('an object', 'autoTune', given), 'autoTune')
    return undefined
  }
  const options = (given === true ? {} : given) as Record<string, unknown>
  for (const name of Object.keys(options)) {
    const place = `autoTune.${name}`
    if (!KEYS.includes(name)) add(`Unknown option \`${place}\`${hint(name, KEYS)}`, place)
  }
  const numbers = {} as Record<keyof typeof NUMBERS, number>
  for (const [name, range] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, Range][]) {
    const value = options[name] ?? range.fallback
    const least = range.open ? 'above' : 'from'
    const what = `a ${range.whole ? 'whole ' : ''}number ${least} ${range.low} to ${range.high}`
    const good =
      typeof value === 'number' &&
      (range.open ? value > range.low : value >= range.low) &&
      value <= range.high &&
      (!range.whole || Number.isSafeInteger(value))
    if (!good) add(expected(what, `autoTune.${name}`, value), `autoTune.${name}`)
    numbers[name] = good ? value : range.fallback
  }
  if (numbers.latencyMs > numbers.windowMs)
    add('`autoTune.latencyMs` is longer than `autoTune.windowMs`', 'autoTune.latencyMs')
  const parameter = options.parameter ?? 'alpha'
  const id = typeof parameter === 'string' ? parameters.indexOf(parameter) : -1
  if (id < 0) {
    const message = `Unknown parameter ${describe(parameter)}${hint(parameter, parameters)}`
    add(message, 'autoTune.parameter')
  }
  const detectors = options.detectors ?? DETECTORS
  if (!Array.isArray(detectors) || detectors.some((d) => !DETECTORS.includes(d)))
    add(expected(`a list of ${DETECTORS.join(', ')}`, 'autoTune.detectors', detectors), 'autoTune.detectors')
  const values = readValues(options.values, parameter === 'alpha', problems)
  if (problems.count > before) return undefined
  const on = (name: Detector) => (detectors as Detector[]).includes(name)
  return {
    parameter: parameter as string,
    native: {
      parameter: id,
      values: Float64Array.from(values),
      ...numbers,
      welch: on('welch'),
      ratio: on('ratio'),
      service: on('service'),
      load: on('load'),
    },
  }
}

function readValues(given: unknown, alpha: boolean, problems: Problems): number[] {
  const place = 'autoTune.values'
  const wrong = (value: unknown): number[] => {
    problems.add('ERR_LAXITY_OPTION', expected('2 to 1000 numbers, or a grid', place, value), place)
    return []
  }
  if (given === undefined && !alpha) return wrong(given)
  try {
    const values =
      given === undefined || typeof given === 'string' ? parseGrid(given ?? '0:1:0.1', place) : given
    if (!Array.isArray(values) || values.some((v) => typeof v !== 'number' || !Number.isFinite(v)))
      return wrong(given)
    const sorted = ascending(values)
    return sorted.length >= 2 && sorted.length <= 1000 ? sorted : wrong(given)
  } catch (error) {
    problems.absorb(error)
    return []
  }
}
