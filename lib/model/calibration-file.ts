import { rename, rm, writeFile } from 'node:fs/promises'
import { LaxityError } from '../errors.ts'
import { readJsonFile } from '../json-file.ts'
import type { NativeStack } from '../native.ts'
import { Problems } from '../report/problems.ts'
import { calibrationId, findStack, stackIds } from './hardware.ts'

/** Mean and median absolute, and mean signed error of estimates, percent. */
export interface ErrorSummary {
  rows: number
  mape: number
  median: number
  /** Mean of estimate / measured − 1. */
  bias: number
}

/** What `laxity calibrate` writes and `--calibration` reads. */
export interface CalibrationFile {
  laxity: 'calibration'
  version: 1
  id: string
  /** Kernel constants it stands on. */
  base: string
  stack: NativeStack
  inSample: ErrorSummary
  /** Of rows that were left out of the fit; null where there were too few. */
  crossValidated: ErrorSummary | null
}

export interface Calibration {
  id: string
  stack: NativeStack
  /** Of a user's own rows; undefined for built-in ones. */
  relativeError: number | undefined
}

/** Of a stack by its name. @throws LaxityError ERR_LAXITY_OPTION */
export function namedCalibration(stack = 'default'): Calibration {
  const id = stack === 'default' ? calibrationId : `${calibrationId}+${stack}`
  return { id, stack: findStack(stack), relativeError: undefined }
}

/** A stack's name (`default`, `vllm`, `trtllm`, `sglang`, `none`) or the path of a calibration file. */
export async function loadCalibration(calibration: string | undefined): Promise<Calibration> {
  if (calibration === undefined || stackIds.includes(calibration) || !/[./\\]/.test(calibration))
    return namedCalibration(calibration)
  const content = await readJsonFile(calibration, 'a calibration file')
  const [{ calibrationSchema }, { reportIssues }] = await Promise.all([
    import('./calibration-schema.ts'),
    import('./issues.ts'),
  ])
  const problems = new Problems()
  reportIssues(calibrationSchema, content, `${calibration}: `, problems)
  problems.throwIfAny()
  const { id, base, stack, inSample, crossValidated } = content as CalibrationFile
  if (base !== calibrationId) {
    const message = `The calibration stands on ${base}, this version has ${calibrationId}: calibrate again`
    throw new LaxityError('ERR_LAXITY_FIELD', message, calibration)
  }
  return { id, stack, relativeError: (crossValidated ?? inSample).mape / 100 }
}

/** Nothing is left behind on failure. */
export async function writeCalibration(path: string, file: CalibrationFile): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`
  try {
    await writeFile(temporary, `${JSON.stringify(file, null, 2)}\n`)
    await rename(temporary, path)
  } catch (cause) {
    await rm(temporary, { force: true })
    const { code, message } = cause as NodeJS.ErrnoException
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot be written (${code ?? message})`, path, { cause })
  }
}
