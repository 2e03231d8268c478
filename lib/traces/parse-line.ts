import { quote } from '../errors.ts'
import type { Place } from './place.ts'

/**
 * One line of JSON, checked. @throws LaxityError ERR_LAXITY_SYNTAX with what and where (as far as V8 tells), and
 * whatever `check` throws.
 */
export function parseLine<T>(line: string, place: Place, check: (value: unknown) => T): T {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (cause) {
    // The check of the field that holds NaN says more than a syntax error.
    const lenient = withPythonNumbers(line)
    if (lenient !== undefined) check(lenient)
    throw place.error('ERR_LAXITY_SYNTAX', '', `Not valid JSON: ${reasonOf(cause, line)}`)
  }
  return check(value)
}

/** What a line holds, NaN and Infinity included; undefined where it cannot be read. For telling formats apart. */
export function parseLeniently(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return withPythonNumbers(line)
  }
}

/** Python's json writes NaN and Infinity, which JSON does not know. No field accepts them. */
function withPythonNumbers(line: string): unknown {
  if (!/NaN|Infinity/.test(line)) return undefined
  const marked = line.replace(/([:[,]\s*)(NaN|-?Infinity)(?=\s*[,}\]])/g, '$1"\\u0000$2"')
  try {
    return JSON.parse(marked, (_, value) =>
      typeof value === 'string' && value.startsWith('\u0000') ? Number(value.slice(1)) : value,
    )
  } catch {
    return undefined
  }
}

/** What V8 says, without the snippet of the line that newer versions add, and with the column. */
function reasonOf(cause: unknown, line: string): string {
  const message = cause instanceof Error ? cause.message : ''
  const position = /at position (\d+)/.exec(message)?.[1]
  if (position !== undefined) {
    const at = Number(position)
    const got = at < line.length ? `unexpected ${quote(line[at]!)}` : 'unexpected end'
    return `${got} at column ${at + 1}`
  }
  const token = /^Unexpected token '(.)'/su.exec(message)?.[1]
  if (token !== undefined) return `unexpected ${quote(token)}`
  return 'the line ends too early'
}
