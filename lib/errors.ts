/** Stable codes: tests, logs and callers may rely on them. Add, never rename. */
export type ErrorCode =
  | 'ERR_LAXITY_FILE' // cannot be opened or read
  | 'ERR_LAXITY_GZIP' // damaged or truncated gzip data
  | 'ERR_LAXITY_UTF8' // bytes that are not UTF-8
  | 'ERR_LAXITY_SYNTAX' // not JSON, or not the JSON of this format
  | 'ERR_LAXITY_FIELD' // an unknown, missing or ill-typed field, or a value outside its range
  | 'ERR_LAXITY_DUPLICATE' // an id that was already used
  | 'ERR_LAXITY_PARENT' // an unknown parent
  | 'ERR_LAXITY_CYCLE' // parents that form a cycle
  | 'ERR_LAXITY_EMPTY' // nothing to work on
  | 'ERR_LAXITY_OPTION' // an option of the API or the command line
  | 'ERR_LAXITY_NEVER_FITS' // a call larger than every KV cache it may use
  | 'ERR_LAXITY_LIMIT' // beyond a documented size limit
  | 'ERR_LAXITY_PLACEMENT' // a placement function threw, or returned something else than a candidate's index
  | 'ERR_LAXITY_LOG' // a log that cannot be replayed, or whose decisions differ
  | 'ERR_LAXITY_ABORTED' // the caller's AbortSignal
  | 'ERR_LAXITY_MEMORY' // a model whose weights leave no room for KV on the GPUs given
  | 'ERR_LAXITY_RANGE' // beyond what was measured, without leave to extrapolate
  | 'ERR_LAXITY_UNKNOWN' // an instance, workflow or call that is not there
  | 'ERR_LAXITY_CLOSED' // a scheduler or workflow that has ended
  | 'ERR_LAXITY_STATE' // a request that does not fit the state of its call, lease or instance
  | 'ERR_LAXITY_NO_INSTANCE' // no instance serves the model
  | 'ERR_LAXITY_QUEUE_FULL' // too many calls wait: try again after `retryAfterMs`
  | 'ERR_LAXITY_QUEUE_TIMEOUT' // waited too long for a lease
  | 'ERR_LAXITY_DEADLINE' // would miss its deadline even on an idle instance
  | 'ERR_LAXITY_LOST' // a lease that gave no sign of life, or whose instance was lost
  | 'ERR_LAXITY_PACKAGE' // an optional package that is not installed
  | 'ERR_LAXITY_REDIS' // a Redis that cannot be reached, or refuses
  | 'ERR_LAXITY_STUDY' // a study that ended with runs set aside
  | 'ERR_LAXITY_INFEASIBLE' // nothing in the range searched meets the demand
  | 'ERR_LAXITY_ADDON' // the native addon is absent or does not load
  | 'ERR_LAXITY_NATIVE' // a status of the core that names no better code

/**
 * The one error class of the package. `message` is complete on its own (it includes the place); `place` repeats
 * `file:line`, `file:line: field.path` or an option's name for programs.
 */
export class LaxityError extends Error {
  override readonly name = 'LaxityError'
  readonly code: ErrorCode
  readonly place: string | undefined

  constructor(code: ErrorCode, message: string, place?: string, options?: ErrorOptions) {
    super(place === undefined || message.includes(`\`${place}\``) ? message : `${place}: ${message}`, options)
    this.code = code
    this.place = place
  }

  /** Works across two copies of the package in one process. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return (
      value instanceof Error &&
      value.name === 'LaxityError' &&
      typeof (value as { code?: unknown }).code === 'string'
    )
  }
}

/** "Expected X for `field`, got Y (type)". */
export function expected(what: string, field: string, got: unknown): string {
  return `Expected ${what} for \`${field}\`, got ${describe(got)}`
}

export function describe(value: unknown): string {
  if (typeof value === 'string') return `${quote(value)} (string)`
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : 'an object'
  return `${String(value)} (${typeof value})`
}

/** Text from outside, quoted for a message: control characters escaped, at most 60 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}

/** `; did you mean "…"?` where a candidate is near `name` (case, `_` and `-` do not count), otherwise nothing. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  if (name.length > 60) return ''
  const plain = (text: string) => text.toLowerCase().replace(/[_\-\s]/g, '')
  const wanted = plain(name)
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(wanted.length / 3)) + 1
  for (const candidate of candidates) {
    if (candidate.length > 60) continue
    const distance = editDistance(wanted, plain(candidate))
    if (distance < bestDistance && distance < candidate.length) {
      best = candidate
      bestDistance = distance
    }
  }
  return best === undefined ? '' : `; did you mean ${quote(best)}?`
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}
