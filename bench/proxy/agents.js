// CHESS-like agents that drive a proxy with the official client, in a process of their own. argv: JSON of { url, compression, seed,
// workflows, rate }. Prints what they saw.
import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI from 'openai'
import { workload } from './settings.js'

const { url, compression, seed, workflows, rate } = JSON.parse(process.argv[2])
const trace = await workload(seed, workflows, rate)
const { columns, stages } = trace
const client = new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0 })
const started = performance.now()
const nowMs = () => (performance.now() - started) * compression
/** Waits for nothing that is over. */
const until = (ms) => sleep(Math.max(0, Math.ceil((ms - nowMs()) / compression)))

/** What a call took beyond its time in the engine (where the router queues, mostly that), and that. Real ms. */
const beyondEngineMs = []
let engineMs = 0

/** A message that makes a request's `messages` as many bytes as `tokens` stand for, and says how long the answer gets. */
function prompt(tokens, answer) {
  const content = `Answer in ${answer} tokens. `
  const rest = 4 * tokens - JSON.stringify([{ role: 'user', content }]).length
  return [{ role: 'user', content: content + 'x'.repeat(Math.max(0, rest)) }]
}

async function call(workflow, row, last) {
  const began = nowMs()
  const stream = await client.chat.completions.create(
    {
      model: 'm',
      messages: prompt(columns.promptTokens[row], columns.outputTokens[row]),
      stream: true,
      stream_options: { include_usage: true },
    },
    {
      headers: {
        'x-session-id': `w${workflow}`,
        'x-laxity-stage': stages[columns.stage[row]],
        ...(last && { 'x-dynamo-session-final': 'true' }),
      },
    },
  )
  let end
  for await (const part of stream) if (part.usage) end = part
  if (end?.usage.completion_tokens !== columns.outputTokens[row]) throw new Error('An answer is not whole')
  engineMs += end.engine_ms / compression
  beyondEngineMs.push((nowMs() - began - end.engine_ms) / compression)
}

/** Every call as soon as those it follows are over. The latency of the whole. */
async function agent(workflow) {
  const arrivalMs = columns.arrivalMs[workflow]
  await until(arrivalMs)
  const first = columns.firstCall[workflow]
  const end = columns.firstCall[workflow + 1]
  const calls = []
  for (let row = first; row < end; row += 1) {
    const parents = Array.from(
      columns.parents.subarray(columns.parentOffset[row], columns.parentOffset[row + 1]),
      (parent) => calls[parent],
    )
    calls.push(Promise.all(parents).then(() => call(workflow, row, row === end - 1)))
  }
  await Promise.all(calls)
  return nowMs() - arrivalMs
}

const latencyMs = await Promise.all(Array.from({ length: workflows }, (_, workflow) => agent(workflow)))
const { user, system } = process.cpuUsage()
beyondEngineMs.sort((a, b) => a - b)
const quantile = (q) => beyondEngineMs[Math.ceil(q * beyondEngineMs.length) - 1]
console.log(
  JSON.stringify({
    latencyMs,
    calls: beyondEngineMs.length,
    engineMs: engineMs / beyondEngineMs.length,
    beyondEngineMs: { p50: quantile(0.5), p99: quantile(0.99) },
    cpuMs: (user + system) / 1000,
  }),
)
