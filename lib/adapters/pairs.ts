import { randomBytes, randomUUID } from 'node:crypto'
import type { InstanceEntry } from '../scheduler/instances.ts'
import type { Lease } from '../scheduler/lease.ts'
import { type Outcome, retryAfterMs } from '../scheduler/outcome.ts'
import { legBody, legHeaders, legTarget, legUrl } from './leg.ts'

/**
 * How two engines hand the KV of a prompt over. `sglang`: its bootstrap, both legs at once under a room of their own.
 * `vllm`: `kv_transfer_params` of a NIXL connector, prefill first.
 */
export type PairProtocol = 'sglang' | 'vllm'

export interface PairRequest {
  method: string
  /** With its query. */
  path: string
  headers: Headers
  body: Record<string, unknown>
  /** Of the client, and of the lease. */
  signal: AbortSignal
  fetch: typeof fetch
}

/** What an attempt leaves for the next one of the same call: KV that is still on its prefill instance. */
export interface KeptKv {
  prefill: string
  params: unknown
  requestId: string
}

/** A leg that failed; the other one was cancelled. */
export class PairFailure extends Error {
  readonly outcome: Outcome
  /** The engine's answer, where there was one. */
  readonly response: Response | undefined

  constructor(outcome: Outcome, response: Response | undefined, cause: unknown) {
    super(`The ${outcome.leg} leg failed`, { cause })
    this.outcome = outcome
    this.response = response
  }
}

/** Sends both legs; the response is that of the decode instance. @throws (rejects) PairFailure, or the abort */
export function sendPair(
  protocol: PairProtocol,
  lease: Lease,
  request: PairRequest,
  kept: { kv: KeptKv | undefined },
): Promise<Response> {
  return protocol === 'sglang' ? bootstrap(lease, request) : transfer(lease, request, kept)
}

/** Why a request cannot be served by two legs. */
export function unsupportedByPairs(body: Record<string, unknown>): string | undefined {
  for (const field of ['prompt_logprobs', 'return_logprob'])
    if (body[field] !== undefined && body[field] !== false && body[field] !== null)
      return `\`${field}\` needs the answers of both legs, which are not merged`
  return undefined
}

/**
 * SGLang: the pair is known before anything is sent, the room is new for each attempt, one leg that fails cancels the
 * other at once (else P waits half an hour), P's body is drained. The end of P's body is first token and transfer in one.
 */
async function bootstrap(lease: Lease, request: PairRequest): Promise<Response> {
  await lease.admitted()
  const { prefillEntry, decodeEntry } = lease
  const withRooms = rooms(request.body, prefillEntry)
  const both = new AbortController()
  const abort = () => both.abort(request.signal.reason)
  request.signal.addEventListener('abort', abort, { once: true })
  if (request.signal.aborted) abort()
  const post = (entry: InstanceEntry, priority: number | undefined) =>
    request.fetch(legTarget(legUrl(entry), request.path), {
      method: request.method,
      headers: legHeaders(request.headers, entry),
      body: withRooms(legBody(request.body, entry, priority)),
      signal: both.signal,
      redirect: 'manual',
    })
  let over = false
  const prefill = async (): Promise<void> => {
    const sent = post(prefillEntry, lease.priority)
    const response = await sent.catch((error) => Promise.reject(failure('prefill', error)))
    if (!response.ok) throw await refusal('prefill', response, false)
    await response.arrayBuffer().catch((error) => Promise.reject(failure('prefill', error)))
    lease.firstToken()
    lease.transferDone()
  }
  const decode = post(decodeEntry, lease.decodePriority).catch((error) =>
    Promise.reject(failure('decode', error)),
  )
  const prefilled = prefill()
  // After D has begun to answer, what P says matters no more.
  prefilled.catch((error) => {
    if (!over) both.abort(error)
  })
  decode.catch(() => {})
  try {
    const response = await Promise.race([decode, prefilled.then(() => decode)])
    if (!response.ok) throw await refusal('decode', response, false)
    over = true
    return response
  } catch (error) {
    over = true
    both.abort(error)
    request.signal.throwIfAborted()
    throw error
  }
}

/** The rooms of one attempt, and a body with them. JSON numbers end at 2^53: a room goes in as a literal. */
function rooms(
  { n }: Record<string, unknown>,
  prefill: InstanceEntry,
): (body: Record<string, unknown>) => string {
  const { host = new URL(legUrl(prefill)).hostname, port = 8998 } = prefill.given.bootstrap ?? {}
  const { rank, ranks } = prefill.given
  const draw = () => newRoom(rank, ranks)
  const count = typeof n === 'number' && n > 1 ? n : undefined
  const one = (value: unknown) => (count === undefined ? value : Array.from({ length: count }, () => value))
  const room = count === undefined ? String(draw()) : `[${Array.from({ length: count }, draw).join(',')}]`
  return (body) => {
    const rest = JSON.stringify({ ...body, bootstrap_host: one(host), bootstrap_port: one(port) })
    return `${rest.slice(0, -1)},"bootstrap_room":${room}}`
  }
}

/** 63 random bits, never negative. Of several prefill ranks, D asks the one that room mod ranks names. */
export function newRoom(rank = 0, ranks = 1): bigint {
  const drawn = randomBytes(8).readBigUInt64BE() >> 1n
  const of = BigInt(ranks)
  const room = drawn - (drawn % of) + BigInt(rank)
  return room < 1n << 63n ? room : room - of
}

/**
 * vLLM: P computes the prompt and one token and says where its KV lies; that object goes to D as it is. Between the legs
 * the call waits for room on D, never longer than half of P's lease on the KV (the scheduler sees to it).
 */
async function transfer(
  lease: Lease,
  request: PairRequest,
  kept: { kv: KeptKv | undefined },
): Promise<Response> {
  if (!lease.resumed || kept.kv?.prefill !== lease.prefill) kept.kv = await prefillLeg(lease, request)
  const { params, requestId } = kept.kv
  await lease.admitted()
  let response: Response
  try {
    response = await legFetch(lease.decodeEntry, request, requestId, {
      ...legBody(request.body, lease.decodeEntry, lease.decodePriority),
      kv_transfer_params: params,
    })
  } catch (error) {
    request.signal.throwIfAborted()
    // It was not reached, so it has fetched nothing.
    throw failure('decode', error, true)
  }
  // What is refused at the door has fetched nothing either.
  if (!response.ok)
    throw await refusal('decode', response, response.status === 429 || response.status === 503)
  return response
}

async function prefillLeg(lease: Lease, request: PairRequest): Promise<KeptKv> {
  const requestId = request.headers.get('x-request-id') ?? randomUUID()
  const { prefillEntry } = lease
  const { stream_options: _, min_tokens: __, ...body } = legBody(request.body, prefillEntry, lease.priority)
  let answer: { kv_transfer_params?: unknown } | null
  try {
    const response = await legFetch(prefillEntry, request, requestId, {
      ...body,
      stream: false,
      max_tokens: 1,
      ...(body.max_completion_tokens !== undefined && { max_completion_tokens: 1 }),
      kv_transfer_params: {
        do_remote_decode: true,
        do_remote_prefill: false,
        remote_engine_id: null,
        remote_block_ids: null,
        remote_host: null,
        remote_port: null,
      },
    })
    if (!response.ok) throw await refusal('prefill', response, false)
    answer = (await response.json()) as typeof answer
  } catch (error) {
    request.signal.throwIfAborted()
    throw error instanceof PairFailure ? error : failure('prefill', error)
  }
  // vLLM without a connector answers null: nothing was kept, and D would compute the prompt again, unnoticed.
  const params = answer?.kv_transfer_params
  if (typeof params !== 'object' || params === null)
    throw failure('prefill', new Error('No `kv_transfer_params` in the answer'))
  lease.firstToken()
  return { prefill: lease.prefill, params, requestId }
}

function legFetch(
  entry: InstanceEntry,
  request: PairRequest,
  requestId: string,
  body: Record<string, unknown>,
): Promise<Response> {
  const headers = new Headers(legHeaders(request.headers, entry))
  headers.set('x-request-id', requestId)
  return request.fetch(legTarget(legUrl(entry), request.path), {
    method: request.method,
    headers,
    body: JSON.stringify(body),
    signal: request.signal,
    redirect: 'manual',
  })
}

function failure(leg: 'prefill' | 'decode', error: unknown, kvOnPrefill = false): PairFailure {
  if (error instanceof PairFailure) return error
  return new PairFailure({ error, leg, kvOnPrefill }, undefined, error)
}

async function refusal(
  leg: 'prefill' | 'decode',
  response: Response,
  kvOnPrefill: boolean,
): Promise<PairFailure> {
  const { status, headers } = response
  const wait = retryAfterMs(headers.get('retry-after'), Date.now())
  const copy = new Response(await response.arrayBuffer().catch(() => null), { status, headers })
  const outcome = { status, leg, kvOnPrefill, ...(wait !== undefined && { retryAfterMs: wait }) }
  return new PairFailure(outcome, copy, undefined)
}
