import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createServer } from 'node:net'

/** Skips a suite, saying so, where there is no redis-server. */
export function skipWithoutRedis(context: Mocha.Context): void {
  if (spawnSync('redis-server', ['--version']).status === 0) return
  console.log('      skipped: redis-server is missing (Debian: apt-get install redis-server)')
  context.skip()
}

export interface RedisServer {
  port: number
  url: string
  /** Ends it as a crash would. */
  kill(): Promise<void>
}

export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}

/** A real server without persistence, in `folder`, on a free port or on the given one. */
export async function startRedis(
  folder: string,
  options: { port?: number; password?: string } = {},
): Promise<RedisServer> {
  const port = options.port ?? (await freePort())
  const args = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    folder,
  ]
  if (options.password !== undefined) args.push('--requirepass', options.password)
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] })
  await heard(child, child.stdout, /Ready to accept connections/)
  child.stdout.resume()
  return { port, url: `redis://127.0.0.1:${port}`, kill: () => ended(child, 'SIGKILL') }
}

/** Waits until a stream of a process says it. */
export function heard(child: ChildProcess, stream: NodeJS.ReadableStream, pattern: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = ''
    const listen = (data: Buffer | string) => {
      text += data
      if (!pattern.test(text)) return
      stream.off('data', listen)
      resolve()
    }
    stream.on('data', listen)
    child.once('close', () => reject(new Error(`ended without ${pattern}: ${text}`)))
  })
}

export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await gone
}
