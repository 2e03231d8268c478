import { createServer } from 'node:http'
import { getLlama, LlamaLogLevel } from 'node-llama-cpp'

// llama.cpp behind OpenAI-style chat completions, in a process of its own: continuous batching over its sequences, one per
// running request, first come first served beyond them; a client that goes away frees its sequence within one token.
// argv: model file, sequences, threads, port (0 = any). Prints its port.

const [file, sequences, threads, port] = process.argv.slice(2)
const llama = await getLlama({
  gpu: false,
  build: 'never',
  logLevel: LlamaLogLevel.error,
  maxThreads: Number(threads),
})
const model = await llama.loadModel({ modelPath: file })
const context = await model.createContext({
  sequences: Number(sequences),
  contextSize: 1024,
  batchSize: 512,
  threads: Number(threads),
})
const free = Array.from({ length: Number(sequences) }, () => context.getSequence())
const waiting = []
const counts = { served: 0, aborted: 0, running: 0, most: 0, longestQueue: 0, tokens: 0 }

/** A sequence, or nothing once the client has gone. */
async function take(gone) {
  if (free.length > 0) return free.pop()
  return new Promise((resolve) => {
    const one = { resolve }
    waiting.push(one)
    counts.longestQueue = Math.max(counts.longestQueue, waiting.length)
    gone.addEventListener('abort', () => {
      const at = waiting.indexOf(one)
      if (at >= 0) waiting.splice(at, 1)
      resolve(undefined)
    })
  })
}

async function giveBack(sequence) {
  await sequence.clearHistory()
  const next = waiting.shift()
  if (next === undefined) free.push(sequence)
  else next.resolve(sequence)
}

const chunk = (delta, finish = null, more = {}) =>
  `data: ${JSON.stringify({
    id: 'chatcmpl',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'tiny',
    choices: [{ index: 0, delta, finish_reason: finish }],
    ...more,
  })}\n\n`

async function complete(body, res, gone) {
  const prompt = model.tokenize(body.messages.map(({ content }) => content).join('\n'))
  const most = body.max_tokens ?? 16
  if (prompt.length + most > 1000) {
    const message = `${prompt.length} + ${most} tokens do not fit into a context of 1000`
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end(
      JSON.stringify({ error: { message, type: 'invalid_request_error', param: 'messages', code: null } }),
    )
    return
  }
  const sequence = await take(gone)
  if (sequence === undefined) return
  counts.running += 1
  counts.most = Math.max(counts.most, counts.running)
  const output = []
  try {
    if (body.stream) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(chunk({ role: 'assistant', content: '' }))
    }
    for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
      if (gone.aborted) return
      output.push(token)
      counts.tokens += 1
      if (body.stream) res.write(chunk({ content: model.detokenize([token]) || ' ' }))
      if (output.length >= most) break
    }
  } finally {
    counts.running -= 1
    await giveBack(sequence)
  }
  counts.served += 1
  const usage = {
    prompt_tokens: prompt.length,
    completion_tokens: output.length,
    total_tokens: prompt.length + output.length,
  }
  if (body.stream) {
    res.write(chunk({}, 'length'))
    if (body.stream_options?.include_usage) res.write(chunk({}, null, { choices: [], usage }))
    res.end('data: [DONE]\n\n')
    return
  }
  res.writeHead(200, { 'content-type': 'application/json' })
  res.end(
    JSON.stringify({
      id: 'chatcmpl',
      object: 'chat.completion',
      created: 1,
      model: 'tiny',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: model.detokenize(output) },
          finish_reason: 'length',
        },
      ],
      usage,
    }),
  )
}

const server = createServer(async (req, res) => {
  if (req.url === '/counts') {
    res.end(JSON.stringify({ ...counts, waiting: waiting.length, free: free.length }))
    return
  }
  if (req.url !== '/v1/chat/completions') {
    res.writeHead(404).end('{}')
    return
  }
  const gone = new AbortController()
  res.on('close', () => {
    if (res.writableFinished) return
    counts.aborted += 1
    gone.abort()
  })
  try {
    const parts = []
    for await (const part of req) parts.push(part)
    await complete(JSON.parse(Buffer.concat(parts).toString()), res, gone.signal)
  } catch (error) {
    if (!res.headersSent) res.writeHead(500, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ error: { message: String(error), type: 'server_error', code: 500 } }))
  }
})
server.listen(Number(port ?? 0), '127.0.0.1', () => console.log(server.address().port))
