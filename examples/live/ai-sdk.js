// An agent with the AI SDK: a middleware schedules every call of the model. BACKENDS=… node examples/live/ai-sdk.js
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText, wrapLanguageModel } from 'ai'
import { Scheduler } from 'laxity'
import { schedulingModel } from 'laxity/ai-sdk'
import { backends } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const workflow = scheduler.workflow({ sloMs: 60_000 })
const at = (url) =>
  createOpenAICompatible({ name: 'engine', baseURL: `${url}/v1`, includeUsage: true })('any')
const model = wrapLanguageModel({
  model: at(backends[0].url), // replaced by that of the leased instance
  middleware: schedulingModel(scheduler, { workflow, model: (lease) => at(lease.url) }),
})
// The scheduler tries elsewhere, and counts.
const ask = { model, maxOutputTokens: 20, maxRetries: 0 }

const { text: plan } = await generateText({ ...ask, prompt: 'Plan a trip.' })
const { textStream } = streamText({ ...ask, prompt: `Write it out: ${plan}` })
for await (const part of textStream) process.stdout.write(part)
process.stdout.write('\n')
workflow.end()
await scheduler.close()
