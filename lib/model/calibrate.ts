import { LaxityError } from '../errors.ts'
import type { NativeStack } from '../native.ts'
import type { CalibrationFile, ErrorSummary } from './calibration-file.ts'
import { errorsOf, type Features, featuresOf } from './features.ts'
import { calibrationId } from './hardware.ts'
import { fitRobust } from './robust-fit.ts'
import { readRows, unitWarning } from './rows.ts'
import type { Setup, SetupOptions } from './setup.ts'

export interface CalibrateOptions extends Partial<SetupOptions> {
  /** Name of the calibration; default: that of the rows' file. */
  name?: string | undefined
}

export interface CalibrationResult {
  file: CalibrationFile
  kind: 'iteration' | 'serving'
  rows: number
  setups: readonly Setup[]
  /** Under the stack that the rows started from (`default` unless another was given). */
  before: ErrorSummary
  folds: number
  /** Parameters that lie on a bound of the fit: the rows do not determine them, or the model does not suit. */
  onBound: string[]
  warnings: string[]
}

const NAMES = ['scale', 'fixedMs', 'perSequenceMs'] as const
const LOW = [0.2, 0, 0]
const HIGH = [5, 60, 1.5]
const STARTS = [
  [1, 1, 0.02],
  [1.5, 5, 0.1],
  [0.9, 0.1, 0.005],
]
/** Three numbers need three rows; fewer than twice that say nothing about their error. */
const LEAST_ROWS = 3
const LEAST_VALIDATED = 6
const FOLDS = 5
const SOFTNESS = 0.2
/** The fit works on numbers of like size. */
const UNITS = [1, 1, 0.02]

/**
 * Fits the three serving-stack numbers to measured rows: least soft-L1 loss of ln(estimate / measured). Cross-validated
 * in 5 folds (each row in one, by a fixed shuffle), or leaving out one row each below 25.
 *
 * @throws LaxityError as readRows and featuresOf; ERR_LAXITY_EMPTY with fewer than 3 rows.
 */
export async function calibrate(path: string, options: CalibrateOptions = {}): Promise<CalibrationResult> {
  const measured = await readRows(path)
  const { rows, source } = measured.table
  if (rows < LEAST_ROWS) {
    const message = `${rows} row${rows === 1 ? '' : 's'}: three numbers need at least ${LEAST_ROWS}`
    throw new LaxityError('ERR_LAXITY_EMPTY', message, source)
  }
  const { name, ...setup } = options
  const features = await featuresOf(measured, setup)
  const warning = unitWarning(source, features.measuredMs, features.estimatedMs)
  const all = indices(rows)
  const stack = fitStack(features, all)
  const folds = foldsOf(rows)
  return {
    file: {
      laxity: 'calibration',
      version: 1,
      id: `${calibrationId}+${name ?? nameOf(path)}`,
      base: calibrationId,
      stack,
      inSample: errorsOf(apply(stack, features), features.measuredMs),
      crossValidated: folds.length === 0 ? null : crossValidate(features, folds),
    },
    kind: measured.kind,
    rows,
    setups: features.setups,
    before: errorsOf(features.estimatedMs, features.measuredMs),
    folds: folds.length,
    onBound: NAMES.filter((key, i) => near(stack[key], LOW[i]!) || near(stack[key], HIGH[i]!)),
    warnings: warning === undefined ? [] : [warning],
  }
}

/** The three numbers for some rows; `low` and `high` bound scale, fixed and per-sequence ms. */
export function fitStack(
  { kernelMs, sequences, measuredMs }: Pick<Features, 'kernelMs' | 'sequences' | 'measuredMs'>,
  rows: readonly number[],
  bounds: { low: readonly number[]; high: readonly number[] } = { low: LOW, high: HIGH },
): NativeStack {
  const times = new Float64Array(rows.length)
  const inUnits = (values: readonly number[]) => values.map((value, i) => value / UNITS[i]!)
  const { parameters } = fitRobust({
    starts: STARTS.map(inUnits),
    low: inUnits(bounds.low),
    high: inUnits(bounds.high),
    logarithmic: false,
    measured: Float64Array.from(rows, (row) => measuredMs[row]!),
    softness: SOFTNESS,
    model: ([scale, fixed, perSequence]) => {
      for (const [i, row] of rows.entries()) {
        const time = scale! * kernelMs[row]! + fixed! + perSequence! * UNITS[2]! * sequences[row]!
        times[i] = Math.max(time, 1e-9) // trial values below a bound, while a derivative is taken
      }
      return times
    },
  })
  return { scale: parameters[0]!, fixedMs: parameters[1]!, perSequenceMs: parameters[2]! * UNITS[2]! }
}

export function apply(
  stack: NativeStack,
  { kernelMs, sequences }: Pick<Features, 'kernelMs' | 'sequences'>,
): Float64Array {
  return kernelMs.map((ms, row) => stack.scale * ms + stack.fixedMs + stack.perSequenceMs * sequences[row]!)
}

function crossValidate(features: Features, folds: readonly (readonly number[])[]): ErrorSummary {
  const estimated = new Float64Array(features.measuredMs.length)
  for (const fold of folds) {
    const left = new Set(fold)
    const stack = fitStack(
      features,
      indices(estimated.length).filter((row) => !left.has(row)),
    )
    const times = apply(stack, features)
    for (const row of fold) estimated[row] = times[row]!
  }
  return errorsOf(estimated, features.measuredMs)
}

/** A shuffle by a fixed linear congruential sequence, dealt into folds: the same for the same number of rows. */
function foldsOf(rows: number): number[][] {
  if (rows < LEAST_VALIDATED) return []
  const count = rows < 5 * FOLDS ? rows : FOLDS
  const order = indices(rows)
  let state = 1
  for (let i = rows - 1; i > 0; i--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const j = Math.floor((state / 2 ** 32) * (i + 1))
    ;[order[i], order[j]] = [order[j]!, order[i]!]
  }
  return Array.from({ length: count }, (_, fold) => order.filter((_, at) => at % count === fold))
}

function indices(length: number): number[] {
  return Array.from({ length }, (_, i) => i)
}

function near(value: number, bound: number): boolean {
  return Math.abs(value - bound) <= 1e-6 * Math.max(1, Math.abs(bound))
}

function nameOf(path: string): string {
  return path.replace(/^.*[/\\]/, '').replace(/\.csv$/i, '')
}
