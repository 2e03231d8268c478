import type { z } from 'zod'
import { expected } from '../errors.ts'
import { hint } from '../report/near.ts'
import type { Problems } from '../report/problems.ts'

type Path = readonly PropertyKey[]

/** Checks a value against a schema and reports every problem with its path below `where`. True when there was none. */
export function reportIssues(schema: z.ZodType, value: unknown, where: string, problems: Problems): boolean {
  const before = problems.count
  const parsed = schema.safeParse(value)
  const seen = new Set<string>()
  for (const issue of parsed.error?.issues ?? []) addIssue(issue, value, where, seen, problems)
  return problems.count === before
}

type Issue = { path: Path; message: string } & z.core.$ZodIssue

function addIssue(issue: Issue, root: unknown, where: string, seen: Set<string>, problems: Problems): void {
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) {
      const message = `Unknown field \`${key}\`${hint(key, [])}`
      problems.add('ERR_LAXITY_FIELD', message, where + dotted([...issue.path, key]))
    }
    return
  }
  const got = valueAt(root, issue.path)
  if (issue.code === 'invalid_union' && typeof got === 'object' && got !== null) {
    // The member that is an object: its own problems say more than "none of these".
    const inner = issue.errors.find((list) => list.some(({ path }) => path.length > 0 || isKeys(list)))
    for (const one of inner ?? [])
      addIssue({ ...one, path: [...issue.path, ...one.path] } as Issue, root, where, seen, problems)
    if (inner !== undefined) return
  }
  const path = dotted(issue.path)
  if (seen.has(path)) return
  seen.add(path)
  const field = issue.path.length === 0 ? where.replace(/[:. ]+$/, '') : String(issue.path.at(-1))
  const place = path === '' ? where.replace(/[:. ]+$/, '') : where + path
  problems.add('ERR_LAXITY_FIELD', expected(issue.message, field, got), place)
}

function isKeys(list: readonly z.core.$ZodIssue[]): boolean {
  return list.some(({ code }) => code === 'unrecognized_keys')
}

function dotted(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += text === '' ? String(part) : `.${String(part)}`
  }
  return text
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}
