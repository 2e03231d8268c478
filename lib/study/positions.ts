import type { Document, LineCounter, Node, Pair, YAMLMap } from 'yaml'
import { LaxityError, quote } from '../errors.ts'
import { readTextFile } from '../json-file.ts'

export type Path = readonly PropertyKey[]

/** A YAML or JSON file, and where in it each of its values stands. */
export interface Positioned {
  value: unknown
  /** `file:line:column: field.path`, of the nearest part that exists; `key`: of the last name, not of its value. */
  place(path: Path, key?: boolean): string
}

/**
 * Reads YAML 1.2, or JSON where the name ends in `.json`.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_LIMIT, ERR_LAXITY_UTF8; ERR_LAXITY_SYNTAX with line and column.
 */
export async function readPositioned(file: string, what: string): Promise<Positioned> {
  return parsePositioned(await readTextFile(file, what), file)
}

export async function parsePositioned(text: string, file: string): Promise<Positioned> {
  const yaml = await import('yaml')
  const lines = new yaml.LineCounter()
  const fail = (message: string, offset: number, cause: unknown): never => {
    throw new LaxityError('ERR_LAXITY_SYNTAX', message, at(file, lines, offset), { cause })
  }
  let document: Document.Parsed
  let value: unknown
  try {
    document = yaml.parseDocument(text, { lineCounter: lines, prettyErrors: false })
  } catch (cause) {
    // Nesting deeper than the stack.
    return fail(`Not valid YAML: ${cause instanceof Error ? cause.message : String(cause)}`, 0, cause)
  }
  const [error] = document.errors
  if (error !== undefined) {
    const kind = file.endsWith('.json') ? 'JSON' : 'YAML'
    return fail(`Not valid ${kind}: ${error.message}`, error.pos[0], error)
  }
  if (file.endsWith('.json')) checkJson(text, fail)
  try {
    value = document.toJS({ maxAliasCount: 100 })
  } catch (cause) {
    return fail(`Not valid YAML: ${cause instanceof Error ? cause.message : String(cause)}`, 0, cause)
  }
  return {
    value,
    place: (path, key = false) => {
      const where = at(file, lines, offsetOf(document.contents, path, key))
      return path.length === 0 ? where : `${where}: ${dotted(path)}`
    },
  }
}

/** YAML forgives what JSON does not, as a comma too many. */
function checkJson(text: string, fail: (message: string, offset: number, cause: unknown) => never): void {
  try {
    JSON.parse(text)
  } catch (cause) {
    const { message } = cause as Error
    const offset = /at position (\d+)/.exec(message)?.[1]
    fail(`Not valid JSON`, offset === undefined ? text.length : Number(offset), cause)
  }
}

function at(file: string, lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset)
  return `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}`
}

function offsetOf(root: Node | null, path: Path, key: boolean): number {
  let node: unknown = root
  let offset = rangeOf(node) ?? 0
  for (const [depth, part] of path.entries()) {
    const { items } = (node ?? {}) as { items?: unknown[] }
    if (items === undefined) break
    let next: unknown
    if (typeof part === 'number') next = items[part]
    else {
      const pair = (items as YAMLMap['items']).find((item) => keyOf(item) === part)
      if (pair === undefined) break
      // A scalar stands beside its key; a list or a map is better named by the key itself.
      offset = rangeOf(pair.key) ?? offset
      next = pair.value
      node = next
      const named = key && depth === path.length - 1
      if (!named && (next as { items?: unknown } | null)?.items === undefined)
        offset = rangeOf(next) ?? offset
      continue
    }
    node = next
    offset = rangeOf(next) ?? offset
  }
  return offset
}

function keyOf(pair: Pair): unknown {
  const { key } = pair as { key: unknown }
  const value = typeof key === 'object' && key !== null ? (key as { value?: unknown }).value : key
  return typeof value === 'number' ? String(value) : value
}

function rangeOf(node: unknown): number | undefined {
  return (node as { range?: [number, number, number] } | null | undefined)?.range?.[0]
}

export function dotted(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else if (!/^[\w$-]+$/.test(String(part))) text += `[${quote(String(part))}]`
    else text += text === '' ? String(part) : `.${String(part)}`
  }
  return text
}
