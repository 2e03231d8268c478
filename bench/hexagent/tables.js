// Markdown from numbers.

export function table(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

export const fixed = (value, digits = 2) =>
  value === null || value === undefined ? '?' : Number.isFinite(value) ? value.toFixed(digits) : '∞'

/** Req95 / Req99. */
export const both = (pair) => pair.map((value) => fixed(value)).join(' / ')

/** A reduction, %: positive = lower. */
export const reduction = (from, to) => 100 * (1 - to / from)

/** A change as it is written: `−12.3 %`. */
export function signed(percent, digits = 1) {
  if (percent === null || percent === undefined) return '?'
  const value = Math.abs(percent).toFixed(digits)
  if (Number(value) === 0) return `${value} %`
  return `${percent < 0 ? '−' : '+'}${value} %`
}

/** Of a ratio with its interval: `−12.3 % (−15.0 … −9.5)`. */
export function change(ratio) {
  if (ratio === null || ratio === undefined) return '–'
  const percent = (value) => signed(100 * (value - 1)).replace(' %', '')
  const interval = ratio.low === null ? '' : ` (${percent(ratio.low)} … ${percent(ratio.high)})`
  return `${percent(ratio.ratio)} %${interval}`
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
/** For ratios. */
export const geometric = (values) => Math.exp(mean(values.map(Math.log)))
