import Table from 'cli-table3'

/** A plain table: the first column to the left, the others to the right; no colours, so that it can be piped. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const text = new Table({
    head: [...head],
    colAligns: head.map((_, column) => (column === 0 ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
    chars: FRAME,
  })
  text.push(...rows.map((row) => [...row]))
  return text
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

/** Rules under the heading only. */
const FRAME = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  right: '',
  'right-mid': '',
  mid: '',
  'mid-mid': '',
  middle: ' ',
}
