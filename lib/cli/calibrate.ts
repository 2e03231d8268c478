import { describe, LaxityError } from '../errors.ts'
import type { CalibrationResult } from '../model/calibrate.ts'
import type { ErrorSummary } from '../model/calibration-file.ts'
import type { Context } from './context.ts'
import { type SetupFlags, setupOptions, warn } from './estimate.ts'

export interface CalibrateFlags extends SetupFlags {
  output?: string
  name?: string
}

export async function calibrateCommand(path: string, flags: CalibrateFlags, context: Context): Promise<void> {
  const output = flags.output ?? `${path.replace(/\.csv$/i, '')}.calibration.json`
  if (output === '' || output === path) {
    const message = `Expected another file name for \`output\`, got ${describe(output)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'output')
  }
  const [{ calibrate }, { writeCalibration }] = await Promise.all([
    import('../model/calibrate.ts'),
    import('../model/calibration-file.ts'),
  ])
  const result = await calibrate(path, { ...setupOptions(flags), name: flags.name })
  for (const warning of result.warnings) warn(warning)
  await writeCalibration(output, result.file)
  await context.print(flags.json ? calibrateJson(result, output) : await calibrateText(result, output))
}

/** The document of `calibrate --json`. */
export function calibrateJson(result: CalibrationResult, output: string): string {
  const { file, kind, rows, before, folds, onBound, warnings } = result
  const { id, base, stack, inSample, crossValidated } = file
  const document = {
    command: 'calibrate',
    rows,
    kind,
    calibration: id,
    base,
    stack,
    before,
    inSample,
    crossValidated,
    folds,
    onBound,
    warnings,
    output,
  }
  return `${JSON.stringify(document)}\n`
}

async function calibrateText({ file, ...result }: CalibrationResult, output: string): Promise<string> {
  const { table } = await import('../report/table.ts')
  const { scale, fixedMs, perSequenceMs } = file.stack
  const one = (value: number) => `${value.toFixed(1)} %`
  const row = (name: string, errors: ErrorSummary) => [
    name,
    one(errors.mape),
    one(errors.median),
    one(errors.bias),
  ]
  const errors = [row('before', result.before), row('in sample', file.inSample)]
  if (file.crossValidated !== null)
    errors.push(row(`cross-validated, ${result.folds} folds`, file.crossValidated))
  const setups = result.setups.map(({ model, gpu, spec }) => `${model} on ${spec.tensorParallel} × ${gpu}`)
  const lines = [
    `${result.rows} ${result.kind} rows: ${setups.slice(0, 4).join(', ')}${setups.length > 4 ? `, and ${setups.length - 4} more` : ''}`,
    '',
    `time = ${scale.toFixed(4)} × kernels + ${fixedMs.toFixed(3)} ms + ${perSequenceMs.toFixed(4)} ms × sequences`,
    '',
    table(['errors', 'mean', 'median', 'bias'], errors),
    '',
  ]
  if (file.crossValidated === null) lines.push('Too few rows to cross-validate: at least 6 are needed.')
  if (result.onBound.length > 0) {
    lines.push(
      `On a bound of the fit: ${result.onBound.join(', ')}. The rows do not determine it; measure more.`,
    )
  }
  lines.push(`Written to ${output}: use it as --calibration ${output}`)
  return `${lines.join('\n')}\n`
}
