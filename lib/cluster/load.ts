import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, LaxityError, quote } from '../errors.ts'
import { readJsonFile } from '../json-file.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import type { ClusterConfig } from './config.ts'
import type { LatencyOverrides } from './overrides.ts'
import { clusterPresets, findPreset } from './presets.ts'
import { type ResolvedCluster, resolveCluster } from './resolve.ts'

/**
 * Resolves a preset's name, the path of a JSON file, or the description itself. `overrides` turn built-in constants
 * into estimates.
 *
 * @throws LaxityError with every problem at once, each with its path: ERR_LAXITY_FIELD, ERR_LAXITY_EMPTY (no
 * instances), ERR_LAXITY_LIMIT, ERR_LAXITY_MEMORY (a model that does not fit); for a file also ERR_LAXITY_FILE,
 * ERR_LAXITY_UTF8, ERR_LAXITY_SYNTAX; ERR_LAXITY_OPTION for an unknown preset or override.
 */
export async function loadCluster(
  cluster: string | ClusterConfig,
  overrides: LatencyOverrides = {},
): Promise<ResolvedCluster> {
  if (typeof cluster === 'string') {
    const preset = findPreset(cluster, overrides.model)
    if (preset !== undefined) return resolveModelled(preset, 'cluster.', cluster, overrides)
    return fromFile(cluster, overrides)
  }
  if (typeof cluster !== 'object' || cluster === null) {
    const message = `Expected a preset's name, a path or an object for \`cluster\`, got ${describe(cluster)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
  }
  return resolve(cluster, 'cluster.', 'custom', overrides)
}

/** The same for a description that is made of a preset's, which is known to be right. */
export function resolvePreset(
  config: ClusterConfig,
  overrides: LatencyOverrides = {},
): Promise<ResolvedCluster> {
  return resolveModelled(config, 'cluster.', 'custom', overrides)
}

async function fromFile(path: string, overrides: LatencyOverrides): Promise<ResolvedCluster> {
  if (!/[./\\]/.test(path) && !existsSync(path)) {
    const message = `Unknown cluster ${quote(path)}${hint(path, clusterPresets)}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'cluster')
  }
  const config = await readJsonFile(path, 'a cluster file')
  return resolve(config, `${path}: `, basename(path).replace(/\.json$/i, ''), overrides)
}

/** The zod schema is loaded only for descriptions that come from outside: presets are known to be right. */
async function resolve(
  config: unknown,
  where: string,
  defaultName: string,
  overrides: LatencyOverrides,
): Promise<ResolvedCluster> {
  const { checkCluster } = await import('./check.ts')
  const problems = new Problems()
  if (checkCluster(config, where, problems)) return resolveModelled(config, where, defaultName, overrides)
  problems.throwIfAny()
  throw new LaxityError('ERR_LAXITY_FIELD', 'Not a cluster', where)
}

/** The latency model is loaded only where an instance uses it. */
async function resolveModelled(
  config: ClusterConfig,
  where: string,
  defaultName: string,
  overrides: LatencyOverrides,
): Promise<ResolvedCluster> {
  const plain = Object.values(overrides).every((value) => value === undefined || value === 'constants')
  const own = config.instances.some(({ tp }) => tp !== undefined)
  const profiles = Object.values(config.latencies ?? {}).some(({ kind }) => kind === 'profile')
  if (plain && !own && !profiles) return resolveCluster(config, defaultName)
  const { modelledInstances } = await import('./calibrated.ts')
  return resolveCluster(config, defaultName, await modelledInstances(config, where, overrides))
}
