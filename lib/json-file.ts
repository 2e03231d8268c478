import { readFile, stat } from 'node:fs/promises'
import { LaxityError } from './errors.ts'

/** Such files are written by hand: anything larger is the wrong file. */
const LARGEST_FILE = 16 * 1024 * 1024

/**
 * Reads a JSON file of the kind that people write (`what`: "a cluster file").
 *
 * @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_LIMIT (beyond `largest` bytes, 16 MiB by default), ERR_LAXITY_UTF8, ERR_LAXITY_SYNTAX with the line.
 */
export async function readJsonFile(path: string, what: string, largest = LARGEST_FILE): Promise<unknown> {
  const text = await readTextFile(path, what, largest)
  try {
    return JSON.parse(text)
  } catch (cause) {
    const { line, message } = await locate(text)
    throw new LaxityError('ERR_LAXITY_SYNTAX', message, `${path}:${line}`, { cause })
  }
}

/** @throws LaxityError ERR_LAXITY_FILE, ERR_LAXITY_LIMIT, ERR_LAXITY_UTF8. */
export async function readTextFile(path: string, what: string, largest = LARGEST_FILE): Promise<string> {
  let bytes: Buffer
  try {
    const { size } = await stat(path)
    if (size > largest) {
      const message = `${size} bytes: ${what} has at most ${largest}`
      throw new LaxityError('ERR_LAXITY_LIMIT', message, path)
    }
    bytes = await readFile(path)
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw new LaxityError('ERR_LAXITY_FILE', `Cannot be read (${code ?? (cause as Error).message})`, path, {
      cause,
    })
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new LaxityError('ERR_LAXITY_UTF8', 'Not UTF-8 text', path, { cause })
  }
}

/** JSON.parse does not say where it stopped: the first line at which a streaming parser stops too. */
async function locate(text: string): Promise<{ line: number; message: string }> {
  const { JSONParser } = await import('@streamparser/json')
  const parser = new JSONParser()
  let problem: Error | undefined
  parser.onError = (error) => {
    problem ??= error
  }
  parser.onValue = () => {}
  const lines = text.split('\n')
  for (const [index, content] of lines.entries()) {
    parser.write(`${content}\n`)
    if (problem !== undefined) return { line: index + 1, message: 'Not valid JSON' }
  }
  return { line: lines.length, message: 'Not valid JSON: it ends too early' }
}
