import type { Figure } from '../figure.ts'

type Row = readonly (string | number | null)[]

/** Hands a file to the reader. */
export function download(name: string, type: string, parts: string[]): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(parts, { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

/** Comma-separated values (RFC 4180), in parts. Spreadsheets must not take a name for a formula. */
export function toCsv(rows: Iterable<Row>): string[] {
  const parts: string[] = []
  let text = ''
  for (const row of rows) {
    text += `${row.map(cell).join(',')}\r\n`
    if (text.length < 1 << 16) continue
    parts.push(text)
    text = ''
  }
  parts.push(text)
  return parts
}

function cell(value: string | number | null): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const plain = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

/** The data of a figure in its own units; times in ms, shares from 0 to 1. */
export function* rowsOf(figure: Exclude<Figure, { kind: 'timeline' }>): Generator<Row, void, undefined> {
  if (figure.kind === 'line') {
    yield ['series', figure.x.label, figure.y.label, 'low', 'high']
    for (const { name, x, y, low, high } of figure.series) {
      for (const [i, at] of x.entries()) yield [name, at, y[i] ?? null, low?.[i] ?? null, high?.[i] ?? null]
    }
    return
  }
  if (figure.kind === 'dot') {
    yield ['group', 'name', figure.x.label, 'low', 'high']
    for (const { group, name, x, low, high } of figure.rows) yield [group, name, x, low ?? null, high ?? null]
    return
  }
  yield ['call', 'instance', 'critical', 'ready_ms', 'leased_ms', 'first_token_ms', 'finished_ms']
  for (const row of figure.rows) {
    const { name, instance, isCritical, readyMs, leasedMs, tokenMs, finishedMs } = row
    yield [name, instance, isCritical ? 1 : 0, readyMs, leasedMs, tokenMs, finishedMs]
  }
}

/** A figure of the page as a document of its own. */
export function standalone(svg: SVGSVGElement, title: string, description: string): string {
  svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  for (const [name, text] of [
    ['desc', description],
    ['title', title],
  ] as const) {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name)
    element.textContent = text
    svg.prepend(element)
  }
  return `${new XMLSerializer().serializeToString(svg)}\n`
}
