// Markdown tables from measured cells.

export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : '∞')
export const seconds = (ms) => fixed(ms / 1000, 1)

export function table(header, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}

/** SLO scale 95, P95 with its interval, throughput, and P95 relative to the row `reference`. */
export function policyTable(cells, reference) {
  const base = cells[reference].p95Ms
  return table(
    ['policy', 'SLO scale 95', 'P95 s (95 % interval)', 'workflows/s', `P95 / ${reference}`],
    Object.entries(cells).map(([name, cell]) => [
      cell.alpha === undefined ? name : `${name}: ${cell.alpha}`,
      fixed(cell.sloScale95),
      `${seconds(cell.p95Ms)} (${cell.ci95Ms === null ? '–' : cell.ci95Ms.map(seconds).join('–')})`,
      fixed(cell.throughputPerS, 3),
      fixed(cell.p95Ms / base),
    ]),
  )
}

/** One row per setting, one column per policy. */
export function grid(settings, names, cellsOf, value) {
  return table(
    ['setting', ...names],
    [...settings.map((setting) => [setting.name, ...names.map((name) => value(cellsOf(setting)[name]))])],
  )
}

/** Gain of b over a in per cent of a. */
export const change = (a, b) =>
  `${a === b ? '' : b < a ? '−' : '+'}${fixed((Math.abs(b - a) / a) * 100, 0)} %`
