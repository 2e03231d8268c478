import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { Redis } from 'ioredis'
import { LaxityError } from '../errors.ts'
import type { TraceTable } from '../traces/table.ts'
import { digest, fromBytes, type Packed, pack, packedLength, toBytes } from './pack.ts'
import { KEEP_S, keys } from './redis.ts'
import type { Study } from './study.ts'

const compress = promisify(gzip)
const expand = promisify(gunzip)

/** Redis holds at most 512 MiB under one key; what is larger than this before compression is not tried. */
const LARGEST = 1 << 30

/** A study as it travels: its traces are named by their content. */
type Manifest = Omit<Study, 'workloads'> & { workloads: { label: string; blob: string }[] }

/** What a study's workers need, ready to be sent, and sent again where Redis has lost it. */
export class Blobs {
  readonly #redis: Redis
  readonly #entries: { key: string; bytes: () => Packed }[]
  readonly #ttl: number

  /** @throws LaxityError ERR_LAXITY_LIMIT */
  constructor(redis: Redis, study: Study, ttl = KEEP_S) {
    this.#redis = redis
    this.#ttl = ttl
    const workloads = study.workloads.map(({ label, trace }) => {
      const packed = pack(trace)
      if (packedLength(packed) > LARGEST) {
        const message = `A trace of ${packedLength(packed)} bytes is too large to travel through Redis: at most ${LARGEST}`
        throw new LaxityError('ERR_LAXITY_LIMIT', message, label)
      }
      return { label, blob: digest(packed), packed }
    })
    const manifest: Manifest = {
      ...study,
      workloads: workloads.map(({ label, blob }) => ({ label, blob })),
    }
    // The manifest last: who finds it finds the rest.
    this.#entries = [
      ...workloads.map(({ blob, packed }) => ({ key: keys.blob(blob), bytes: () => packed })),
      { key: keys.study(study.id), bytes: () => pack(manifest) },
    ]
  }

  /** Sends what is not there, and lets the rest live on. */
  async upload(): Promise<void> {
    for (const { key, bytes } of this.#entries) {
      if ((await this.#redis.expire(key, this.#ttl)) === 1) continue
      await this.#redis.set(key, await compress(toBytes(bytes()), { level: 1 }), 'EX', this.#ttl)
    }
  }

  /** The study's own; traces may serve another and expire by themselves. */
  async remove(): Promise<void> {
    await this.#redis.del(this.#entries.at(-1)!.key)
  }
}

/** @throws Error where Redis does not hold it (any more): the coordinator sends it again. */
export async function download(redis: Redis, id: string): Promise<Study> {
  const manifest = (await load(redis, keys.study(id), `study ${id}`)) as Manifest
  const workloads = []
  for (const { label, blob } of manifest.workloads) {
    workloads.push({ label, trace: (await load(redis, keys.blob(blob), `trace ${label}`)) as TraceTable })
  }
  return { ...manifest, workloads }
}

async function load(redis: Redis, key: string, what: string): Promise<unknown> {
  const bytes = await redis.getBuffer(key)
  if (bytes === null) throw new Error(`${what} is not in Redis`)
  return fromBytes(await expand(bytes))
}

/** A finished chunk as a worker leaves it. */
export interface ResultValue {
  cpuMs: number
  rows: Float64Array
  /** Which process computed it. */
  worker: string
}

export async function encodeResult(value: ResultValue): Promise<Buffer> {
  return compress(toBytes(pack(value)), { level: 1 })
}

export async function decodeResult(bytes: Buffer): Promise<ResultValue> {
  return fromBytes(await expand(bytes)) as ResultValue
}
