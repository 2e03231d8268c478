// Inside an agent, where the workflow is known: the official client with a fetch that schedules. Two calls in parallel,
// then one that joins them, under one deadline. BACKENDS=… node examples/live/agent.js
import { Scheduler } from 'laxity'
import { schedulingFetch } from 'laxity/fetch'
import OpenAI from 'openai'
import { backends } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const workflow = scheduler.workflow({ tenant: 'demo', sloMs: 60_000 })
const client = new OpenAI({
  apiKey: 'none',
  baseURL: 'http://scheduler/v1', // the host is replaced by that of the leased instance
  maxRetries: 0, // the scheduler tries elsewhere, and counts
  fetch: schedulingFetch(scheduler, { workflow }),
})
const ask = (content) =>
  client.chat.completions.create({ model: 'any', max_tokens: 20, messages: [{ role: 'user', content }] })

const [plan, facts] = await Promise.all([ask('Plan a trip.'), ask('List facts.')])
const answer = await ask(`Join: ${plan.choices[0].message.content} ${facts.choices[0].message.content}`)
console.log(answer.choices[0].message.content)
workflow.end()
await scheduler.close()
