import { describe } from '../errors.ts'
import type { Arrivals, NativeRun, RateStep } from '../native.ts'
import { hint } from '../report/near.ts'
import type { OptionReader } from './validate.ts'

export const ARRIVALS = ['poisson', 'fixed', 'trace', 'gamma', 'bursts'] as const

/** What shapes generated arrivals beside their rate; only what applies is present. */
export type ArrivalShape = Pick<NativeRun, 'cv' | 'burstSize' | 'burstGapMs' | 'rateStep'>

// The limits of native/workload/arrivals.h.
const CV = [0.01, 100] as const
const LARGEST_BURST = 1e6
const LONGEST_MS = 1e9
const FACTOR = [1e-3, 1e3] as const
const STEP = 'fromMs:lengthMs:factor'
const STEP_KEYS = ['fromMs', 'lengthMs', 'factor']

/** Whether replications of this process differ: recorded and fixed arrivals are always the same. */
export function isRandom(arrivals: Arrivals): boolean {
  return arrivals !== 'trace' && arrivals !== 'fixed'
}

/** Problems are left in the reader. Options of a process that was not chosen are refused, not ignored. */
export function readArrivalShape(reader: OptionReader, arrivals: Arrivals | undefined): ArrivalShape {
  const shape: ArrivalShape = {}
  const within = (name: string, fallback: number, low: number, high: number) =>
    reader.number(name, fallback, `a number from ${low} to ${high}`, (value) => value >= low && value <= high)
  for (const [name, owner] of [
    ['cv', 'gamma'],
    ['burstSize', 'bursts'],
    ['burstGapMs', 'bursts'],
  ] as const) {
    if (reader.given(name) && arrivals !== owner) reader.add(`\`${name}\` needs arrivals "${owner}"`, name)
  }
  if (arrivals === 'gamma') shape.cv = within('cv', 2, ...CV)
  if (arrivals === 'bursts') {
    shape.burstSize = within('burstSize', 20, 1, LARGEST_BURST)
    shape.burstGapMs = within('burstGapMs', 60, 0, LONGEST_MS)
  }
  const step = readStep(reader)
  if (step !== undefined) shape.rateStep = step
  if (step !== undefined && arrivals === 'trace') addStepProblem(reader)
  return shape
}

export function addStepProblem(reader: OptionReader): void {
  reader.add('`rateStep` has no meaning with the arrivals of the trace: leave one of them out', 'rateStep')
}

/** For people: `gamma arrivals (CV 2)`. */
export function arrivalsText(
  arrivals: Arrivals,
  { cv, burstSize, burstGapMs, rateStep }: ArrivalShape,
): string {
  const parts: string[] = []
  if (cv !== undefined) parts.push(`CV ${cv}`)
  if (burstSize !== undefined) parts.push(`mean size ${burstSize}, gap ${burstGapMs} ms`)
  if (rateStep !== undefined) {
    const { fromMs, lengthMs, factor } = rateStep
    parts.push(`rate × ${factor} from ${fromMs} ms for ${lengthMs} ms`)
  }
  return `${arrivals} arrivals${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`
}

function readStep(reader: OptionReader): RateStep | undefined {
  const given = reader.raw('rateStep')
  if (given === undefined) return undefined
  const fields = typeof given === 'string' ? splitStep(given) : given
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
    reader.add(`Expected ${STEP} or an object for \`rateStep\`, got ${describe(given)}`, 'rateStep')
    return undefined
  }
  const record = fields as Record<string, unknown>
  const before = reader.problems.count
  for (const name of Object.keys(record)) {
    if (STEP_KEYS.includes(name)) continue
    reader.add(`Unknown option \`rateStep.${name}\`${hint(name, STEP_KEYS)}`, `rateStep.${name}`)
  }
  const field = (name: string, low: number, high: number): number => {
    const value = record[name]
    if (typeof value === 'number' && value >= low && value <= high) return value
    const place = typeof given === 'string' ? 'rateStep' : `rateStep.${name}`
    const what = `${place === 'rateStep' ? `${name} ` : ''}a number from ${low} to ${high}`
    reader.wrong(what, place, value)
    return low
  }
  const step = {
    fromMs: field('fromMs', 0, LONGEST_MS),
    lengthMs: field('lengthMs', 0, LONGEST_MS),
    factor: field('factor', ...FACTOR),
  }
  return reader.problems.count === before ? step : undefined
}

function splitStep(text: string): Record<string, unknown> | undefined {
  const parts = text.split(':').map((part) => part.trim())
  if (parts.length !== 3 || parts.some((part) => !/^\d+(\.\d+)?$/.test(part))) return undefined
  const [fromMs, lengthMs, factor] = parts.map(Number)
  return { fromMs, lengthMs, factor }
}
