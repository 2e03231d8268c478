import type { Readable } from 'node:stream'
import type { Scheduler } from '../scheduler/scheduler.ts'
import { createHandler, type HandlerOptions } from './handler.ts'

/** Paths of calls that are scheduled; everything else passes by. */
const SCHEDULED = /\/(?:chat\/completions|completions|responses|messages)$/
const MOST_BODY = 32 * 2 ** 20

/** What is used of undici's options of a dispatch. */
interface Sent {
  origin?: string | URL | undefined
  path: string
  method: string
  headers?: unknown
  body?: unknown
}

/** Handlers as undici 7 has them. */
interface Handler {
  onRequestStart?(controller: Controller, context: object): void
  onResponseStart?(
    controller: Controller,
    status: number,
    headers: Record<string, string | string[]>,
    statusText: string,
  ): void
  onResponseData?(controller: Controller, chunk: Buffer): void
  onResponseEnd?(controller: Controller, trailers: object): void
  onResponseError?(controller: Controller, error: Error): void
}

/** Handlers up to undici 6, and those of the fetch that Node brings. False = wait for `resume`. */
interface OldHandler {
  onConnect?(abort: (reason?: Error) => void, context: object): void
  onHeaders?(status: number, headers: Buffer[], resume: () => void, statusText: string): boolean
  onData?(chunk: Buffer): boolean
  onComplete?(trailers: Buffer[]): void
  onError?(error: Error): void
}

type Dispatch<S, H> = (options: S, handler: H) => boolean

/**
 * An interceptor for undici's dispatchers: `new Agent().compose(schedulingInterceptor(scheduler))`. Whatever goes through
 * that dispatcher, `request`, `stream` or `fetch`, is scheduled where its path is one of a call: the origin is replaced by
 * the leased instance's, which is reached through the same dispatcher. Switch off `bodyTimeout`, and raise
 * `headersTimeout`, where answers take long.
 *
 * `options.fetch` is the fetch that sends to an instance, default the global one, which speaks to dispatchers of undici 6
 * and 7.
 */
export function schedulingInterceptor(
  scheduler: Scheduler,
  options: HandlerOptions = {},
  // Whatever types the caller's undici has for them.
  // biome-ignore lint/suspicious/noExplicitAny: types of another package, of any version
): (dispatch: Dispatch<any, any>) => Dispatch<any, any> {
  createHandler(scheduler, options) // what is wrong is refused here, not by the first dispatcher
  return (dispatch) => {
    const send = options.fetch ?? fetch
    const handle = createHandler(scheduler, {
      ...options,
      fetch: (input, init) => send(input, { ...init, dispatcher: { dispatch } } as RequestInit),
    })
    return (sent: Sent, handler: Handler & OldHandler): boolean => {
      const url = new URL(sent.path, sent.origin ?? 'http://scheduler')
      if (sent.method !== 'POST' || !SCHEDULED.test(url.pathname)) return dispatch(sent, handler)
      const most = options.maxBodyBytes ?? MOST_BODY
      void answer(url, sent, most, handle, new Controller(handler))
      return true
    }
  }
}

/** Tells the handler, in its own version's words, what comes of a request; an end or an error once, and nothing after it. */
class Controller {
  readonly #handler: Handler & OldHandler
  readonly #abort = new AbortController()
  readonly #modern: boolean
  #resume: (() => void) | undefined
  #over = false
  paused = false
  aborted = false
  reason: Error | null = null
  /** undici's fetch reads these. */
  rawHeaders: Buffer[] = []
  rawTrailers: Buffer[] = []

  constructor(handler: Handler & OldHandler) {
    this.#handler = handler
    this.#modern = typeof handler.onRequestStart === 'function'
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  pause(): void {
    this.paused = true
  }

  readonly resume = (): void => {
    this.paused = false
    this.#resume?.()
    this.#resume = undefined
  }

  readonly abort = (reason?: Error): void => {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason ?? Object.assign(new Error('Request aborted'), { name: 'AbortError' })
    this.#abort.abort(this.reason)
    this.resume()
  }

  /** When the handler wants more. */
  async ready(): Promise<void> {
    if (this.paused && !this.aborted)
      await new Promise<void>((resolve) => {
        this.#resume = resolve
      })
  }

  start(): void {
    if (this.#modern) this.#handler.onRequestStart!(this, {})
    else this.#handler.onConnect?.(this.abort, {})
  }

  headers({ status, statusText, headers }: Response): void {
    const list: [string, string][] = [...headers]
    this.rawHeaders = list.flatMap(([name, value]) => [Buffer.from(name), Buffer.from(value, 'latin1')])
    if (this.#modern) {
      const object: Record<string, string | string[]> = {}
      for (const [name, value] of list) {
        const before = object[name]
        object[name] = before === undefined ? value : [before, value].flat()
      }
      this.#handler.onResponseStart?.(this, status, object, statusText)
    } else if (this.#handler.onHeaders?.(status, this.rawHeaders, this.resume, statusText) === false) {
      this.pause()
    }
  }

  data(chunk: Uint8Array): void {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (this.#modern) this.#handler.onResponseData?.(this, bytes)
    else if (this.#handler.onData?.(bytes) === false) this.pause()
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    if (this.#modern) this.#handler.onResponseEnd?.(this, {})
    else this.#handler.onComplete?.([])
  }

  fail(error: Error): void {
    if (this.#over) return
    this.#over = true
    if (this.#modern) this.#handler.onResponseError?.(this, error)
    else this.#handler.onError?.(error)
  }
}

async function answer(
  url: URL,
  { headers, body }: Sent,
  most: number,
  handle: (request: Request) => Promise<Response>,
  controller: Controller,
): Promise<void> {
  const { signal } = controller
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  try {
    controller.start()
    signal.throwIfAborted()
    const request = new Request(url, {
      method: 'POST',
      headers: headersOf(headers),
      body: await bodyOf(body, most),
      signal,
    })
    const response = await handle(request)
    reader = response.body?.getReader()
    signal.throwIfAborted()
    controller.headers(response)
    while (reader !== undefined) {
      await controller.ready()
      signal.throwIfAborted()
      const { done, value } = await reader.read()
      signal.throwIfAborted()
      if (done) break
      controller.data(value)
    }
    controller.end()
  } catch (error) {
    await reader?.cancel().catch(() => {})
    controller.fail(controller.reason ?? (error as Error))
  }
}

/** An object, [name, value, …], pairs, or nothing. */
function headersOf(given: unknown): Headers {
  const headers = new Headers()
  if (typeof given !== 'object' || given === null) return headers
  const add = (name: unknown, value: unknown) => {
    for (const one of [value].flat())
      if (one !== undefined && one !== null) headers.append(`${name}`, `${one}`)
  }
  if (Array.isArray(given) && !Array.isArray(given[0]))
    for (let i = 0; i + 1 < given.length; i += 2) add(given[i], given[i + 1])
  else if (Symbol.iterator in given)
    for (const [name, value] of given as Iterable<[unknown, unknown]>) add(name, value)
  else for (const [name, value] of Object.entries(given)) add(name, value)
  return headers
}

/** Of a stream only what shows that it is too long. */
async function bodyOf(body: unknown, most: number): Promise<NonNullable<RequestInit['body']> | null> {
  if (body === undefined || body === null) return null
  if (typeof body !== 'object' || !(Symbol.asyncIterator in body))
    return body as NonNullable<RequestInit['body']>
  const chunks: Buffer[] = []
  let length = 0
  // No `for await`: leaving it would destroy a stream with an error, which undici takes for the request's.
  const iterator = (body as AsyncIterable<Uint8Array | string>)[Symbol.asyncIterator]()
  for (;;) {
    const { done, value } = await iterator.next()
    if (done) break
    const bytes = Buffer.from(value as string)
    chunks.push(bytes)
    length += bytes.length
    if (length <= most) continue
    ;(body as Partial<Readable>).destroy?.()
    break
  }
  return Buffer.concat(chunks)
}
