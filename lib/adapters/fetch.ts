import type { Scheduler } from '../scheduler/scheduler.ts'
import { createHandler, type HandlerOptions } from './handler.ts'

/** Paths of calls that are scheduled; everything else passes by. */
const SCHEDULED = /\/(?:chat\/completions|completions|responses|messages)$/

/**
 * A `fetch` that schedules: for clients that take one (`new OpenAI({ fetch })`, the AI SDK, LangChain). The host of the
 * request is replaced by that of the leased instance; other requests go where they say.
 */
export function schedulingFetch(scheduler: Scheduler, options: HandlerOptions = {}): typeof fetch {
  const handle = createHandler(scheduler, options)
  return async (input, init) => {
    const request = new Request(input, init)
    if (request.method !== 'POST' || !SCHEDULED.test(new URL(request.url).pathname))
      return (options.fetch ?? fetch)(request)
    const response = await handle(request)
    // Where a client cancels, fetch rejects.
    request.signal.throwIfAborted()
    return response
  }
}
