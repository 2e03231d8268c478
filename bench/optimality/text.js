// Markdown from numbers.

export function table(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : '–')

/** `−12.3 %`. */
export function signed(percent, digits = 1) {
  const value = Math.abs(percent).toFixed(digits)
  if (Number(value) === 0) return value
  return `${percent < 0 ? '−' : '+'}${value}`
}

/** With its standard error: `−12.3 (0.4)`. */
export const changeText = ({ percent, error }) => `${signed(percent)} (${fixed(error, 1)})`
