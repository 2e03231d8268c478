import { quote } from '../../errors.ts'
import { readJsonFile } from '../../json-file.ts'
import { reportIssues } from '../../model/issues.ts'
import { hint } from '../near.ts'
import { Problems } from '../problems.ts'
import { type Command, type ResultDocument, SCHEMAS } from './schema.ts'

/** What V8 can hold as one text. */
const LARGEST_FILE = 500 * 1024 * 1024

/**
 * Reads what `tune`, `simulate` or `compare` printed with `--json` (docs/report.md).
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_LIMIT, ERR_LAXITY_UTF8, ERR_LAXITY_SYNTAX, and ERR_LAXITY_FIELD with
 * every problem and its place.
 */
export async function readResult(path: string): Promise<ResultDocument> {
  return checkResult(await readJsonFile(path, 'a result file', LARGEST_FILE), `${path}: `)
}

/** @throws LaxityError ERR_LAXITY_FIELD; places begin with `where`. */
export function checkResult(value: unknown, where: string): ResultDocument {
  const problems = new Problems()
  const command = (value as { command?: unknown } | null)?.command
  if (typeof command !== 'string' || !Object.hasOwn(SCHEMAS, command)) {
    const known = Object.keys(SCHEMAS)
    const got = typeof command === 'string' ? quote(command) : 'none'
    const message = `Expected a result of ${known.join(', ')} for \`command\`, got ${got}`
    problems.add('ERR_LAXITY_FIELD', `${message}${hint(command, known)}`, where.replace(/[: ]+$/, ''))
    problems.throwIfAny()
  }
  reportIssues(SCHEMAS[command as Command], value, where, problems)
  problems.throwIfAny()
  return value as ResultDocument
}
