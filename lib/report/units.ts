/** Durations for people: three significant digits and a unit that suits them. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '∞'
  const size = Math.abs(ms)
  if (size < 1) return size === 0 ? '0 s' : `${significant(ms * 1000)} µs`
  if (size < 1000) return `${significant(ms)} ms`
  if (size < 600_000) return `${significant(ms / 1000)} s`
  if (size < 36_000_000) return `${significant(ms / 60_000)} min`
  return `${significant(ms / 3_600_000)} h`
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}

/** Plain numbers: thousands grouped, fractions to three significant digits. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return '∞'
  return Number.isInteger(value) ? value.toLocaleString('en-US') : significant(value)
}

/** Three significant digits without an exponent; whole above a thousand. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return '∞'
  const size = Math.abs(value)
  if (size >= 1000) return Math.round(value).toLocaleString('en-US')
  if (size >= 100) return value.toFixed(0)
  if (size >= 10) return value.toFixed(1)
  return value.toFixed(2)
}

/** A ratio to a bound; a dash where there is none. */
export function over(ratio: number | null | undefined): string {
  return ratio === null || ratio === undefined ? '–' : ratio.toFixed(2)
}
