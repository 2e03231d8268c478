import type { Attainment, CapacityOptions } from '../capacity/evaluate.ts'
import { LaxityError } from '../errors.ts'
import { table } from '../report/table.ts'
import { checkUrl } from '../study/redis.ts'
import type { Context } from './context.ts'
import { type Flags, runOptions } from './options.ts'
import { studyReporter } from './study-progress.ts'
import { openTrace } from './trace.ts'

export interface CapacityFlags extends Flags {
  prices?: string
  seeds?: unknown
  redis?: string
  repeat?: unknown
  attainment?: unknown
  from?: unknown
  to?: unknown
  tolerance?: unknown
  instances?: unknown
}

export async function cheapestCommand(
  argument: string,
  flags: CapacityFlags,
  context: Context,
): Promise<void> {
  if (flags.prices === undefined) throw new LaxityError('ERR_LAXITY_OPTION', '`prices` is needed', 'prices')
  const [{ readPrices }, { cheapest }] = await Promise.all([
    import('../capacity/prices.ts'),
    import('../capacity/cheapest.ts'),
  ])
  const prices = await readPrices(flags.prices)
  const result = await cheapest({ ...(await shared(argument, flags, context)), prices })
  if (flags.json) return context.print(document('cheapest', result))
  const { currency, pricePerHour, counts, candidates, rejected, unfit, runs } = result
  const rows = Object.entries(counts).map(([name, count]) => [name, String(count)])
  const lines = [
    `${result.cluster.name}: ${pricePerHour} ${currency} per hour`.replace('  ', ' '),
    '',
    table(['offer', 'instances'], rows),
    '',
    `Attainment ${shareText(result.attainment)} at SLO scale ${result.sloScale}, ${result.target} asked for, ${result.seeds} seeds.`,
    `Of ${candidates} clusters the ${rejected + unfit} before it by price were tested and do not do (${runs} runs in all).`,
  ]
  await context.print(`${lines.join('\n')}\n`)
}

export async function maxRateCommand(
  argument: string,
  flags: CapacityFlags,
  context: Context,
): Promise<void> {
  if (flags.rate !== undefined) {
    const message = '`rate` is what is searched: see `--from` and `--to`'
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'rate')
  }
  const { maxRate } = await import('../capacity/max-rate.ts')
  const result = await maxRate({
    ...(await shared(argument, flags, context)),
    cluster: flags.cluster,
    from: flags.from as number | undefined,
    to: flags.to as number | undefined,
    tolerance: flags.tolerance as number | undefined,
  })
  if (flags.json) return context.print(document('max-rate', result))
  const { ratePerS, failsAt } = result
  const rows = [...result.tested]
    .sort((a, b) => a.ratePerS - b.ratePerS)
    .map((one) => [one.ratePerS.toPrecision(5), one.attainment.toFixed(4)])
  const limit =
    failsAt === undefined
      ? 'It was the highest rate searched: see --to.'
      : `At ${failsAt.ratePerS.toPrecision(5)} it is ${shareText(failsAt.attainment)}.`
  const lines = [
    `${result.cluster}: ${ratePerS.toPrecision(5)} workflows per second, attainment ${shareText(result.attainment)} at SLO scale ${result.sloScale}, ${result.target} asked for, ${result.seeds} seeds`,
    limit,
    ...(result.tooShort
      ? [
          'More than half of a run came after its last arrival: the trace is too short to show a steady state. See --repeat.',
        ]
      : []),
    '',
    table(['rate', 'attainment'], rows),
  ]
  await context.print(`${lines.join('\n')}\n`)
}

export async function splitCommand(argument: string, flags: CapacityFlags, context: Context): Promise<void> {
  const { split } = await import('../capacity/split.ts')
  const result = await split({
    ...(await shared(argument, flags, context)),
    cluster: flags.cluster,
    instances: flags.instances as number,
  })
  if (flags.json) return context.print(document('split', result))
  const { best, indistinguishable } = result
  const rows = result.points.map((point) => [
    `${point.prefill}:${point.decode}`,
    shareText(point.attainment),
    `${(point.p95Ms / 1000).toFixed(2)} s`,
    point === best ? 'best' : indistinguishable.includes(point.prefill) ? 'as good' : '',
  ])
  await context.print(`${table(['prefill:decode', 'attainment', 'mean P95', ''], rows)}\n`)
}

/** Trace and options that every question has. */
async function shared(argument: string, flags: CapacityFlags, context: Context): Promise<CapacityOptions> {
  if (flags.redis !== undefined) checkUrl(flags.redis)
  const { repeatTrace } = await import('../capacity/repeat.ts')
  const trace = repeatTrace(
    await openTrace(argument, context.signal, { format: flags.format }),
    (flags.repeat ?? 1) as number,
  )
  return {
    ...runOptions(flags),
    trace,
    alpha: flags.alpha as number | undefined,
    seeds: flags.seeds as number | undefined,
    attainment: flags.attainment as number | undefined,
    redis: flags.redis,
    signal: context.signal,
    onNotice: studyReporter().notice,
  }
}

function document(question: string, result: object): string {
  return `${JSON.stringify({ command: 'capacity', question, ...result })}\n`
}

function shareText({ mean, ci95 }: Attainment): string {
  const share = (value: number) => value.toFixed(4)
  return ci95 === null ? share(mean) : `${share(mean)} (95 % interval ${share(ci95[0])} to ${share(ci95[1])})`
}
