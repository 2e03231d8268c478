// What the page hands to its script: plain JSON. Times are in ms.

/** How values of an axis are written. */
export type Unit = 'ms' | 'share' | 'number' | 'tokens'

export interface Axis {
  label: string
  unit: Unit
  /** The axis begins at 0. */
  zero?: boolean
}

export interface Series {
  name: string
  x: readonly number[]
  /** null = not finite. */
  y: readonly (number | null)[]
  /** Both ends of an interval around y. */
  low?: readonly (number | null)[]
  high?: readonly (number | null)[]
}

interface Common {
  id: string
  /** Plain text; the page numbers figures itself. */
  title: string
  /** What is shown, how it was computed. */
  caption: string
}

export interface LineFigure extends Common {
  kind: 'line'
  x: Axis
  y: Axis
  series: readonly Series[]
  /** Values hold until the next x. */
  isStep?: boolean
  /** One panel per series, with common axes. */
  hasPanels?: boolean
  /** Every value was computed at its x: shown as markers. */
  hasPoints?: boolean
  /** Points to name. */
  marks?: readonly { x: number; y: number; label: string }[]
  /** Vertical lines to name. */
  rules?: readonly { x: number; label: string }[]
}

export interface PathRow {
  name: string
  instance: string
  isCritical: boolean
  readyMs: number
  leasedMs: number
  tokenMs: number
  finishedMs: number
}

/** The calls of one workflow over time since its arrival. */
export interface PathFigure extends Common {
  kind: 'path'
  rows: readonly PathRow[]
}

/** One value, and where known its interval, per row. */
export interface DotFigure extends Common {
  kind: 'dot'
  x: Axis
  rows: readonly { name: string; group: string; x: number; low?: number; high?: number }[]
  /** A vertical line to name, in the panel of its group. */
  limits?: readonly { group: string; x: number; label: string }[]
}

/** Column names of a timeline, as ids of script elements behind `${figure.id}-`. */
export const TIMELINE_COLUMNS = {
  workflow: 'u32',
  position: 'u32', // inside the workflow
  stage: 'u16',
  lane: 'u16',
  promptTokens: 'u32',
  outputTokens: 'u32',
  leased: 'u32', // ticks since `fromMs`; so are the next, as lengths
  wait: 'u32',
  prefill: 'u32',
  decode: 'u32',
} as const

export interface TimelineFigure extends Common {
  kind: 'timeline'
  fromMs: number
  tickMs: number
  stages: readonly string[]
  /** Calls stand in order of instance, lease; `calls` of each instance. */
  instances: readonly { label: string; calls: number; lanes: number }[]
  workflowIds?: readonly string[] | undefined
  /** Columns in the page: their lengths. */
  calls: number
  /** The workflow of the figure of one workflow's calls, to highlight. */
  highlight?: { workflow: number; label: string } | undefined
}

export type Figure = LineFigure | PathFigure | DotFigure | TimelineFigure

/** A data table behind a figure: a heading per column, and texts. */
export interface DataTable {
  head: readonly string[]
  rows: readonly (readonly string[])[]
  /** What was left out. */
  note?: string
}
