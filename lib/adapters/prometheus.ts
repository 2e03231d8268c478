import { createRequire } from 'node:module'
import { LaxityError } from '../errors.ts'
import type { Metric } from '../scheduler/metrics.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'

/** What is used of prom-client 15; it is an optional peer, loaded only here. */
interface PromClient {
  Gauge: new (config: Record<string, unknown>) => Settable
  Counter: new (config: Record<string, unknown>) => Settable & { inc(...args: unknown[]): void }
  register: Registry
}
interface Settable {
  set?(labels: Record<string, string>, value: number): void
  inc(labels: Record<string, string>, value: number): void
  reset(): void
}
interface Registry {
  registerMetric(metric: unknown): void
}

/**
 * Registers a scheduler's metrics with prom-client: read from the scheduler whenever the registry is scraped.
 *
 * @param client the `prom-client` module; left out, it is loaded
 * @throws LaxityError ERR_LAXITY_OPTION where prom-client is not installed
 */
export function registerMetrics(scheduler: Scheduler, registry?: unknown, client?: unknown): void {
  const prom = (client ?? load()) as PromClient
  const registers = [registry ?? prom.register]
  let latest = new Map<string, Metric>()
  let scraped = -1
  const read = (name: string) => {
    // One look at the scheduler per scrape, however many metrics there are.
    const turn = performance.now()
    if (turn - scraped > 1) latest = new Map(scheduler.metrics().map((metric) => [metric.name, metric]))
    scraped = turn
    return latest.get(name)
  }
  for (const metric of scheduler.metrics()) {
    const { name, help, kind } = metric
    if (kind === 'histogram') {
      ;(registers[0] as Registry).registerMetric(new HistogramView(name, help, () => read(name)))
      continue
    }
    const config = {
      name,
      help,
      labelNames: [...metric.labels],
      registers,
      collect(this: Settable) {
        const now = read(name)
        if (now === undefined || now.kind === 'histogram') return
        this.reset()
        for (const { labels, value } of now.values) {
          if (kind === 'gauge') this.set!(labels, value)
          else this.inc(labels, value)
        }
      },
    }
    void (kind === 'gauge' ? new prom.Gauge(config) : new prom.Counter(config))
  }
}

/** A histogram that is counted elsewhere, in the form in which prom-client's registry asks for it. */
class HistogramView {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly aggregator = 'sum'
  readonly labelNames: string[] = []
  readonly #read: () => Metric | undefined

  constructor(name: string, help: string, read: () => Metric | undefined) {
    this.name = name
    this.help = help
    this.#read = read
  }

  async get(): Promise<object> {
    const { name, help, type, aggregator } = this
    const values: object[] = []
    const metric = this.#read()
    if (metric?.kind === 'histogram') {
      const { edges, counts, count, sum } = metric.histogram
      let below = 0
      for (const [i, le] of edges.entries()) {
        below += counts[i]!
        values.push({ labels: { le }, value: below, metricName: `${name}_bucket` })
      }
      values.push({ labels: { le: '+Inf' }, value: count, metricName: `${name}_bucket` })
      values.push({ labels: {}, value: sum, metricName: `${name}_sum` })
      values.push({ labels: {}, value: count, metricName: `${name}_count` })
    }
    return { name, help, type, aggregator, values }
  }

  reset(): void {}
}

function load(): unknown {
  try {
    return createRequire(import.meta.url)('prom-client')
  } catch (cause) {
    throw new LaxityError('ERR_LAXITY_OPTION', 'Install prom-client to register metrics with it', 'client', {
      cause,
    })
  }
}
