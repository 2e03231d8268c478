// What both measurements come to: lines that count, lines that ran, and where the others are.

/** @param {Map<string, Map<number, number>>} files executions by line, by file */
export function tally(files) {
  const out = []
  for (const [file, lines] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const missed = [...lines].filter(([, count]) => count === 0).map(([line]) => line)
    out.push({ file, lines: lines.size, missed: missed.sort((a, b) => a - b) })
  }
  return out
}

export function percentage(files) {
  const lines = files.reduce((sum, f) => sum + f.lines, 0)
  const missed = files.reduce((sum, f) => sum + f.missed.length, 0)
  return { lines, covered: lines - missed, percent: lines === 0 ? 0 : (100 * (lines - missed)) / lines }
}

/** `3-5 9`: runs of lines. */
export function ranges(lines) {
  const out = []
  for (const line of lines) {
    const last = out.at(-1)
    if (last && line === last[1] + 1) last[1] = line
    else out.push([line, line])
  }
  return out.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(' ')
}
