import type { Scheduler } from '../scheduler/scheduler.ts'
import { createHandler, type HandlerOptions } from './handler.ts'

/**
 * A handler for Hono, or for any router that gives a web `Request`:
 *
 *     app.post('/v1/chat/completions', schedulingHandler(scheduler))
 */
export function schedulingHandler(
  scheduler: Scheduler,
  options: HandlerOptions = {},
): (context: { req: { raw: Request } }) => Promise<Response> {
  const handle = createHandler(scheduler, options)
  return (context) => handle(context.req.raw)
}
