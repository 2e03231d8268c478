import { suggestion } from '../errors.ts'

/** Ends a message about an unknown name: the known one nearest to it, or all of them where none is near. */
export function hint(name: unknown, candidates: Iterable<string>): string {
  const known = [...candidates]
  const near = typeof name === 'string' ? suggestion(name, known) : ''
  if (near !== '') return near
  return known.length > 0 ? ` (known: ${known.join(', ')})` : ''
}
