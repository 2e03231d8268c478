import { expected, LaxityError } from '../errors.ts'
import { type NativeLink, type NativeRooflineModel, native } from '../native.ts'
import { count } from '../report/units.ts'
import { resolveSetup, SETUP_KEYS, type Setup, type SetupOptions } from './setup.ts'

export interface EstimatorOptions extends SetupOptions {
  /** Share of the memory that the engine may use; default 0.9. */
  utilisation?: number | undefined
  /** Kept free per GPU, 10⁹ bytes; default 3. */
  reserveGB?: number | undefined
}

/** A link's options; what is left out is the calibration's default. */
export interface LinkOptions {
  /** Share of the bandwidth that a stream reaches; default 0.72 (measured once, H100 between hosts). */
  efficiency?: number | undefined
  /** Default 0.02. */
  latencyMs?: number | undefined
  /** Default 1 (assumed). */
  handshakeMs?: number | undefined
  /** Bytes sent per byte of KV; default 1. */
  compression?: number | undefined
  /** Parallel streams; default the smaller tensor parallelism (assumed). */
  lanes?: number | undefined
  /** Of one lane, 10⁹ B/s; default the smaller network. */
  bandwidthGBps?: number | undefined
}

export interface TransferOptions extends LinkOptions {
  /** Where to; default the same hardware. */
  to?: Estimator | undefined
  /** Time of the prefill that layers are sent during: then the answer is what remains after its end. */
  overlappedWithMs?: number | undefined
}

export interface Prompt {
  newTokens: number
  /** Already in the KV cache; default 0. */
  cachedTokens?: number | undefined
}

const MOST_TOKENS = 100_000_000
const MOST_SEQUENCES = 65_535

/**
 * Estimates for one model on one kind of instance.
 *
 * @throws LaxityError as `resolveSetup`: ERR_LAXITY_OPTION, ERR_LAXITY_FIELD, and the codes of the files' readers.
 */
export async function createEstimator(options: EstimatorOptions): Promise<Estimator> {
  const { utilisation = 0.9, reserveGB = 3, ...rest } = options
  for (const name of Object.keys(rest)) {
    if (SETUP_KEYS.includes(name as keyof SetupOptions)) continue
    throw new LaxityError('ERR_LAXITY_OPTION', `Unknown option \`${name}\``, name)
  }
  check(utilisation > 0 && utilisation <= 1, 'a number above 0 and up to 1', 'utilisation', utilisation)
  check(reserveGB >= 0 && reserveGB <= 1000, 'a number from 0 to 1000', 'reserveGB', reserveGB)
  return new Estimator(await resolveSetup(rest), utilisation, reserveGB * 1e9)
}

/**
 * The calibrated roofline (docs/latency-model.md). Times in ms. Every estimate has the error `errorBand`: decode times
 * were checked against measurements, prefill times only through them, and time to first token is not claimed at all.
 */
export class Estimator {
  readonly setup: Setup
  readonly model: string
  readonly gpu: string
  readonly tp: number
  /** The kernels' calibration, and the serving stack where it is another than the default. */
  readonly calibration: string
  /** Mean absolute relative error to expect of a time per output token. */
  readonly errorBand: number
  /** What was taken from other hardware or assumed, a sentence each. */
  readonly transferred: readonly string[]
  readonly kvBytesPerToken: number
  readonly weightBytes: number
  readonly #roofline: NativeRooflineModel
  readonly #kv: { status: number; tokens: number; usableBytes: number }

  constructor(setup: Setup, utilisation: number, reserveBytes: number) {
    this.setup = setup
    this.model = setup.model
    this.gpu = setup.gpu
    this.tp = setup.spec.tensorParallel
    this.calibration = setup.calibration.id
    this.errorBand = setup.band.relative
    this.transferred = setup.band.transferred
    this.#roofline = new native.Roofline(setup.spec)
    const reserve = Math.min(reserveBytes, setup.spec.gpu.memory)
    const memory = this.#roofline.memory(utilisation, reserve)
    this.kvBytesPerToken = memory.kvBytesPerToken
    this.weightBytes = memory.weightBytes
    const usableBytes = utilisation * setup.spec.gpu.memory - reserve
    this.#kv = { status: memory.status, tokens: memory.kvTokens, usableBytes }
  }

  /** Whether weights and at least one token of KV fit. */
  get fits(): boolean {
    return this.#kv.status === 0
  }

  /** @throws LaxityError ERR_LAXITY_MEMORY where the weights leave no room. */
  get kvCapacityTokens(): number {
    if (this.fits) return this.#kv.tokens
    const weights = (this.weightBytes / this.tp / 1e9).toFixed(1)
    const usable = (Math.max(0, this.#kv.usableBytes) / 1e9).toFixed(1)
    throw new LaxityError(
      'ERR_LAXITY_MEMORY',
      `${this.model} does not fit on ${this.tp} × ${this.gpu}: ${weights} GB of weights per GPU, ${usable} GB usable`,
    )
  }

  /** One prompt, alone; with `chunkTokens` in iterations of at most so many. The first token comes from the last. */
  prefillMs(prompt: Prompt & { chunkTokens?: number | undefined }): number {
    const { newTokens, cachedTokens = 0, chunkTokens = newTokens } = prompt
    checkCount('newTokens', newTokens, 1, MOST_TOKENS)
    checkCount('cachedTokens', cachedTokens, 0, MOST_TOKENS)
    checkCount('chunkTokens', chunkTokens, 1, MOST_TOKENS)
    check(newTokens / chunkTokens <= 1e6, 'at most a million chunks', 'chunkTokens', chunkTokens)
    const loads: number[] = []
    for (let done = 0; done < newTokens; done += chunkTokens) {
      const fresh = Math.min(chunkTokens, newTokens - done)
      const cached = cachedTokens + done
      const last = done + fresh === newTokens
      loads.push(0, 0, (fresh * (2 * cached + fresh)) / 2, fresh, cached + fresh, last ? 1 : 0)
    }
    return sum(this.#iterations(loads))
  }

  /** One iteration of `batch` sequences with `context` tokens in the KV cache over all of them. */
  decodeMs(batch: number, context: number): number {
    checkCount('batch', batch, 1, MOST_SEQUENCES)
    checkCount('context', context, 0, MOST_SEQUENCES * MOST_TOKENS)
    return this.#iterations([batch, context, 0, 0, 0, batch])[0]!
  }

  /** One iteration that carries decoding sequences and chunks of prompts. `samples`: how many emit a token. */
  iterationMs(load: {
    batch: number
    context: number
    prompts: readonly Prompt[]
    samples?: number | undefined
  }): number {
    const { batch, context, prompts, samples = batch + prompts.length } = load
    checkCount('batch', batch, 0, MOST_SEQUENCES)
    checkCount('context', context, 0, MOST_SEQUENCES * MOST_TOKENS)
    checkCount('samples', samples, 0, MOST_SEQUENCES)
    let [pairs, fresh, touched] = [0, 0, 0]
    for (const { newTokens, cachedTokens = 0 } of prompts) {
      checkCount('newTokens', newTokens, 1, MOST_TOKENS)
      checkCount('cachedTokens', cachedTokens, 0, MOST_TOKENS)
      pairs += (newTokens * (2 * cachedTokens + newTokens)) / 2
      fresh += newTokens
      touched += cachedTokens + newTokens
    }
    return this.#iterations([batch, context, pairs, fresh, touched, samples])[0]!
  }

  /** The KV of `tokens` from here to another instance. */
  transferMs(tokens: number, options: TransferOptions = {}): number {
    const { to = this, overlappedWithMs, ...link } = options
    checkCount('tokens', tokens, 0, MOST_TOKENS)
    if (overlappedWithMs !== undefined)
      check(
        overlappedWithMs >= 0 && overlappedWithMs < 1e12,
        'a time in ms',
        'overlappedWithMs',
        overlappedWithMs,
      )
    return this.#roofline.transfer(to.#roofline, tokens, checkLink(link), overlappedWithMs)
  }

  /** Cached KV from a slower tier: `host` memory, a local `disk` (7 GB/s, assumed), another host over the `network`. */
  loadMs(tokens: number, tier: 'host' | 'disk' | 'network', options: LinkOptions = {}): number {
    checkCount('tokens', tokens, 0, MOST_TOKENS)
    check(['host', 'disk', 'network'].includes(tier), '"host", "disk" or "network"', 'tier', tier)
    return this.#roofline.load(tokens, tier, checkLink(options))
  }

  #iterations(loads: readonly number[]): Float64Array {
    const out = new Float64Array(loads.length / 6)
    this.#roofline.iterations(Float64Array.from(loads), out)
    return out
  }
}

/** "472,092 tokens, 154.7 GB". */
export function kvText(estimator: Estimator): string {
  const tokens = estimator.kvCapacityTokens
  return `${count(tokens)} tokens, ${((tokens * estimator.kvBytesPerToken) / 1e9).toFixed(1)} GB`
}

function checkLink(options: LinkOptions): NativeLink {
  const bounds: Record<keyof LinkOptions, [number, number]> = {
    efficiency: [1e-3, 1],
    latencyMs: [0, 1e6],
    handshakeMs: [0, 1e6],
    compression: [1e-3, 10],
    lanes: [1, 1024],
    bandwidthGBps: [1e-3, 1e5],
  }
  const link: NativeLink = {}
  for (const [name, value] of Object.entries(options) as [keyof LinkOptions, number | undefined][]) {
    if (value === undefined) continue
    const bound = bounds[name]
    if (bound === undefined) throw new LaxityError('ERR_LAXITY_OPTION', `Unknown option \`${name}\``, name)
    check(value >= bound[0] && value <= bound[1], `a number from ${bound[0]} to ${bound[1]}`, name, value)
    link[name] = value
  }
  return link
}

function checkCount(name: string, value: number, low: number, high: number): void {
  check(
    Number.isInteger(value) && value >= low && value <= high,
    `a whole number from ${low} to ${high}`,
    name,
    value,
  )
}

function check(good: boolean, what: string, name: string, got: unknown): void {
  if (!good) throw new LaxityError('ERR_LAXITY_OPTION', expected(what, name, got), name)
}

function sum(values: Float64Array): number {
  let total = 0
  for (const value of values) total += value
  return total
}
