/** Counters and histograms as plain values. No ids of workflows, sessions or users: cardinality stays bounded. */

/** Upper edges in seconds, one decade in three steps. */
const EDGES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500]
const FINE_EDGES = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 0.1]
const RATIO_EDGES = [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 50, 100]

export interface HistogramSnapshot {
  /** Upper edges; one more count than edges. */
  edges: readonly number[]
  counts: number[]
  count: number
  sum: number
}

export class Histogram {
  readonly #edges: readonly number[]
  readonly #counts: Float64Array
  #count = 0
  #sum = 0

  constructor(edges: readonly number[]) {
    this.#edges = edges
    this.#counts = new Float64Array(edges.length + 1)
  }

  observe(value: number): void {
    let i = 0
    while (i < this.#edges.length && value > this.#edges[i]!) i += 1
    this.#counts[i]! += 1
    this.#count += 1
    this.#sum += value
  }

  snapshot(): HistogramSnapshot {
    return { edges: this.#edges, counts: Array.from(this.#counts), count: this.#count, sum: this.#sum }
  }
}

export class Metrics {
  readonly queueWait = new Histogram(EDGES)
  readonly ttft = new Histogram(EDGES)
  readonly predictedTtft = new Histogram(EDGES)
  readonly tpot = new Histogram(EDGES)
  readonly decision = new Histogram(FINE_EDGES)
  readonly planDuration = new Histogram(FINE_EDGES)
  readonly workflowTime = new Histogram(EDGES)
  readonly ratio = new Histogram(RATIO_EDGES)
  /** Leases by policy and reason. */
  readonly leases = new Map<string, Map<string, number>>()
  readonly rejections = new Map<string, number>()
  readonly outcomes = new Map<string, number>()
  calls = 0
  retries = 0
  retriesExhausted = 0
  doubleCloses = 0
  lost = 0
  orphans = 0
  deadlineMisses = 0
  workflows = 0
  telemetryStale = 0
  telemetrySuspicious = 0

  leased(policy: string, reason: string): void {
    let reasons = this.leases.get(policy)
    if (reasons === undefined) {
      reasons = new Map()
      this.leases.set(policy, reasons)
    }
    this.count(reasons, reason)
  }

  count(map: Map<string, number>, name: string): void {
    map.set(name, (map.get(name) ?? 0) + 1)
  }
}

/** One metric: a value per set of labels, or one histogram. Names as the peers have them. */
export type Metric =
  | {
      name: string
      help: string
      kind: 'counter' | 'gauge'
      labels: readonly string[]
      values: { labels: Record<string, string>; value: number }[]
    }
  | { name: string; help: string; kind: 'histogram'; histogram: HistogramSnapshot }
