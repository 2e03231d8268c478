import { describe, LaxityError, quote, suggestion } from '../errors.ts'
import { readTextFile } from '../json-file.ts'
import { Problems } from '../report/problems.ts'

/** A column by its name here and the other names people give it; case, spaces, `_` and `-` do not count. */
export interface Column {
  name: string
  aliases?: readonly string[]
  /** Default `number`. */
  kind?: 'number' | 'text'
  optional?: boolean
}

export interface CsvTable {
  /** File name, for messages. */
  source: string
  rows: number
  /** Line of each row in the file. */
  line: readonly number[]
  /** Columns of the format that matched; missing optional columns are absent. */
  numbers: Readonly<Record<string, Float64Array>>
  texts: Readonly<Record<string, readonly string[]>>
  /** Which of the formats given. */
  format: string
}

const MOST_ROWS = 1_000_000

/**
 * Reads a CSV with a header. `formats`: the first whose required columns are all there is taken.
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_UTF8, ERR_LAXITY_SYNTAX with the line; ERR_LAXITY_FIELD for missing
 * columns (naming what is there) and for values that are no numbers, all at once; ERR_LAXITY_EMPTY without rows.
 */
export async function readCsv(
  path: string,
  formats: Readonly<Record<string, readonly Column[]>>,
): Promise<CsvTable> {
  return parseCsv(await readTextFile(path, 'a CSV'), path, formats)
}

export async function parseCsv(
  text: string,
  source: string,
  formats: Readonly<Record<string, readonly Column[]>>,
): Promise<CsvTable> {
  const { CsvError, parse } = await import('csv-parse/sync')
  let records: { record: string[]; info: { lines: number } }[]
  try {
    records = parse(text, {
      bom: true,
      trim: true,
      skip_empty_lines: true,
      comment: '#',
      comment_no_infix: true,
      info: true,
    }) as unknown as typeof records
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause
    const { lines } = cause as unknown as { lines?: number }
    throw new LaxityError(
      'ERR_LAXITY_SYNTAX',
      cause.message,
      lines === undefined ? source : `${source}:${lines}`,
      {
        cause,
      },
    )
  }
  const [header, ...body] = records
  if (header === undefined) throw new LaxityError('ERR_LAXITY_EMPTY', 'The CSV is empty', source)
  const names = header.record
  const [format, columns] = chooseFormat(names, source, formats)
  if (body.length === 0) throw new LaxityError('ERR_LAXITY_EMPTY', 'The CSV has no rows', source)
  if (body.length > MOST_ROWS)
    throw new LaxityError(
      'ERR_LAXITY_LIMIT',
      `${body.length} rows: at most ${MOST_ROWS} are supported`,
      source,
    )

  const numbers: Record<string, Float64Array> = {}
  const texts: Record<string, string[]> = {}
  const problems = new Problems()
  for (const column of columns) {
    const at = indexOf(names, column)
    if (at < 0) continue
    if (column.kind === 'text') {
      texts[column.name] = body.map(({ record }) => record[at]!)
      continue
    }
    const values = new Float64Array(body.length)
    for (const [row, { record, info }] of body.entries()) {
      const cell = record[at]!
      const value = cell === '' ? Number.NaN : Number(cell)
      if (!Number.isFinite(value)) {
        const message = `Expected a number for \`${names[at]}\`, got ${describe(cell)}`
        problems.add('ERR_LAXITY_FIELD', message, `${source}:${info.lines}`)
      }
      values[row] = value
    }
    numbers[column.name] = values
  }
  problems.throwIfAny()
  return { source, rows: body.length, line: body.map(({ info }) => info.lines), numbers, texts, format }
}

function chooseFormat(
  names: readonly string[],
  source: string,
  formats: Readonly<Record<string, readonly Column[]>>,
): [string, readonly Column[]] {
  let best: { missing: Column[]; columns: readonly Column[] } | undefined
  for (const [format, columns] of Object.entries(formats)) {
    const missing = columns.filter((column) => column.optional !== true && indexOf(names, column) < 0)
    if (missing.length === 0) return [format, columns]
    if (best === undefined || missing.length < best.missing.length) best = { missing, columns }
  }
  const { missing } = best!
  const list = missing.map(({ name }) => `\`${name}\``).join(', ')
  const near = missing.map(({ name }) => suggestion(name, names)).find((text) => text !== '')
  const there = names.map(quote).join(', ')
  throw new LaxityError(
    'ERR_LAXITY_FIELD',
    `Missing column${missing.length > 1 ? 's' : ''} ${list}${near ?? ''} (the header has ${there})`,
    `${source}:1`,
  )
}

function indexOf(names: readonly string[], { name, aliases = [] }: Column): number {
  for (const candidate of [name, ...aliases]) {
    const at = names.findIndex((given) => plain(given) === plain(candidate))
    if (at >= 0) return at
  }
  return -1
}

function plain(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]/g, '')
}
