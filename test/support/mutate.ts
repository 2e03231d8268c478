/** Seeded mutation of files, for readers that must survive any bytes. */

/** Pieces that mean something to a parser. */
const FRAGMENTS = [
  '{',
  '}',
  '[',
  ']',
  '"',
  ',',
  ':',
  '\n',
  '\\',
  '\\u',
  '-',
  '1e999',
  'NaN',
  'null',
  '0.5',
  '\u0000',
  '{}',
  '[]',
  '\ufeff',
  '"id":"a"',
].map((text) => Buffer.from(text))

/** mulberry32: draws whole numbers below n. */
export function generator(seed: number): (n: number) => number {
  let state = seed >>> 0
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % n
  }
}

/** One small edit: a bit, a cut, a repetition, noise, a piece of syntax. */
export function mutate(bytes: Buffer, draw: (n: number) => number): Buffer {
  if (bytes.length === 0) return bytes
  const at = draw(bytes.length)
  const end = at + draw(Math.min(bytes.length - at, 40) + 1)
  switch (draw(6)) {
    case 0: {
      const copy = Buffer.from(bytes)
      copy[at]! ^= 1 << draw(8)
      return copy
    }
    case 1:
      return bytes.subarray(0, at)
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)])
    case 3:
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)])
    case 4: {
      const noise = Buffer.from(Array.from({ length: 1 + draw(8) }, () => draw(256)))
      return Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)])
    }
    default:
      return Buffer.concat([bytes.subarray(0, at), FRAGMENTS[draw(FRAGMENTS.length)]!, bytes.subarray(at)])
  }
}
