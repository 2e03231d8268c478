import { expected, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'

/**
 * Reads options one by one: a wrong one is noted, and its default returned, so that all problems are reported at
 * once. An option that is `undefined` counts as left out.
 */
export class OptionReader {
  readonly problems = new Problems()
  readonly #options: Record<string, unknown>

  constructor(options: unknown, known: readonly string[]) {
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      this.#options = {}
      this.wrong('an object', 'options', options)
      return
    }
    this.#options = options as Record<string, unknown>
    for (const name of Object.keys(options)) {
      if (known.includes(name)) continue
      this.add(`Unknown option \`${name}\`${hint(name, known)}`, name)
    }
  }

  raw(name: string): unknown {
    return this.#options[name]
  }

  given(name: string): boolean {
    return this.#options[name] !== undefined
  }

  add(message: string, name: string): void {
    this.problems.add('ERR_LAXITY_OPTION', message, name)
  }

  wrong(what: string, name: string, got: unknown): void {
    this.add(expected(what, name, got), name)
  }

  number<T>(name: string, fallback: T, what: string, accepts: (value: number) => boolean): number | T {
    const value = this.#options[name]
    if (value === undefined) return fallback
    if (typeof value === 'number' && accepts(value)) return value
    this.wrong(what, name, value)
    return fallback
  }

  /** A safe integer from `low` to `high`. */
  whole<T>(name: string, fallback: T, low = 0, high = Number.MAX_SAFE_INTEGER): number | T {
    const what =
      high === Number.MAX_SAFE_INTEGER ? `a safe integer >= ${low}` : `a whole number from ${low} to ${high}`
    return this.number(
      name,
      fallback,
      what,
      (value) => Number.isSafeInteger(value) && value >= low && value <= high,
    )
  }

  positive<T>(name: string, fallback: T, high: number): number | T {
    return this.number(
      name,
      fallback,
      `a positive number up to ${high}`,
      (value) => value > 0 && value <= high,
    )
  }

  boolean(name: string): boolean {
    const value = this.#options[name]
    if (value !== undefined && typeof value !== 'boolean') this.wrong('true or false', name, value)
    return value === true
  }

  /** One of `names`; the message of an unknown one names those near it. */
  oneOf<T extends string, F>(
    name: string,
    names: readonly T[],
    fallback: F,
    at = name,
    value = this.raw(name),
  ): T | F {
    if (value === undefined) return fallback
    if (names.includes(value as T)) return value as T
    if (typeof value === 'string') this.add(`Unknown ${name} ${quote(value)}${hint(value, names)}`, at)
    else this.wrong(`one of ${names.join(', ')}`, at, value)
    return fallback
  }

  callback<T>(name: string): T | undefined {
    const value = this.#options[name]
    if (value === undefined || typeof value === 'function') return value as T | undefined
    this.wrong('a function', name, value)
    return undefined
  }

  signal(): AbortSignal | undefined {
    const value = this.#options.signal
    if (value === undefined || value instanceof AbortSignal) return value
    this.wrong('an AbortSignal', 'signal', value)
    return undefined
  }
}
