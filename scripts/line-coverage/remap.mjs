// From what ran of the compiled text to the lines of the source.
import { statements } from './statements.mjs'

/**
 * A line counts once where a statement begins on it that ran in any version.
 *
 * @param {string} text of the TypeScript file
 * @param {{ ran: Uint8Array, segments: number[][][], starts: number[] }[]} versions as readCounters gives them
 * @returns {Map<number, number>} 1 or 0 by line
 */
export function linesThatRan(text, versions) {
  const maps = versions.map((version) => compiledOffsets(text, version))
  const lines = new Map()
  for (const { from, to, line } of statements(text)) {
    const hit = versions.some(({ ran }, i) => firstWithin(maps[i], from, to).some((at) => ran[at] > 0))
    lines.set(line, Math.max(lines.get(line) ?? 0, hit ? 1 : 0))
  }
  return lines
}

/** Pairs of offsets [source, compiled], by source. */
function compiledOffsets(text, { segments, starts }) {
  const sourceStarts = [0]
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) sourceStarts.push(i + 1)
  const pairs = []
  segments.forEach((line, i) => {
    for (const [column, source, sourceLine, sourceColumn] of line)
      if (source !== undefined) pairs.push([sourceStarts[sourceLine] + sourceColumn, starts[i] + column])
  })
  return pairs.sort(([a], [b]) => a - b)
}

/** Where a statement begins in the compiled text: brackets and words without a mapping are before the first that has one. */
function firstWithin(pairs, from, to) {
  let low = 0
  let high = pairs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (pairs[middle][0] < from) low = middle + 1
    else high = middle
  }
  const out = []
  for (let i = low; i < pairs.length && pairs[i][0] < to && pairs[i][0] === pairs[low][0]; i += 1)
    out.push(pairs[i][1])
  return out
}
