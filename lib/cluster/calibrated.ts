import { dirname, join } from 'node:path'
import { LaxityError } from '../errors.ts'
import { addHardware, type Hardware } from '../model/hardware.ts'
import { type MeasuredProfile, readProfile } from '../model/profile.ts'
import { resolveSetup, type SetupOptions } from '../model/setup.ts'
import { Problems } from '../report/problems.ts'
import type { ClusterConfig, InstanceConfig } from './config.ts'
import { findGpu } from './gpus.ts'
import { insideInstance, type Modelled, modelledBy } from './modelled.ts'
import type { LatencyOverrides } from './overrides.ts'

/** What the labels of the HexGen-Flow clusters stand for: hosts of eight GPUs. */
const HOSTS: Readonly<Record<string, string>> = { a100: 'a100-80', a6000: 'a6000', l40s: 'l40s' }
const HOST_TP = 8
const HOST_MODEL = 'llama-3.1-70b'

/**
 * The modelled instances by position, the others left out. Paths are relative to the folder of the cluster's file.
 *
 * @throws LaxityError with every problem at once: ERR_LAXITY_FIELD, ERR_LAXITY_MEMORY (weights that do not fit),
 * ERR_LAXITY_OPTION for an override, and those of the files named.
 */
export async function modelledInstances(
  config: ClusterConfig,
  where: string,
  overrides: LatencyOverrides,
): Promise<Map<number, Modelled>> {
  const folder = where.endsWith(': ') ? dirname(where.slice(0, -2)) : '.'
  const hardware = await addHardware(config, folder, where)
  const problems = new Problems()
  const modelled = new Map<number, Modelled>()
  const profiles = new Map<string, MeasuredProfile>()
  for (const [index, entry] of config.instances.entries()) {
    const place = `${where}instances[${index}]`
    const latency = entry.latency === undefined ? undefined : config.latencies?.[entry.latency]
    try {
      if (latency?.kind === 'profile') {
        const path = join(folder, latency.csv)
        const profile = profiles.get(path) ?? (await readProfile(path, latency.extrapolate ?? false))
        profiles.set(path, profile)
        const { latency: native, coverage } = profile
        modelled.set(index, { label: entry.latency!, latency: native, kvTokens: undefined, coverage })
      }
      const setup = setupOf(entry, overrides, hardware, folder)
      if (setup !== undefined) modelled.set(index, await estimated(entry, setup, hardware, overrides))
    } catch (error) {
      if (!(error instanceof LaxityError)) throw error
      const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
      if (parts.some((part) => isOverride(part, overrides))) throw error // the same for every instance
      for (const part of parts) problems.absorb(insideInstance(part, place))
    }
  }
  problems.throwIfAny()
  return modelled
}

async function estimated(
  entry: InstanceConfig,
  setup: SetupOptions & { gpu: string },
  hardware: Hardware,
  { model, gpu, tp }: LatencyOverrides,
): Promise<Modelled> {
  // A capacity given for other hardware says nothing about this one.
  const own = model === undefined && gpu === undefined && tp === undefined
  const { precision, kvTokens, kvBytesPerToken } = entry
  const given = own ? { precision, kvTokens, kvBytesPerToken } : { precision }
  return modelledBy(await resolveSetup(setup, hardware), given)
}

/** Undefined: the instance keeps its constants. */
function setupOf(
  entry: InstanceConfig,
  overrides: LatencyOverrides,
  hardware: Hardware,
  folder: string,
): (SetupOptions & { gpu: string }) | undefined {
  if (entry.gpu === undefined) return undefined
  const { model, gpu, tp } = overrides
  const host = entry.tp === undefined && findGpu(entry.gpu) ? HOSTS[entry.gpu.toLowerCase()] : undefined
  const replaced = model !== undefined || gpu !== undefined || tp !== undefined
  if (host !== undefined && !replaced && overrides.latency !== 'calibrated') return undefined
  // The model of a constants-only instance is the trace's name for it, which need not be one of ours.
  const own = entry.model !== undefined && (host === undefined || hardware.models.has(entry.model))
  const { precision, kvPrecision, calibration } = entry
  return {
    model: model ?? (own ? entry.model! : HOST_MODEL),
    gpu: gpu ?? host ?? entry.gpu,
    tp: tp ?? entry.tp ?? (host === undefined ? 1 : HOST_TP),
    precision,
    kvPrecision,
    calibration:
      calibration !== undefined && /[./\\]/.test(calibration) ? join(folder, calibration) : calibration,
  }
}

function isOverride(error: LaxityError, overrides: LatencyOverrides): boolean {
  if (error.code === 'ERR_LAXITY_MEMORY') return Object.values(overrides).some((value) => value !== undefined)
  const place = error.place as keyof LatencyOverrides
  return error.code === 'ERR_LAXITY_OPTION' && overrides[place] !== undefined
}
