import type { CallTable } from '../../result/call-table.ts'
import { type LoadSeries, loadSeries } from '../../result/load-series.ts'
import { count, duration, percent, significant } from '../../units.ts'
import type { DataTable, LineFigure, Series } from '../figure.ts'

const PARTS = 480
/** More panels than this are summed up: the instances with the most waiting calls have their own. */
const MOST_PANELS = 16

export interface Load {
  series: LoadSeries
  table: CallTable
}

/** Undefined where nothing ran for any time. */
export function loadOf(table: CallTable): Load | undefined {
  const series = loadSeries(table, PARTS)
  return Number.isFinite(series.atNs[0]) && series.atNs[1]! > series.atNs[0]! ? { series, table } : undefined
}

export function queueFigure({ series, table }: Load, id: string): LineFigure {
  const { waiting, atNs } = series
  const { shown, note } = panels(waiting)
  const seconds = (atNs[1]! - atNs[0]!) / 1e6
  return {
    kind: 'line',
    id,
    title: 'Queue depth over time',
    caption: `Calls that are ready and not leased yet, by the instance that served them in the end; the mean of each ${duration(seconds)}. ${note}`,
    x: { label: 'Time', unit: 'ms' },
    y: { label: 'Waiting calls', unit: 'number', zero: true },
    series: shown.map((i) => panel(table, i, atNs, waiting[i]!)),
    isStep: false,
    hasPanels: true,
  }
}

export function queueTable({ series, table }: Load): DataTable {
  const { waiting, mostWaiting } = series
  return {
    head: ['Instance', 'Mean waiting', 'Most at once'],
    rows: table.instances.map((_, i) => [
      instanceName(table, i),
      significant(mean(waiting[i]!)),
      count(largest(mostWaiting[i]!)),
    ]),
  }
}

export function kvFigure({ series, table }: Load, id: string): LineFigure {
  const { kvTokens, atNs } = series
  const shares = kvTokens.map((tokens, i) => tokens.map((value) => value / table.instances[i]!.kvTokens))
  const { shown, note } = panels(shares)
  return {
    kind: 'line',
    id,
    title: 'KV cache in use over time',
    caption: `Share of each instance’s KV cache that its calls fill: the prompt from the lease on, the output as it grows. What engines reserve beyond that, and cached prefixes, are not counted. ${note}`,
    x: { label: 'Time', unit: 'ms' },
    y: { label: 'KV cache in use', unit: 'share', zero: true },
    series: shown.map((i) => panel(table, i, atNs, shares[i]!)),
    isStep: false,
    hasPanels: true,
  }
}

export function kvTable({ series, table }: Load): DataTable {
  return {
    head: ['Instance', 'KV cache, tokens', 'Mean in use', 'Peak in use'],
    rows: table.instances.map(({ kvTokens }, i) => {
      const own = series.kvTokens[i]!
      return [
        instanceName(table, i),
        count(kvTokens),
        percent(mean(own) / kvTokens),
        percent(largest(own) / kvTokens),
      ]
    }),
  }
}

export function instanceName({ instances }: CallTable, i: number): string {
  return `${i} ${instances[i]!.label}`
}

function panel(table: CallTable, i: number, atNs: Float64Array, y: Float64Array): Series {
  return {
    name: instanceName(table, i),
    x: Array.from(atNs, (ns) => Math.round(ns / 1e3) / 1e3),
    y: Array.from(y, (value) => Number(value.toPrecision(6))),
  }
}

/** The instances to show, in their order. */
function panels(columns: readonly Float64Array[]): { shown: number[]; note: string } {
  const all = [...columns.keys()]
  if (all.length <= MOST_PANELS) return { shown: all, note: '' }
  const means = columns.map(mean)
  const shown = all
    .toSorted((a, b) => means[b]! - means[a]! || a - b)
    .slice(0, MOST_PANELS)
    .sort((a, b) => a - b)
  return {
    shown,
    note: `The ${MOST_PANELS} of ${all.length} instances with the largest mean; all are in the table.`,
  }
}

function mean(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function largest(values: Float64Array): number {
  return values.reduce((most, value) => Math.max(most, value), 0)
}
