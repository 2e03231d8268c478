import { LaxityError } from '../errors.ts'
import { Estimator } from '../model/estimate.ts'
import type { Coverage } from '../model/profile.ts'
import { type NamedSetup, namedSetup, type Setup } from '../model/setup.ts'
import type { NativeLatency } from '../native.ts'
import type { InstanceConfig } from './config.ts'

/** An instance whose times are estimated or measured, not given. */
export interface Modelled {
  label: string
  latency: NativeLatency
  /** Undefined: the configuration says. */
  kvTokens: number | undefined
  coverage: Coverage | undefined
  /** Of an estimate: on what, for what, and its KV per token. */
  gpu?: string
  estimated?: string
  kvBytesPerToken?: number
}

/** What is given goes before what is estimated. */
type Given = Pick<InstanceConfig, 'precision' | 'kvTokens' | 'kvBytesPerToken'>

/** @throws LaxityError ERR_LAXITY_MEMORY where the weights leave no room and the capacity is not given. */
export function modelledBy(setup: Setup, { precision, kvTokens, kvBytesPerToken }: Given): Modelled {
  const estimator = new Estimator(setup, 0.9, 3e9)
  const label = estimator.tp > 1 ? `${estimator.gpu}×${estimator.tp}` : estimator.gpu
  return {
    label: precision === 'fp8' ? `${label} fp8` : label,
    latency: { kind: 'roofline', ...estimator.setup.spec },
    kvTokens: kvTokens ?? estimator.kvCapacityTokens,
    coverage: undefined,
    gpu: estimator.gpu,
    estimated: estimator.model,
    kvBytesPerToken: kvBytesPerToken ?? estimator.kvBytesPerToken,
  }
}

/**
 * Of built-in names only, at once: a live scheduler's constructor cannot wait for files.
 *
 * @throws LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_MEMORY
 */
export function namedInstance(setup: NamedSetup, given: Given): Modelled {
  return modelledBy(namedSetup(setup), given)
}

/** Options of an estimate are fields of an instance here. */
export function insideInstance(error: LaxityError, place: string): LaxityError {
  const options = { cause: error }
  if (error.code === 'ERR_LAXITY_OPTION' && error.place !== undefined)
    return new LaxityError('ERR_LAXITY_FIELD', error.message, `${place}.${error.place}`, options)
  return error.place === undefined ? new LaxityError(error.code, error.message, place, options) : error
}
