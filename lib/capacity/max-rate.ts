import type { ClusterConfig } from '../cluster/config.ts'
import { loadCluster } from '../cluster/load.ts'
import { LaxityError } from '../errors.ts'
import { overridesOf } from '../study/overrides.ts'
import {
  type Attainment,
  attainmentOf,
  type CapacityOptions,
  capacityStudy,
  checkRun,
  evaluate,
  meanOf,
  number,
  readDemand,
} from './evaluate.ts'

export interface MaxRateOptions extends Omit<CapacityOptions, 'rate'> {
  cluster: string | ClusterConfig
  /** Rates searched, workflows per second; defaults 0.01 and 1000. */
  from?: number | undefined
  to?: number | undefined
  /** Bisection ends when the rates that bracket the answer differ by this share or less; default 0.01. */
  tolerance?: number | undefined
}

export interface MaxRateResult {
  cluster: string
  target: number
  sloScale: number
  seeds: number
  tolerance: number
  /** The highest rate tested that meets the target, workflows per second. */
  ratePerS: number
  attainment: Attainment
  /** The lowest rate tested above it, which does not; undefined where `to` was reached. */
  failsAt: { ratePerS: number; attainment: Attainment } | undefined
  /**
   * More than half of a run at this rate came after its last arrival: the trace is too short to show that the cluster
   * keeps up, and a longer one (`repeatTrace`) would give a lower rate.
   */
  tooShort: boolean
  /** Everything tested, in order. */
  tested: { ratePerS: number; attainment: number }[]
}

/**
 * The highest rate at which a cluster meets an attainment: doubling from `from` until it fails, then bisection of the
 * bracket's logarithm. All rates share their seeds, so that the same arrivals come only faster. It finds a rate that meets
 * the target with a neighbour within the tolerance that does not; were attainment not monotone in the rate, there could
 * be others.
 *
 * @throws LaxityError ERR_LAXITY_INFEASIBLE where `from` does not meet it either; as `simulate`.
 */
export async function maxRate(options: MaxRateOptions): Promise<MaxRateResult> {
  const { cluster: given, from = 0.01, to = 1000, tolerance = 0.01, ...shared } = options
  const demand = readDemand(shared)
  const isRate = (value: number) => value > 0 && value <= 1e6
  number('from', from, 'a positive number up to 1000000', isRate)
  number('to', to, 'a positive number up to 1000000, above `from`', (value) => isRate(value) && value > from)
  number('tolerance', tolerance, 'a number from 0.0001 to 1', (value) => value >= 1e-4 && value <= 1)
  const cluster = await loadCluster(given, overridesOf(shared))
  const clusters = [{ label: cluster.name, cluster }]
  const studyAt = (rate: number) => capacityStudy(shared, clusters, rate, demand.seeds, demand.scale)
  await checkRun(studyAt(from))

  const tested: { ratePerS: number; attainment: number }[] = []
  const values = new Map<number, Float64Array>()
  const short = new Map<number, boolean>()
  const meets = async (rate: number): Promise<boolean> => {
    const [outcome] = await evaluate(shared, studyAt(rate))
    const mean = meanOf(outcome!.attainment)
    values.set(rate, outcome!.attainment)
    short.set(rate, 2000 * (shared.trace.workflows / rate) < meanOf(outcome!.makespanMs))
    tested.push({ ratePerS: rate, attainment: mean })
    return mean >= demand.target
  }
  const { low, high } = await bracket(from, to, tolerance, meets)
  if (low === undefined) {
    const got = tested[0]!.attainment
    const message = `Even at ${from} workflows per second ${cluster.name} reaches an attainment of ${got.toFixed(3)}, not ${demand.target}`
    throw new LaxityError('ERR_LAXITY_INFEASIBLE', message)
  }
  return {
    cluster: cluster.name,
    target: demand.target,
    sloScale: demand.scale,
    seeds: demand.seeds.length,
    tolerance,
    ratePerS: low,
    attainment: await attainmentOf(values.get(low)!),
    failsAt:
      high === undefined ? undefined : { ratePerS: high, attainment: await attainmentOf(values.get(high)!) },
    tooShort: short.get(low)!,
    tested,
  }
}

/**
 * Adjacent rates of which the lower meets and the upper does not: upper ≤ lower × (1 + tolerance). No lower one where
 * `from` fails, no upper one where `to` meets.
 */
export async function bracket(
  from: number,
  to: number,
  tolerance: number,
  meets: (rate: number) => Promise<boolean>,
): Promise<{ low: number | undefined; high: number | undefined }> {
  if (!(await meets(from))) return { low: undefined, high: from }
  let low = from
  let high: number | undefined
  while (high === undefined) {
    if (low === to) return { low, high: undefined }
    const next = Math.min(2 * low, to)
    if (await meets(next)) low = next
    else high = next
  }
  while (high > low * (1 + tolerance)) {
    const middle = Math.sqrt(low * high)
    if (!(middle > low && middle < high)) break
    if (await meets(middle)) low = middle
    else high = middle
  }
  return { low, high }
}
