/** FNV-1a over UTF-16 units, then a finaliser that spreads its low bits (murmur3). */
function hash(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/**
 * The instance with the largest hash of both names (rendezvous hashing), equal ones by name: whoever knows the same
 * instances names the same one, and an instance that leaves moves no id but its own.
 */
export function homeAmong(id: string, instances: Iterable<string>): string | undefined {
  let home: string | undefined
  let most = -1
  for (const instance of instances) {
    const weight = hash(`${id}\n${instance}`)
    if (weight < most || (weight === most && instance > home!)) continue
    home = instance
    most = weight
  }
  return home
}
