import { count, duration, percent, significant } from '../../units.ts'
import type { Axis, Unit } from '../figure.ts'

/** How an axis shows its values: divided by `per`, with the unit behind its label. */
export interface Shown {
  per: number
  label: string
}

const TIMES = [
  { name: 'µs', per: 1e-3, below: 1 },
  { name: 'ms', per: 1, below: 1e3 },
  { name: 's', per: 1e3, below: 600e3 },
  { name: 'min', per: 60e3, below: 36e6 },
  { name: 'h', per: 3.6e6, below: Number.POSITIVE_INFINITY },
] as const

export function timeUnit(largestMs: number): { name: string; per: number } {
  return TIMES.find(({ below }) => largestMs < below) ?? TIMES[1]
}

export function shownAs({ label, unit }: Axis, largest: number): Shown {
  if (unit === 'ms') {
    const { name, per } = timeUnit(largest)
    return { per, label: `${label} (${name})` }
  }
  if (unit === 'share') return { per: 0.01, label: `${label} (%)` }
  if (unit === 'tokens') return { per: 1, label: `${label} (tokens)` }
  return { per: 1, label }
}

/** One value in words. */
export function written(value: number, unit: Unit): string {
  if (unit === 'ms') return duration(value)
  if (unit === 'share') return percent(value)
  return Number.isInteger(value) ? count(value) : significant(value)
}

/** Largest finite number; 0 where there is none. */
export function largest(lists: Iterable<readonly (number | null)[]>): number {
  let most = 0
  for (const list of lists) for (const value of list) if (value !== null && value > most) most = value
  return most
}
