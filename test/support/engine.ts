import { createServer, type ServerResponse } from 'node:http'

// An engine in a process of its own: OpenAI-style chat completions at a given speed, one behaviour at a time.
// argv: ms of prefill, ms per token. Prints its port.
const [prefillMs, tokenMs] = process.argv.slice(2).map(Number) as [number, number]
let mode = 'ok'
let served = 0
let running = 0
let most = 0
let aborted = 0
/** Requests that wait for another mode than `hold`. */
const held: (() => void)[] = []

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`

async function complete(
  body: { stream?: boolean; max_tokens?: number; n?: number },
  res: ServerResponse,
): Promise<void> {
  if (mode === 'hold') await new Promise<void>((resolve) => held.push(resolve))
  const tokens = body.max_tokens ?? 5
  const usage = { prompt_tokens: 7, completion_tokens: tokens, total_tokens: 7 + tokens }
  if (mode === '503' || mode === '400' || mode === '429') {
    res.writeHead(Number(mode), {
      'content-type': 'application/json',
      ...(mode === '429' && { 'retry-after': '1' }),
    })
    res.end(JSON.stringify({ error: { message: `mode ${mode}`, type: 'x', code: null } }))
    return
  }
  if (mode === 'reset') {
    res.destroy()
    return
  }
  await sleep(prefillMs)
  if (!body.stream) {
    await sleep(tokenMs * tokens)
    res.writeHead(200, { 'content-type': 'application/json' })
    const message = { role: 'assistant', content: 'word '.repeat(tokens) }
    res.end(
      JSON.stringify({
        id: 'x',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage,
      }),
    )
    served += 1
    return
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  if (mode === 'error-first') {
    res.end(`data: ${JSON.stringify({ error: { message: 'out of memory', code: 500 } })}\n\n`)
    return
  }
  res.write(': keep-alive\r\n\r\n')
  res.write(chunk({ role: 'assistant', content: '' }))
  for (let i = 0; i < tokens && !res.destroyed; i += 1) {
    await sleep(tokenMs)
    if (mode === 'error-late' && i === 2) {
      res.end(`data: ${JSON.stringify({ error: { message: 'engine died', code: 500 } })}\n\n`)
      return
    }
    if (mode === 'cut' && i === 2) {
      res.destroy()
      return
    }
    if (mode === 'stall' && i === 2) return
    res.write(chunk({ content: `w${i} ` }))
  }
  res.write(chunk({}, 'stop'))
  res.write(
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage })}\n\n`,
  )
  res.end('data: [DONE]\n\n')
  served += 1
}

const server = createServer((req, res) => {
  const chunks: Buffer[] = []
  req.on('data', (data: Buffer) => chunks.push(data))
  req.on('end', () => {
    if (req.url?.startsWith('/mode/')) {
      mode = req.url.slice(6)
      if (mode !== 'hold') for (const go of held.splice(0)) go()
      res.end()
    } else if (req.url === '/counts') {
      res.end(JSON.stringify({ served, running, most, aborted }))
    } else if (req.url === '/v1/chat/completions') {
      running += 1
      most = Math.max(most, running)
      let over = false
      res.on('close', () => {
        if (!over && !res.writableFinished) aborted += 1
        over = true
        running -= 1
      })
      void complete(JSON.parse(Buffer.concat(chunks).toString()), res)
    } else {
      res.writeHead(404).end('{}')
    }
  })
})
server.listen(0, '127.0.0.1', () => {
  console.log((server.address() as { port: number }).port)
})
