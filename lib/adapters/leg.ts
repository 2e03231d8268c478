import { LaxityError } from '../errors.ts'
import type { InstanceEntry } from '../scheduler/instances.ts'

/** One request to one engine: what of it depends on the instance. */

/** A base that ends in /v1 and a path that begins with it mean the same v1. */
export function legTarget(base: string, path: string): string {
  const trimmed = base.replace(/\/+$/, '')
  return `${trimmed}${trimmed.endsWith('/v1') && path.startsWith('/v1/') ? path.slice(3) : path}`
}

/** @throws LaxityError ERR_LAXITY_STATE */
export function legUrl({ id, url }: InstanceEntry): string {
  if (url === undefined) throw new LaxityError('ERR_LAXITY_STATE', `Instance ${id} has no \`url\``)
  return url
}

/** vLLM and SGLang take the data-parallel rank from this header. */
export function legHeaders(headers: Headers, { given }: InstanceEntry): Headers {
  if (given.rank === undefined) return headers
  const ranked = new Headers(headers)
  ranked.set('x-data-parallel-rank', String(given.rank))
  return ranked
}

/** The body with the engine's priority in its place, where the instance takes one. */
export function legBody(
  body: Record<string, unknown>,
  { priority }: InstanceEntry,
  value: number | undefined,
): Record<string, unknown> {
  if (priority === undefined || value === undefined) return body
  const path = (priority.field ?? 'priority').split('.')
  const copy = { ...body }
  let holder: Record<string, unknown> = copy
  for (const name of path.slice(0, -1)) {
    const inner = holder[name]
    const next: Record<string, unknown> =
      typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? { ...inner } : {}
    holder[name] = next
    holder = next
  }
  holder[path.at(-1)!] = value
  return copy
}
