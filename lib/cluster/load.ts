import { readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { describe, LaxityError, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import type { ClusterConfig } from './config.ts'
import { clusterPresets, findPreset } from './presets.ts'
import { type ResolvedCluster, resolveCluster } from './resolve.ts'

/** A cluster file is written by hand: anything larger is the wrong file. */
const LARGEST_FILE = 16 * 1024 * 1024

/**
 * Resolves a preset's name, the path of a JSON file, or the description itself.
 *
 * @throws LaxityError with every problem at once, each with its path: ERR_LAXITY_FIELD, ERR_LAXITY_EMPTY (no
 * instances), ERR_LAXITY_LIMIT; for a file also ERR_LAXITY_FILE, ERR_LAXITY_UTF8, ERR_LAXITY_SYNTAX;
 * ERR_LAXITY_OPTION for an unknown preset.
 */
export async function loadCluster(cluster: string | ClusterConfig): Promise<ResolvedCluster> {
  if (typeof cluster === 'string') {
    const preset = findPreset(cluster)
    if (preset !== undefined) return resolveCluster(preset, cluster)
    return fromFile(cluster)
  }
  if (typeof cluster !== 'object' || cluster === null) {
    const message = `Expected a preset's name, a path or an object for \`cluster\`, got ${describe(cluster)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
  }
  return resolve(cluster, 'cluster.', 'custom')
}

async function fromFile(path: string): Promise<ResolvedCluster> {
  const text = await readText(path)
  let config: unknown
  try {
    config = JSON.parse(text)
  } catch (cause) {
    const { line, message } = await locate(text)
    throw new LaxityError('ERR_LAXITY_SYNTAX', message, `${path}:${line}`, { cause })
  }
  return resolve(config, `${path}: `, basename(path).replace(/\.json$/i, ''))
}

/** The zod schema is loaded only for descriptions that come from outside: presets are known to be right. */
async function resolve(config: unknown, where: string, defaultName: string): Promise<ResolvedCluster> {
  const { checkCluster } = await import('./check.ts')
  const problems = new Problems()
  if (checkCluster(config, where, problems)) return resolveCluster(config, defaultName)
  problems.throwIfAny()
  throw new LaxityError('ERR_LAXITY_FIELD', 'Not a cluster', where)
}

async function readText(path: string): Promise<string> {
  let bytes: Buffer
  try {
    const { size } = await stat(path)
    if (size > LARGEST_FILE) {
      throw new LaxityError(
        'ERR_LAXITY_LIMIT',
        `${size} bytes: a cluster file has at most ${LARGEST_FILE}`,
        path,
      )
    }
    bytes = await readFile(path)
  } catch (cause) {
    if (cause instanceof LaxityError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' && !/[./\\]/.test(path)) {
      const message = `Unknown cluster ${quote(path)}${hint(path, clusterPresets)}`
      throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster', { cause })
    }
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
