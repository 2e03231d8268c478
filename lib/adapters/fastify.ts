import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Scheduler } from '../scheduler/scheduler.ts'
import type { HandlerOptions } from './handler.ts'
import { schedulingMiddleware } from './node.ts'

/** What is used of Fastify. */
interface Request {
  raw: IncomingMessage & { body?: unknown }
  body?: unknown
  /** With the prefix it was registered under. */
  originalUrl?: string
}
interface Reply {
  raw: ServerResponse
  hijack(): unknown
}

/**
 * A route handler for Fastify: takes the reply over and answers on its raw objects, so hooks after it are skipped.
 *
 *     app.post('/v1/chat/completions', schedulingRoute(scheduler))
 */
export function schedulingRoute(
  scheduler: Scheduler,
  options: HandlerOptions = {},
): (request: Request, reply: Reply) => void {
  const middleware = schedulingMiddleware(scheduler, options)
  return (request, reply) => {
    reply.hijack()
    // Fastify has read the body already.
    const req = Object.assign(request.raw, {
      ...(request.body !== undefined && { body: request.body }),
      ...(request.originalUrl !== undefined && { originalUrl: request.originalUrl }),
    })
    middleware(req, reply.raw)
  }
}
