import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Scheduler } from '../scheduler/scheduler.ts'
import { createHandler, type HandlerOptions } from './handler.ts'

const SCHEDULED = /\/(?:chat\/completions|completions|responses|messages)(?:\?|$)/

/**
 * Middleware for Express, Connect and plain `node:http` (`next` may be left out: then it answers everything), and for
 * Fastify through its raw request and reply. Put it before body parsers, or behind one that keeps `req.body`.
 */
export function schedulingMiddleware(
  scheduler: Scheduler,
  options: HandlerOptions = {},
): (
  req: IncomingMessage & { body?: unknown; originalUrl?: string },
  res: ServerResponse,
  next?: (error?: unknown) => void,
) => void {
  const handle = createHandler(scheduler, options)
  return (req, res, next) => {
    const url = req.originalUrl ?? req.url ?? '/'
    if (next !== undefined && (req.method !== 'POST' || !SCHEDULED.test(url))) {
      next()
      return
    }
    answer(req, res, url, handle).catch((error) => {
      if (next !== undefined && !res.headersSent) next(error)
      else res.destroy(error as Error)
    })
  }
}

async function answer(
  req: IncomingMessage & { body?: unknown },
  res: ServerResponse,
  url: string,
  handle: (request: Request) => Promise<Response>,
): Promise<void> {
  const gone = new AbortController()
  res.on('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) {
    if (value !== undefined) for (const one of [value].flat()) headers.append(name, one)
  }
  const body = await bodyOf(req)
  const request = new Request(new URL(url, 'http://scheduler'), {
    method: req.method ?? 'GET',
    headers,
    ...(req.method !== 'GET' && req.method !== 'HEAD' && { body: body as Uint8Array<ArrayBuffer> }),
    signal: gone.signal,
  })
  const response = await handle(request)
  if (res.destroyed) {
    await response.body?.cancel()
    return
  }
  res.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body === null) {
    res.end()
    return
  }
  const reader = response.body.getReader()
  gone.signal.addEventListener('abort', () => void reader.cancel().catch(() => {}))
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    if (!res.write(value) && !res.destroyed)
      await new Promise<void>((resolve) => {
        const go = () => {
          res.off('drain', go)
          res.off('close', go)
          resolve()
        }
        res.on('drain', go)
        res.on('close', go)
      })
  }
  res.end()
}

/** What a body parser left, or the stream itself. */
async function bodyOf(req: IncomingMessage & { body?: unknown }): Promise<Uint8Array> {
  const { body } = req
  if (body instanceof Uint8Array) return body
  if (typeof body === 'string') return Buffer.from(body)
  if (body !== undefined && body !== null && typeof body === 'object')
    return Buffer.from(JSON.stringify(body))
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
