import { LaxityError } from '../errors.ts'
import type { ErrorSummary } from '../model/calibration-file.ts'
import { createEstimator, type Estimator } from '../model/estimate.ts'
import type { Context } from './context.ts'
import { oneLine } from './errors.ts'

export interface SetupFlags {
  model?: string
  gpu?: string
  tp?: unknown
  precision?: string
  kvPrecision?: string
  calibration?: string
  hardware?: string
  json?: boolean
}

export interface EstimateFlags extends SetupFlags {
  to?: string
  toTp?: unknown
  against?: string
  utilisation?: unknown
}

/** What the document shows; at 2,000 tokens of context for each sequence. */
const PREFILL_TOKENS = [512, 2048, 8192]
const BATCHES = [1, 16, 64]
const CONTEXT = 2000
const MOVED_TOKENS = 4096
const TIERS = ['host', 'disk', 'network'] as const

export interface Against {
  source: string
  kind: 'iteration' | 'serving'
  errors: ErrorSummary
  /** Largest errors first. */
  worst: { line: number; measuredMs: number; estimatedMs: number }[]
  warnings: string[]
}

export async function estimate(flags: EstimateFlags, context: Context): Promise<void> {
  const estimator = await createEstimator({
    ...setupOptions(flags),
    utilisation: flags.utilisation as number | undefined,
  })
  const target =
    flags.to === undefined && flags.toTp === undefined
      ? estimator
      : await createEstimator({
          ...setupOptions(flags),
          gpu: flags.to ?? (flags.gpu as string),
          tp: (flags.toTp ?? flags.tp) as number | undefined,
        })
  const against = flags.against === undefined ? undefined : await compare(flags.against, flags)
  for (const warning of against?.warnings ?? []) warn(warning)
  const document = estimateDocument(estimator, target, against)
  await context.print(flags.json ? `${JSON.stringify(document)}\n` : await estimateText(estimator, document))
}

/** The options that estimate and calibrate share, unchecked. */
export function setupOptions(flags: SetupFlags) {
  const { model, gpu, tp, precision, kvPrecision, calibration, hardware } = flags
  return {
    model: model as string,
    gpu: gpu as string,
    tp: tp as number | undefined,
    precision: precision as 'bf16' | undefined,
    kvPrecision: kvPrecision as 'bf16' | undefined,
    calibration,
    hardware,
  }
}

export function warn(text: string): void {
  process.stderr.write(`${oneLine(`laxity: warning: ${text}`)}\n`)
}

export type EstimateDocument = ReturnType<typeof estimateDocument>

/** The document of `estimate --json`. Throws ERR_LAXITY_MEMORY where the model does not fit. */
export function estimateDocument(estimator: Estimator, target: Estimator, against?: Against) {
  const { setup } = estimator
  const prefillMs = PREFILL_TOKENS.map((newTokens) => [newTokens, estimator.prefillMs({ newTokens })])
  const decodeMs = BATCHES.map((batch) => [batch, estimator.decodeMs(batch, batch * CONTEXT)])
  const prefillOfMoved = estimator.prefillMs({ newTokens: MOVED_TOKENS })
  return {
    command: 'estimate',
    model: estimator.model,
    gpu: estimator.gpu,
    tp: estimator.tp,
    precision: setup.spec.weights,
    calibration: estimator.calibration,
    prefillMs: Object.fromEntries(prefillMs) as Record<string, number>,
    decodeMs: Object.fromEntries(decodeMs) as Record<string, number>,
    kvCapacityTokens: estimator.kvCapacityTokens,
    kvBytesPerToken: estimator.kvBytesPerToken,
    weightBytes: estimator.weightBytes,
    transfer: {
      tokens: MOVED_TOKENS,
      to: { gpu: target.gpu, tp: target.tp },
      afterPrefillMs: estimator.transferMs(MOVED_TOKENS, { to: target }),
      overlappedMs: estimator.transferMs(MOVED_TOKENS, { to: target, overlappedWithMs: prefillOfMoved }),
    },
    load: {
      tokens: MOVED_TOKENS,
      ...Object.fromEntries(TIERS.map((tier) => [`${tier}Ms`, estimator.loadMs(MOVED_TOKENS, tier)])),
    } as { tokens: number; hostMs: number; diskMs: number; networkMs: number },
    errorBand: estimator.errorBand,
    transferred: estimator.transferred,
    ...(against !== undefined && { against }),
  }
}

async function compare(path: string, flags: EstimateFlags): Promise<Against> {
  const [{ readRows, unitWarning }, { errorsOf, featuresOf }] = await Promise.all([
    import('../model/rows.ts'),
    import('../model/features.ts'),
  ])
  const rows = await readRows(path)
  const { measuredMs, estimatedMs } = await featuresOf(rows, setupOptions(flags))
  const warning = unitWarning(path, measuredMs, estimatedMs)
  const size = (row: number) => Math.abs(estimatedMs[row]! / measuredMs[row]! - 1)
  const worst = Array.from(measuredMs, (_, row) => row)
    .sort((a, b) => size(b) - size(a) || a - b)
    .slice(0, 5)
  return {
    source: path,
    kind: rows.kind,
    errors: errorsOf(estimatedMs, measuredMs),
    worst: worst.map((row) => ({
      line: rows.table.line[row]!,
      measuredMs: measuredMs[row]!,
      estimatedMs: estimatedMs[row]!,
    })),
    warnings: warning === undefined ? [] : [warning],
  }
}

async function estimateText(estimator: Estimator, document: EstimateDocument): Promise<string> {
  const [{ table }, { duration, percent, significant }, { kvText }] = await Promise.all([
    import('../report/table.ts'),
    import('../report/units.ts'),
    import('../model/estimate.ts'),
  ])
  const { model, gpu, tp, calibration, transfer, load, against } = document
  const rows = [
    ...PREFILL_TOKENS.map((n) => [`prefill of ${n} tokens`, duration(document.prefillMs[n]!)]),
    ...BATCHES.map((b) => [`decode step, ${b} × ${CONTEXT} tokens`, duration(document.decodeMs[b]!)]),
    [`KV cache`, kvText(estimator)],
    [`KV per token`, `${significant(document.kvBytesPerToken / 1024)} KiB`],
    [
      `KV of ${transfer.tokens} tokens to ${transfer.to.gpu} × ${transfer.to.tp}`,
      duration(transfer.afterPrefillMs),
    ],
    [`  the same, sent layer by layer during its prefill`, duration(transfer.overlappedMs)],
    [`KV of ${load.tokens} tokens from host memory`, duration(load.hostMs)],
    [`  from a local disk`, duration(load.diskMs)],
    [`  from another host`, duration(load.networkMs)],
  ]
  const parts = [
    `${model} on ${tp} × ${gpu}, ${estimator.setup.spec.weights} (${calibration})`,
    '',
    table(['', 'estimate'], rows),
    '',
    `Expected error of a time per output token: ±${percent(document.errorBand)}. Time to first token is not claimed.`,
    ...document.transferred.map((text) => `Transferred: ${text}.`),
  ]
  if (against !== undefined) parts.push('', againstText(against, table))
  return `${parts.join('\n')}\n`
}

function againstText(
  { source, kind, errors, worst }: Against,
  table: (head: string[], rows: string[][]) => string,
): string {
  const one = (value: number) => `${value.toFixed(1)} %`
  const what = kind === 'serving' ? 'serving rows (time per output token)' : 'iterations'
  const rows = worst.map(({ line, measuredMs, estimatedMs }) => [
    `${source}:${line}`,
    measuredMs.toFixed(3),
    estimatedMs.toFixed(3),
    one(100 * (estimatedMs / measuredMs - 1)),
  ])
  return [
    `Against ${errors.rows} ${what} of ${source}: mean error ${one(errors.mape)}, median ${one(errors.median)}, bias ${one(errors.bias)}`,
    '',
    table(['largest errors', 'measured ms', 'estimated ms', 'error'], rows),
  ].join('\n')
}

/** Says at once what is missing, instead of a message about an undefined option. */
export function requireFlags(flags: SetupFlags): void {
  for (const name of ['model', 'gpu'] as const) {
    if (flags[name] !== undefined) continue
    throw new LaxityError('ERR_LAXITY_OPTION', `\`${name}\` is needed`, name)
  }
}
