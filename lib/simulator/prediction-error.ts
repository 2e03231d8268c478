import { describe, expected, quote } from '../errors.ts'
import type { NativeError } from '../native.ts'
import { hint } from '../report/near.ts'
import type { OptionReader } from './validate.ts'

/** How wrong the scheduler's predictions are. Also written as text: `length=lognormal:0.4,time=gpu:0.2,batch=0.5`. */
export interface PredictionErrorOptions {
  /**
   * Factor on every predicted output length, drawn once per call: `lognormal:SIGMA` (mean 1), `mean-absolute:SIZE`
   * (lognormal with that mean absolute relative error), `uniform:X` (1 ± X), `bias:X` (1 + X), or
   * `heavy-tail[:SHARE:FACTOR]` (5 % of the calls off by a factor of 4, up or down).
   */
  length?: string | undefined
  /** Correlation of the length errors of one workflow, 0 (default) to 1. */
  correlation?: number | undefined
  /** `gpu:SIGMA`: the scheduler believes all times of a latency model off by one lognormal factor, mean 1. */
  time?: string | undefined
  /** Factor on the decode time per further sequence that the scheduler believes; default 1. */
  batch?: number | undefined
}

/** A checked error: for the core, and as text in its one form. */
export interface CheckedError {
  native: Omit<NativeError, 'seed'>
  text: string
}

interface Range {
  name: string
  low: number
  high: number
}

const LENGTHS: Readonly<Record<Exclude<NativeError['length'], 'none'>, Range>> = {
  lognormal: { name: 'SIGMA', low: 0, high: 3 },
  'mean-absolute': { name: 'SIZE', low: 0, high: 1.5 },
  uniform: { name: 'X', low: 0, high: 0.99 },
  bias: { name: 'X', low: -0.99, high: 10 },
  'heavy-tail': { name: 'FACTOR', low: 1, high: 100 },
}
const SHARE: Range = { name: 'SHARE', low: 0, high: 1 }
const CORRELATION: Range = { name: 'correlation', low: 0, high: 1 }
const GPU: Range = { name: 'SIGMA', low: 0, high: 1 }
const BATCH: Range = { name: 'batch', low: 0, high: 10 }
const PARTS = ['length', 'correlation', 'time', 'batch'] as const
const TAIL = { share: 0.05, factor: 4 }

/** Reads the option `error`; problems are left in the reader. Undefined where there is none. */
export function readError(reader: OptionReader): CheckedError | undefined {
  const given = reader.raw('error')
  if (given === undefined) return undefined
  const parts = typeof given === 'string' ? split(reader, given) : fields(reader, given)
  if (parts === undefined) return undefined

  const error: CheckedError['native'] = {
    length: 'none',
    size: 0,
    share: TAIL.share,
    correlation: 0,
    gpu: 0,
    batch: 1,
  }
  const text: string[] = []
  if (parts.has('length')) {
    const read = readLength(reader, parts.get('length'))
    if (read === undefined) return undefined
    Object.assign(error, read.native)
    text.push(`length=${read.text}`)
  }
  for (const part of ['correlation', 'batch'] as const) {
    if (!parts.has(part)) continue
    const number = part === 'batch' ? BATCH : CORRELATION
    const value = within(reader, part, parts.get(part), number)
    if (value === undefined) return undefined
    error[part] = value
  }
  if (parts.has('correlation')) {
    if (error.length === 'none') {
      reader.add('`error`: `correlation` is that of length errors: give `length` too', 'error')
      return undefined
    }
    text.push(`correlation=${error.correlation}`)
  }
  if (parts.has('time')) {
    const [kind, sigma, ...rest] = String(parts.get('time')).split(':')
    if (kind !== 'gpu' || sigma === undefined || rest.length > 0) {
      reader.add(`Expected gpu:SIGMA for \`time\` of \`error\`, got ${describe(parts.get('time'))}`, 'error')
      return undefined
    }
    const value = within(reader, 'time=gpu', sigma, GPU)
    if (value === undefined) return undefined
    error.gpu = value
    text.push(`time=gpu:${value}`)
  }
  if (parts.has('batch')) text.push(`batch=${error.batch}`)
  return { native: error, text: text.join(',') }
}

type Parts = Map<string, unknown>

function split(reader: OptionReader, given: string): Parts | undefined {
  const parts: Parts = new Map()
  for (const part of given.split(',')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(at, 0)).trim()
    const value = part.slice(at + 1).trim()
    if (at < 0 || value === '') {
      reader.wrong('parts like length=lognormal:0.4 or time=gpu:0.2, with commas between', 'error', given)
      return undefined
    }
    if (!known(reader, name)) return undefined
    if (parts.has(name)) {
      reader.add(`\`error\` gives \`${name}\` twice`, 'error')
      return undefined
    }
    parts.set(name, value)
  }
  return parts
}

function fields(reader: OptionReader, given: unknown): Parts | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    reader.wrong('text or an object', 'error', given)
    return undefined
  }
  const parts: Parts = new Map()
  for (const [name, value] of Object.entries(given)) {
    if (!known(reader, name)) return undefined
    if (value !== undefined) parts.set(name, value)
  }
  return parts
}

function known(reader: OptionReader, name: string): boolean {
  if (PARTS.includes(name as 'length')) return true
  reader.add(`Unknown part ${quote(name)} of \`error\`${hint(name, PARTS)}`, 'error')
  return false
}

function readLength(
  reader: OptionReader,
  given: unknown,
): { native: Pick<NativeError, 'length' | 'size' | 'share'>; text: string } | undefined {
  const [kind = '', ...numbers] = String(given).split(':')
  if (typeof given !== 'string' || !Object.hasOwn(LENGTHS, kind)) {
    const what = typeof given === 'string' ? quote(kind) : describe(given)
    reader.add(`Unknown kind ${what} of length \`error\`${hint(kind, Object.keys(LENGTHS))}`, 'error')
    return undefined
  }
  const length = kind as keyof typeof LENGTHS
  const number = LENGTHS[length]
  const tail = length === 'heavy-tail'
  if (tail && numbers.length === 0) {
    return { native: { length, size: TAIL.factor, share: TAIL.share }, text: kind }
  }
  if (numbers.length !== (tail ? 2 : 1)) {
    const form = tail ? 'heavy-tail or heavy-tail:SHARE:FACTOR' : `${kind}:${number.name}`
    reader.add(`Expected ${form} for \`length\` of \`error\`, got ${describe(given)}`, 'error')
    return undefined
  }
  const share = tail ? within(reader, `length=${kind}`, numbers[0], SHARE) : TAIL.share
  const size = within(reader, `length=${kind}`, numbers.at(-1), number)
  if (share === undefined || size === undefined) return undefined
  return { native: { length, size, share }, text: tail ? `${kind}:${share}:${size}` : `${kind}:${size}` }
}

function within(reader: OptionReader, what: string, given: unknown, number: Range): number | undefined {
  const text = typeof given === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(given)
  const value = text ? Number(given) : given
  if (typeof value === 'number' && value >= number.low && value <= number.high) return value
  const name = number.name === what ? what : `${what}, ${number.name}`
  reader.add(
    `${expected(`a number from ${number.low} to ${number.high}`, 'error', given)} (${name})`,
    'error',
  )
  return undefined
}
