// One GPU as an HTTP server in a process of its own: OpenAI-style chat completions, streamed at the speed of a latency
// model. argv: JSON of { latency, kvTokens, maxSequences, compression, streamInterval }. Prints its port.
//
// A prompt has a token per 4 bytes of its messages; how long the answer gets stands in the prompt, which routers do not read.
import { createServer } from 'node:http'
import { Batch } from './batch.js'

const { compression, streamInterval, ...model } = JSON.parse(process.argv[2])
const nowMs = () => performance.now() * compression
const batch = new Batch(model, nowMs, (callback, delayMs) => {
  const real = Math.ceil(delayMs / compression)
  if (real > 0) setTimeout(callback, real)
  else setImmediate(callback)
})
let served = 0

const event = (fields) =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', ...fields })}\n\n`
const delta = (content, finish) =>
  event({ choices: [{ index: 0, delta: content === '' ? {} : { content }, finish_reason: finish }] })

function complete({ messages }, res) {
  const promptTokens = Math.ceil(JSON.stringify(messages).length / 4)
  const outputTokens = Number(/(\d+) tokens/.exec(messages[0].content)[1])
  const arrivedMs = nowMs()
  let unsent = 0
  const send = () => {
    if (unsent > 0) res.write(delta('word '.repeat(unsent), null))
    unsent = 0
  }
  const job = batch.add(promptTokens, outputTokens, (made, atMs) => {
    unsent += 1
    if (made === 1) res.writeHead(200, { 'content-type': 'text/event-stream' })
    if (made === 1 || unsent === streamInterval || made === outputTokens) send()
    if (made < outputTokens) return
    served += 1
    res.write(delta('', 'stop'))
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: outputTokens,
      total_tokens: promptTokens + outputTokens,
    }
    res.end(`${event({ choices: [], usage, engine_ms: atMs - arrivedMs })}data: [DONE]\n\n`)
  })
  if (job === undefined) {
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end('{"error":{"message":"longer than the KV cache","type":"invalid_request_error","code":null}}')
    return
  }
  res.on('close', () => batch.remove(job))
}

const server = createServer((req, res) => {
  const chunks = []
  req.on('data', (data) => chunks.push(data))
  req.on('end', () => {
    if (req.url === '/v1/chat/completions') complete(JSON.parse(Buffer.concat(chunks)), res)
    else if (req.url === '/state') res.end(JSON.stringify({ served, ...batch.state }))
    else res.writeHead(404).end('{}')
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
// Whoever started it is gone.
process.stdin.on('end', () => process.exit()).resume()
