import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

// One leg of a prefill-decode pair in a process of its own, with real KV accounting.
// argv: role, ms of a prefill, ms per token, KV tokens, ms that vLLM's P keeps KV that nobody fetches.
// SGLang: P has a bootstrap server that D asks for the KV of a room; P's answer ends when D has it.
// vLLM: P answers where the KV lies; D fetches it there. KV of an expired lease is gone, and D answers all the same, wrongly.
// Prints its port and its bootstrap port.
const [role, ...numbers] = process.argv.slice(2)
const [prefillMs, tokenMs, kvTokens, kvLeaseMs] = numbers.map(Number) as [number, number, number, number]
let mode = 'ok'
const counts = {
  prefills: 0,
  served: 0,
  running: 0,
  aborted: 0,
  kv: 0,
  kvPeak: 0,
  /** Requests that found no room at once. */
  queued: 0,
  wrong: 0,
  duplicates: 0,
  negative: 0,
  rooms: 0,
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

// --- KV, first come, first served
const waiting: { tokens: number; go(): void; gone: boolean }[] = []
function pump(): void {
  while (waiting.length > 0 && (waiting[0]!.gone || counts.kv + waiting[0]!.tokens <= kvTokens)) {
    const head = waiting.shift()!
    if (head.gone) continue
    hold(head.tokens)
    head.go()
  }
}
function hold(tokens: number): void {
  counts.kv += tokens
  counts.kvPeak = Math.max(counts.kvPeak, counts.kv)
}
function free(tokens: number): void {
  counts.kv -= tokens
  pump()
}
async function room(tokens: number, res: ServerResponse): Promise<boolean> {
  const entry = { tokens, go: () => {}, gone: false }
  const granted = new Promise<void>((resolve) => {
    entry.go = resolve
  })
  waiting.push(entry)
  const gone = new Promise<void>((resolve) =>
    res.on('close', () => {
      entry.gone = true
      pump()
      resolve()
    }),
  )
  pump()
  if (waiting.includes(entry)) counts.queued += 1
  await Promise.race([granted, gone])
  return !entry.gone
}

// --- prefills, one at a time
let queue: Promise<void> = Promise.resolve()
function prefill(res: ServerResponse): Promise<boolean> {
  const mine = queue.then(async () => {
    if (!res.destroyed) {
      counts.prefills += 1
      await sleep(prefillMs)
    }
  })
  queue = mine
  return mine.then(() => !res.destroyed)
}

interface Kept {
  tokens: number
  taken(): void
}
const byRoom = new Map<string, Kept>()
const asking = new Map<string, (kept: Kept) => void>()
const seenRooms = new Set<string>()
const byId = new Map<string, Kept>()

const roughTokens = (body: { messages?: unknown }) =>
  Math.ceil(JSON.stringify(body.messages ?? '').length / 4)

async function sglangPrefill(
  text: string,
  body: Record<string, unknown>,
  res: ServerResponse,
): Promise<void> {
  const literal = /"bootstrap_room":(-?\d+)/.exec(text)?.[1] ?? ''
  counts.rooms += 1
  if (literal === '' || literal.startsWith('-') || BigInt(literal) >= 2n ** 63n) counts.negative += 1
  if (seenRooms.has(literal)) counts.duplicates += 1
  seenRooms.add(literal)
  const tokens = roughTokens(body)
  if (!(await room(tokens, res))) return
  if (!(await prefill(res))) return free(tokens)
  // Until D has fetched it, or whoever posted has gone: 1,800 s in the real one.
  await new Promise<void>((resolve) => {
    const kept = { tokens, taken: resolve }
    byRoom.set(literal, kept)
    asking.get(literal)?.(kept)
    res.on('close', () => resolve())
    if (res.destroyed) resolve()
  })
  byRoom.delete(literal)
  free(tokens)
  if (!res.destroyed)
    json(res, 200, { choices: [{ index: 0, message: { content: 'w' }, finish_reason: 'length' }] })
}

async function vllmPrefill(
  body: Record<string, unknown>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  if (body.stream !== false || body.max_tokens !== 1)
    return json(res, 400, { error: { message: 'not a prefill' } })
  const tokens = roughTokens(body)
  if (!(await room(tokens, res))) return
  if (!(await prefill(res))) return free(tokens)
  const id = String(req.headers['x-request-id'])
  const timer = setTimeout(() => kept.taken(), kvLeaseMs)
  const kept: Kept = {
    tokens,
    taken: () => {
      clearTimeout(timer)
      if (byId.delete(id)) free(tokens)
    },
  }
  byId.set(id, kept)
  const { port } = server.address() as AddressInfo
  json(res, 200, {
    choices: [{ index: 0, message: { content: 'w' }, finish_reason: 'length' }],
    kv_transfer_params: {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_request_id: id,
      remote_host: '127.0.0.1',
      remote_port: port,
      something_newer: [{ blocks: [1, 2] }],
    },
  })
}

async function decode(text: string, body: Record<string, unknown>, res: ServerResponse): Promise<void> {
  const tokens = roughTokens(body) + Number(body.max_tokens ?? 5)
  if (!(await room(tokens, res))) return
  try {
    const literal = /"bootstrap_room":(-?\d+)/.exec(text)?.[1]
    const params = body.kv_transfer_params as Record<string, unknown> | undefined
    const from =
      literal !== undefined
        ? `http://${body.bootstrap_host}:${body.bootstrap_port}/kv/${literal}`
        : `http://${params?.remote_host}:${params?.remote_port}/kv/${params?.remote_request_id}`
    const gone = new AbortController()
    res.on('close', () => gone.abort())
    let right = false
    try {
      right = (await fetch(from, { signal: gone.signal })).ok
    } catch {
      if (!res.destroyed) json(res, 500, { error: { message: 'no KV', code: 500 } })
      return
    }
    if (!right) counts.wrong += 1
    await stream(body, res, right ? 'w' : 'WRONG')
  } finally {
    free(tokens)
  }
}

async function stream(body: Record<string, unknown>, res: ServerResponse, word: string): Promise<void> {
  const tokens = Number(body.max_tokens ?? 5)
  const usage = { prompt_tokens: 7, completion_tokens: tokens, total_tokens: 7 + tokens }
  const id = { id: 'x', created: 1, model: 'm' }
  if (body.stream !== true) {
    await sleep(tokenMs * tokens)
    const message = { role: 'assistant', content: `${word} `.repeat(tokens) }
    json(res, 200, {
      ...id,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage,
    })
    counts.served += 1
    return
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ ...id, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  res.write(chunk({ role: 'assistant', content: '' }))
  for (let i = 0; i < tokens && !res.destroyed; i += 1) {
    await sleep(tokenMs)
    if (mode === 'cut' && i === 2) return void res.destroy()
    res.write(chunk({ content: `${word} ` }))
  }
  res.write(chunk({}, 'stop'))
  res.end('data: [DONE]\n\n')
  counts.served += 1
}

function json(res: ServerResponse, status: number, value: object, headers: object = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers })
  res.end(JSON.stringify(value))
}

/** D asks for KV: waits until it is there (bootstrap), or learns that it is gone (a lease that has run out). */
async function giveKv(key: string, res: ServerResponse): Promise<void> {
  let kept = byId.get(key) ?? byRoom.get(key)
  if (kept === undefined && bootstrapPort(res)) {
    kept = await new Promise<Kept | undefined>((resolve) => {
      asking.set(key, resolve)
      res.on('close', () => resolve(undefined))
    })
    asking.delete(key)
  }
  if (kept === undefined) {
    if (!res.destroyed) json(res, 404, {})
    return
  }
  json(res, 200, {})
  kept.taken()
}
const bootstrapPort = (res: ServerResponse) =>
  res.req.socket.localPort === bootstrapServer.address()!['port' as never]

const handler = (req: IncomingMessage, res: ServerResponse) => {
  const chunks: Buffer[] = []
  req.on('data', (data: Buffer) => chunks.push(data))
  req.on('end', () => {
    const { url = '' } = req
    if (url.startsWith('/mode/')) {
      mode = url.slice(6)
      res.end()
      return
    }
    if (url === '/counts') return json(res, 200, counts)
    if (url.startsWith('/kv/')) return void giveKv(url.slice(4), res)
    counts.running += 1
    let over = false
    res.on('close', () => {
      if (!over && !res.writableFinished) counts.aborted += 1
      over = true
      counts.running -= 1
    })
    if (mode === '500' || mode === '503' || mode === '400')
      return json(
        res,
        Number(mode),
        { error: { message: `mode ${mode}` } },
        mode === '503' ? { 'retry-after': '1' } : {},
      )
    if (mode === 'reset') return void res.destroy()
    if (mode === 'stall') return
    const text = Buffer.concat(chunks).toString()
    const body = JSON.parse(text) as Record<string, unknown>
    if (role === 'decode') void decode(text, body, res)
    else if ('bootstrap_room' in body) void sglangPrefill(text, body, res)
    else void vllmPrefill(body, req, res)
  })
}
const server = createServer(handler)
const bootstrapServer = createServer(handler)
server.keepAliveTimeout = 60_000
bootstrapServer.listen(0, '127.0.0.1', () => {
  server.listen(0, '127.0.0.1', () => {
    console.log((server.address() as AddressInfo).port, (bootstrapServer.address() as AddressInfo).port)
  })
})
