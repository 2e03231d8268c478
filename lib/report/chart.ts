import asciichart from 'asciichart'

/** Terminal columns of the curve. */
const WIDTH = 61
const HEIGHT = 10
const LABEL = 9

export interface Curve {
  x: readonly number[]
  /** One value by x; a curve needs finite ones. */
  y: readonly number[]
  /** Position of the point to mark. */
  marked: number
  /** How values of y are written, at most LABEL characters. */
  format: (y: number) => string
  xName: string
  yName: string
}

/** A line through the points with the marked one shown as ●, and its x below; '' where there is no curve to draw. */
export function chart({ x, y, marked, format, xName, yName }: Curve): string {
  if (x.length < 2 || !y.every(Number.isFinite)) return ''
  const columns = Math.max(WIDTH, x.length)
  const columnOf = (i: number) => Math.round(((x[i]! - x[0]!) / (x.at(-1)! - x[0]!)) * (columns - 1))
  const { low, scale } = levels(y)
  const series = resample(x, y, columns).map((value) => (value - low) * scale)

  const drawing = asciichart.plot(series, {
    min: 0,
    max: HEIGHT,
    height: HEIGHT,
    offset: 2,
    format: (level) => format(low + level / scale).padStart(LABEL),
  })
  // asciichart writes label, axis, and one character for each step between two columns.
  const indent = LABEL + 1
  const lines = drawing.split('\n').map((line) => [...line])
  const row = HEIGHT - Math.round((y[marked]! - low) * scale)
  lines[row]![indent + Math.min(columnOf(marked), columns - 2)] = '●'

  return [
    `${' '.repeat(LABEL - 1)}${yName}`,
    ...lines.map((line) => line.join('').trimEnd()),
    ...axis(x, columnOf, indent, columns - 1),
    `${' '.repeat(indent)}${xName}   ● = best`,
  ].join('\n')
}

/** From value to chart level 0 … HEIGHT. */
function levels(y: readonly number[]): { low: number; scale: number } {
  const low = Math.min(...y)
  const range = Math.max(...y) - low
  return range > 0
    ? { low, scale: HEIGHT / range }
    : { low: low - Math.abs(low) / 2 - 0.5, scale: HEIGHT / (Math.abs(low) + 1) }
}

/** The polyline through the points at evenly spaced columns. */
function resample(x: readonly number[], y: readonly number[], columns: number): number[] {
  let k = 0
  return Array.from({ length: columns }, (_, column) => {
    const at = x[0]! + ((x.at(-1)! - x[0]!) * column) / (columns - 1)
    while (k < x.length - 2 && x[k + 1]! <= at) k++
    const share = (at - x[k]!) / (x[k + 1]! - x[k]!)
    return y[k]! + (y[k + 1]! - y[k]!) * Math.min(1, share)
  })
}

/** Ticks and as many labels as fit without touching. */
function axis(
  x: readonly number[],
  columnOf: (i: number) => number,
  indent: number,
  columns: number,
): string[] {
  const ticks = new Array<string>(columns).fill('─')
  const labels = new Array<string>(columns + 8).fill(' ')
  let free = 0
  for (const [i, value] of x.entries()) {
    const text = String(value)
    const from = Math.max(0, columnOf(i) - Math.floor(text.length / 2))
    if (from < free) continue
    ticks[columnOf(i)] = '┬'
    for (const [offset, character] of [...text].entries()) labels[from + offset] = character
    free = from + text.length + 1
  }
  const space = ' '.repeat(indent)
  return [`${space.slice(1)}└${ticks.join('')}`, `${space}${labels.join('').trimEnd()}`]
}
