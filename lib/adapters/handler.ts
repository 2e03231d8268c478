import { expected, LaxityError } from '../errors.ts'
import { type IdentityOptions, identify } from '../scheduler/identity.ts'
import type { Lease } from '../scheduler/lease.ts'
import { classify, retryAfterMs } from '../scheduler/outcome.ts'
import type { RejectionError } from '../scheduler/rejection.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import type { CallOptions, Workflow } from '../scheduler/workflow.ts'
import { legBody, legHeaders, legTarget, legUrl } from './leg.ts'
import { type KeptKv, PairFailure, type PairProtocol, sendPair, unsupportedByPairs } from './pairs.ts'
import { blocksOf, PrefixMemory, wholeBlockTokens } from './prefix.ts'
import { StreamWatch, usageOf } from './sse.ts'

export interface HandlerOptions extends IdentityOptions {
  /** The workflow of every request; left out, it is read from each request (`identify`). */
  workflow?: Workflow | undefined
  /** Further facts of a call, such as counted prompt tokens: overrides what is read from the body. */
  describe?: ((body: Record<string, unknown>, headers: Headers) => Partial<CallOptions>) | undefined
  /**
   * Expect an instance to have cached what a prompt shares with the workflow's last one there, and price it so; an engine
   * whose usage says that it had nothing is believed. Default true. `replicas`: several processes route to the same
   * engines, so a session that this one does not know, and that has an id, is expected at its `homeOf`.
   */
  affinity?: boolean | 'replicas' | undefined
  /** How requests reach an instance; default the global fetch. */
  fetch?: typeof fetch | undefined
  /** How the engines of a prefill-decode cluster hand KV over; required there. */
  protocol?: PairProtocol | undefined
  /** Say in response headers which instance served and how long the call waited; default false. */
  expose?: boolean | undefined
  /** Largest request body, bytes; default 32 MiB. */
  maxBodyBytes?: number | undefined
}

const MOST_BODY = 32 * 2 ** 20
const MOST_ERROR = 64 * 1024
/** Headers of one connection, or that fetch sets itself. */
const HOP_HEADERS = [
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'upgrade',
  'te',
  'trailer',
  'expect',
]
const LIFE_SIGN_MS = 5_000
const NO_BLOCKS = new Uint32Array(0)

/**
 * A proxy as a function from Request to Response: leases the call, sends it to the leased instance, tries again elsewhere
 * before the first byte, relays bytes unchanged, and closes the lease whatever happens. Everything that reaches an
 * instance goes through here, so nothing is uncounted.
 */
export function createHandler(
  scheduler: Scheduler,
  options: HandlerOptions = {},
): (request: Request) => Promise<Response> {
  if (typeof scheduler?.workflow !== 'function')
    throw new LaxityError('ERR_LAXITY_OPTION', expected('a Scheduler', 'scheduler', scheduler), 'scheduler')
  if (typeof options !== 'object' || options === null)
    throw new LaxityError('ERR_LAXITY_OPTION', expected('an object', 'options', options), 'options')
  const { protocol } = options
  if (protocol !== undefined && protocol !== 'sglang' && protocol !== 'vllm')
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      expected('"sglang" or "vllm"', 'protocol', protocol),
      'protocol',
    )
  if (scheduler.paired !== (protocol !== undefined)) {
    const message = scheduler.paired
      ? 'A prefill-decode cluster needs `protocol`: "sglang" or "vllm"'
      : '`protocol` is for prefill-decode clusters'
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'protocol')
  }
  const { affinity = true } = options
  if (affinity !== 'replicas' && typeof affinity !== 'boolean')
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      expected('true, false or "replicas"', 'affinity', affinity),
      'affinity',
    )
  const prefixes = affinity === false ? undefined : new PrefixMemory()
  return async (request) => {
    try {
      return await serve(scheduler, options, prefixes, request)
    } catch (error) {
      return errorResponse(error)
    }
  }
}

async function serve(
  scheduler: Scheduler,
  options: HandlerOptions,
  prefixes: PrefixMemory | undefined,
  request: Request,
): Promise<Response> {
  const most = options.maxBodyBytes ?? MOST_BODY
  const declared = Number(request.headers.get('content-length') ?? 0)
  const bytes = declared > most ? undefined : new Uint8Array(await request.arrayBuffer())
  if (bytes === undefined || bytes.length > most)
    return problem(413, 'request_too_large', `The body has more than ${most} bytes`)
  const body = parseBody(bytes)
  if (body === undefined) return problem(400, 'invalid_json', 'Expected a JSON object')
  const unsupported = scheduler.paired ? unsupportedByPairs(body) : undefined
  if (unsupported !== undefined) return problem(400, 'invalid_request_error', unsupported)
  const identity = identify(request.headers, body, options)
  const { signal } = request

  let { workflow } = options
  const own = workflow === undefined && identity.workflow === undefined
  workflow ??= scheduler.workflow({
    ...(identity.workflow !== undefined && { id: identity.workflow }),
    ...(identity.tenant !== undefined && { tenant: identity.tenant }),
    ...(identity.sloMs !== undefined && { sloMs: identity.sloMs }),
  })
  const over = () => {
    if (own || request.headers.get('x-dynamo-session-final') === 'true') workflow.end()
  }
  const memory = own ? undefined : prefixes
  const blocks = memory === undefined ? NO_BLOCKS : blocksOf(promptOf(body))
  const remembered = memory?.cachedTokens(workflow, blocks)
  const elsewhere = options.affinity === 'replicas' && memory?.knows(workflow) === false
  const cachedTokens = elsewhere ? expectedAtHome(scheduler, workflow.id, body) : remembered
  const served: Served = ({ prefill }, cached) => {
    if (cached === 0 && remembered?.[prefill] !== undefined) memory?.forget(workflow, prefill)
    else memory?.served(workflow, prefill, blocks)
  }
  let lease: Lease
  try {
    lease = await workflow.call({
      ...describeBody(body, identity),
      ...(cachedTokens !== undefined && { cachedTokens }),
      ...(identity.stage !== undefined && { stage: identity.stage }),
      ...options.describe?.(body, request.headers),
      signal,
    })
  } catch (error) {
    over()
    throw error
  }
  try {
    return await attempts(lease, options, request, bytes, body, served, over)
  } catch (error) {
    over()
    throw error
  }
}

/**
 * What the home of a session has of its prompt, if all its turns went there: everything before the last answer. Of a first
 * turn a single token, which decides between equals.
 */
function expectedAtHome(
  scheduler: Scheduler,
  session: string,
  body: Record<string, unknown>,
): Record<string, number> | undefined {
  const { model } = body
  const home = scheduler.homeOf(session, typeof model === 'string' && model !== '' ? model : undefined)
  if (home === undefined) return undefined
  const { messages } = body
  const answered = Array.isArray(messages)
    ? messages.findLastIndex((message) => (message as { role?: unknown } | null)?.role === 'assistant')
    : -1
  const before =
    answered < 1 ? '' : promptOf({ ...body, messages: (messages as unknown[]).slice(0, answered) })
  return { [home]: Math.max(1, wholeBlockTokens(before)) }
}

/** A lease that is done, with the cached tokens that its engine spoke of. */
type Served = (lease: Lease, cachedTokens: number | undefined) => void

/** Until one answers, or there is no further attempt. */
async function attempts(
  first: Lease,
  options: HandlerOptions,
  request: Request,
  bytes: Uint8Array,
  body: Record<string, unknown>,
  served: Served,
  over: () => void,
): Promise<Response> {
  let lease = first
  const kept: { kv: KeptKv | undefined } = { kv: undefined }
  for (;;) {
    const sent = new AbortController()
    const abort = () => sent.abort()
    request.signal.addEventListener('abort', abort, { once: true })
    lease.signal.addEventListener('abort', abort, { once: true })
    if (request.signal.aborted || lease.signal.aborted) sent.abort()
    const detach = () => request.signal.removeEventListener('abort', abort)
    let response: Response
    let next: Lease | null
    try {
      response = await send(lease, options, request, bytes, body, sent.signal, kept)
      if (response.ok) {
        const relayed = await relay(lease, response, sent, options, served, () => {
          detach()
          over()
        })
        if (relayed !== undefined) return relayed
        // An error event came before anything else: nobody has seen a byte.
        next = await lease.failed({ status: 502, leg: 'decode' })
        if (next === null) {
          detach()
          over()
          return problem(502, 'upstream_error', 'The instance answered with an error event')
        }
      } else {
        const text = await response.text().then((all) => all.slice(0, MOST_ERROR))
        const retryAfter = retryAfterMs(response.headers.get('retry-after'), Date.now())
        const { status } = response
        next = await lease.failed({ status, ...(retryAfter !== undefined && { retryAfterMs: retryAfter }) })
        if (next === null) {
          detach()
          over()
          return new Response(text, { status, headers: copyHeaders(response.headers) })
        }
      }
    } catch (error) {
      if (request.signal.aborted) {
        lease.cancel()
        detach()
        throw error
      }
      const failed = error instanceof PairFailure && !lease.signal.aborted ? error : undefined
      next = await lease.failed(
        failed?.outcome ?? { error: classify({ error }) === 'cancelled' ? new Error('lost') : error },
      )
      if (next === null) {
        detach()
        over()
        if (failed?.response !== undefined) {
          const { status, headers, body: text } = failed.response
          return new Response(text, { status, headers: copyHeaders(headers) })
        }
        return problem(
          502,
          'upstream_unreachable',
          `The instance could not be reached: ${(error as Error).message}`,
        )
      }
    }
    detach()
    lease = next
  }
}

function send(
  lease: Lease,
  options: HandlerOptions,
  request: Request,
  bytes: Uint8Array,
  body: Record<string, unknown>,
  signal: AbortSignal,
  kept: { kv: KeptKv | undefined },
): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  const path = `${pathname}${search}`
  const headers = new Headers(request.headers)
  for (const name of HOP_HEADERS) headers.delete(name)
  if (options.protocol !== undefined) {
    const { method } = request
    return sendPair(
      options.protocol,
      lease,
      { method, path, headers, body, signal, fetch: options.fetch ?? fetch },
      kept,
    )
  }
  const { prefillEntry: entry, priority } = lease
  // Without a priority the bytes pass as they came.
  const content =
    priority === undefined ? bytes : new TextEncoder().encode(JSON.stringify(legBody(body, entry, priority)))
  return (options.fetch ?? fetch)(legTarget(legUrl(entry), path), {
    method: request.method,
    headers: legHeaders(headers, entry),
    body: content as Uint8Array<ArrayBuffer>,
    signal,
    redirect: 'manual',
  })
}

type Part = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>

/** Undefined where the stream begins with an error event, which nobody has seen yet. */
async function relay(
  lease: Lease,
  response: Response,
  sent: AbortController,
  options: HandlerOptions,
  served: Served,
  over: () => void,
): Promise<Response | undefined> {
  const headers = copyHeaders(response.headers)
  if (options.expose) headers.set('x-laxity-instance', lease.instance)
  if (options.expose && lease.paired) headers.set('x-laxity-decode', lease.decode)
  if (options.expose && lease.epoch > 0) headers.set('x-laxity-epoch', String(lease.epoch))
  const streams = (response.headers.get('content-type') ?? '').includes('text/event-stream')
  if (!streams || response.body === null) {
    const bytes = new Uint8Array(await response.arrayBuffer())
    const usage = usageOf(parseBody(bytes) ?? {})
    lease.done(usage === undefined ? {} : { outputTokens: usage.outputTokens })
    served(lease, usage?.cachedTokens)
    over()
    return new Response(bytes, { status: response.status, headers })
  }
  const watch = new StreamWatch()
  const reader = response.body.getReader()
  const first = await reader.read()
  if (first.value !== undefined) watch.push(first.value)
  if (watch.error !== undefined && !watch.firstToken) {
    sent.abort()
    return undefined
  }
  return new Response(relayStream(lease, reader, first, watch, sent, served, over), {
    status: response.status,
    headers,
  })
}

function relayStream(
  lease: Lease,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  first: Part,
  watch: StreamWatch,
  sent: AbortController,
  served: Served,
  over: () => void,
): ReadableStream<Uint8Array> {
  let clientBytes = 0
  let told = false
  let lifeSign = performance.now()
  let pending: Part | undefined = first
  const fail = (controller: ReadableStreamDefaultController<Uint8Array>, error: unknown) => {
    // Bytes have reached the client: there is no other attempt, and the client sees the failure.
    void lease.failed({
      error: new Error('stream', { cause: error }),
      clientBytes: Math.max(1, clientBytes),
      leg: 'decode',
    })
    over()
    controller.error(error)
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let part = pending
      pending = undefined
      if (part === undefined) {
        try {
          part = await reader.read()
        } catch (error) {
          fail(controller, error)
          return
        }
        if (part.value !== undefined) watch.push(part.value)
      }
      if (watch.firstToken && !told) {
        told = true
        lease.firstToken()
        lease.transferDone()
      } else if (performance.now() - lifeSign > LIFE_SIGN_MS) {
        lifeSign = performance.now()
        lease.progress()
      }
      if (!part.done) {
        clientBytes += part.value.length
        controller.enqueue(part.value)
        return
      }
      watch.end()
      if (watch.error !== undefined) {
        const { status = 500 } = watch.error
        void lease.failed({ status, clientBytes: Math.max(1, clientBytes), leg: 'decode' })
      } else if (!watch.finished) {
        void lease.failed({
          error: new Error('ended without a finish reason'),
          clientBytes: Math.max(1, clientBytes),
          leg: 'decode',
        })
      } else {
        lease.done({ outputTokens: watch.outputTokens })
        served(lease, watch.cachedTokens)
      }
      over()
      controller.close()
    },
    cancel() {
      lease.cancel()
      sent.abort()
      over()
    },
  })
}

/** Prompt and bounds as far as a body tells; tokens are bytes / 4 where nobody has counted. */
export function describeBody(
  body: Record<string, unknown>,
  identity: { expectedOutputTokens: number | undefined } = { expectedOutputTokens: undefined },
): CallOptions {
  const { length } = promptOf(body)
  const most = [body.max_completion_tokens, body.max_tokens, body.max_output_tokens].find(isTokens)
  const expected = identity.expectedOutputTokens
  return {
    promptTokens: Math.max(1, Math.ceil(length / 4)),
    ...(typeof body.model === 'string' && body.model.length > 0 && { model: body.model }),
    ...(isTokens(most) && { maxOutputTokens: most }),
    ...(expected !== undefined && { outputTokens: Math.max(1, Math.round(expected)) }),
    ...(isTokens(body.n) && body.n > 1 && body.n <= 128 && { n: body.n }),
    stream: body.stream === true,
  }
}

/** Everything an engine reads before it answers, as one text. */
function promptOf(body: Record<string, unknown>): string {
  const text = (part: unknown) => (typeof part === 'string' ? part : (JSON.stringify(part) ?? ''))
  const { tools, system, messages, prompt, input } = body
  const first = [tools, system].filter((part) => part !== undefined && part !== null)
  return first.map(text).join('') + text(messages ?? prompt ?? input ?? '')
}

function isTokens(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= 100_000_000
}

function parseBody(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** fetch has decoded the body already. */
function copyHeaders(from: Headers): Headers {
  const headers = new Headers(from)
  for (const name of [...HOP_HEADERS, 'content-encoding']) headers.delete(name)
  return headers
}

const STATUS: Readonly<Record<string, [status: number, type: string]>> = {
  ERR_LAXITY_QUEUE_FULL: [429, 'rate_limit_error'],
  ERR_LAXITY_QUEUE_TIMEOUT: [503, 'overloaded_error'],
  ERR_LAXITY_DEADLINE: [503, 'deadline_error'],
  ERR_LAXITY_CLOSED: [503, 'unavailable_error'],
  ERR_LAXITY_LOST: [503, 'unavailable_error'],
  ERR_LAXITY_NO_INSTANCE: [404, 'model_not_found'],
  ERR_LAXITY_NEVER_FITS: [400, 'context_length_exceeded'],
  ERR_LAXITY_ABORTED: [499, 'cancelled'],
  ERR_LAXITY_FIELD: [400, 'invalid_request_error'],
}

/** An error in OpenAI's form, with Retry-After where there is a time to come back. */
export function errorResponse(error: unknown): Response {
  if (!(error instanceof LaxityError)) {
    const cancelled = (error as { name?: unknown } | null)?.name === 'AbortError'
    return problem(
      cancelled ? 499 : 500,
      cancelled ? 'cancelled' : 'internal_error',
      cancelled ? 'Cancelled' : 'Internal error',
    )
  }
  const [status, type] = STATUS[error.code] ?? [500, 'internal_error']
  const response = problem(status, type, error.message, error.code)
  const wait = (error as Partial<RejectionError>).retryAfterMs
  if (wait !== undefined) response.headers.set('retry-after', String(Math.ceil(wait / 1000)))
  return response
}

function problem(status: number, type: string, message: string, code: string = type): Response {
  return Response.json({ error: { message, type, param: null, code } }, { status })
}
