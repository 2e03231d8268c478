import { z } from 'zod'
import type { CalibrationFile } from './calibration-file.ts'

function number(low: number, high: number): z.ZodNumber {
  const what = `a number from ${low} to ${high}`
  return z.number(what).min(low, what).max(high, what)
}

const errors = z.object({
  rows: number(1, 1e9),
  mape: number(0, 1e9),
  median: number(0, 1e9),
  bias: number(-1e9, 1e9),
})

export const calibrationSchema = z.strictObject(
  {
    laxity: z.literal('calibration', '"calibration"'),
    version: z.literal(1, '1'),
    id: z.string('a string').min(1, 'a name').max(200, 'a name'),
    base: z.string('a string'),
    stack: z.strictObject(
      { scale: number(0.01, 100), fixedMs: number(0, 10_000), perSequenceMs: number(0, 100) },
      'an object',
    ),
    inSample: errors,
    crossValidated: errors.nullable(),
  },
  'an object',
) satisfies z.ZodType<CalibrationFile>
