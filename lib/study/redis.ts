import type { Redis } from 'ioredis'
import { describe, LaxityError } from '../errors.ts'
import { version } from './version.ts'

export type Bullmq = typeof import('bullmq')

/** Every key begins with it. */
export const PREFIX = 'laxity'

/** Workers of another version never see the jobs of this one: their numbers could differ. */
export function queueName(): string {
  return `study-${version()}`
}

export const keys = {
  study: (id: string) => `${PREFIX}:study:${id}`,
  blob: (sha: string) => `${PREFIX}:blob:${sha}`,
  result: (job: string) => `${PREFIX}:result:${job}`,
}

/** How long what a study left behind stays, s. */
export const KEEP_S = 86_400

export function jobId(study: string, { from, to }: { from: number; to: number }): string {
  return `${study}-${from}-${to}`
}

/** What a job carries; everything else is found by the study's id. */
export interface JobData {
  study: string
  from: number
  to: number
}

const CONNECT_MS = 5000
const MOST_RETRY_MS = 1000

/** Packages that only studies on several machines need. @throws LaxityError ERR_LAXITY_PACKAGE */
export async function loadPackages(): Promise<{ bullmq: Bullmq; Redis: typeof Redis }> {
  try {
    const [bullmq, ioredis] = await Promise.all([import('bullmq'), import('ioredis')])
    return { bullmq, Redis: ioredis.Redis }
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause
    const message = 'Studies on several machines need two packages: run `npm install bullmq ioredis`'
    throw new LaxityError('ERR_LAXITY_PACKAGE', message, undefined, { cause })
  }
}

/** For messages: without the password. */
export function publicUrl(url: string): string {
  const parsed = new URL(url)
  if (parsed.password !== '') parsed.password = '…'
  return decodeURIComponent(parsed.href)
}

/** @throws LaxityError ERR_LAXITY_OPTION */
export function checkUrl(url: unknown): asserts url is string {
  const valid =
    typeof url === 'string' && URL.canParse(url) && ['redis:', 'rediss:'].includes(new URL(url).protocol)
  if (valid) return
  // What was typed may hold a password.
  const shown = typeof url === 'string' ? 'something else' : describe(url)
  const message = `Expected redis://[user:password@]host[:port][/database] for \`redis\`, got ${shown}`
  throw new LaxityError('ERR_LAXITY_OPTION', message, 'redis')
}

/**
 * A connection that has answered once; later it comes back by itself, as often as needed.
 *
 * @throws LaxityError ERR_LAXITY_OPTION, ERR_LAXITY_PACKAGE, ERR_LAXITY_REDIS (unreachable, wrong password, no Redis).
 */
export async function connect(url: unknown, onNotice: (text: string) => void): Promise<Redis> {
  checkUrl(url)
  const { Redis } = await loadPackages()
  let ready = false
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: null,
    connectTimeout: CONNECT_MS,
    retryStrategy: (times) => (ready ? Math.min(50 * 2 ** Math.min(times, 6), MOST_RETRY_MS) : null),
  })
  let problem: Error | undefined
  let lost = false
  redis.on('error', (error: Error) => {
    problem = error
  })
  try {
    await within(redis.connect(), CONNECT_MS + 1000)
    // A wrong password is not known before a command is refused.
    await within(redis.ping(), CONNECT_MS)
  } catch (error) {
    redis.disconnect()
    throw redisError(url, problem ?? (error as Error))
  }
  ready = true
  redis.on('close', () => {
    if (lost || redis.status === 'end') return
    lost = true
    onNotice(`the connection to ${publicUrl(url)} is lost: waiting for it`)
  })
  redis.on('ready', () => {
    if (lost) onNotice(`${publicUrl(url)} is back`)
    lost = false
  })
  return redis
}

function redisError(url: string, cause: Error): LaxityError {
  const { code, message } = cause as NodeJS.ErrnoException
  const refused = /NOAUTH|WRONGPASS|NOPERM|invalid password|invalid username|without any password/i.test(
    message,
  )
  const text = refused
    ? `Refuses the password or user (${message})`
    : `Cannot be reached (${code ?? (message || 'no answer')})`
  return new LaxityError('ERR_LAXITY_REDIS', text, publicUrl(url), { cause })
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer')), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
