// An agent whose HTTP goes through undici: a dispatcher that schedules, under whatever uses it.
// BACKENDS=… node examples/live/undici-agent.js
import { Scheduler } from 'laxity'
import { schedulingInterceptor } from 'laxity/undici'
import { Agent, request } from 'undici'
import { backends } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const workflow = scheduler.workflow({ tenant: 'demo', sloMs: 60_000 })
const agent = new Agent({ bodyTimeout: 0 })
const dispatcher = agent.compose(schedulingInterceptor(scheduler, { workflow }))
const ask = async (content) => {
  const { body } = await request('http://scheduler/v1/chat/completions', {
    dispatcher, // the host is replaced by that of the leased instance
    method: 'POST',
    body: JSON.stringify({ model: 'any', max_tokens: 20, messages: [{ role: 'user', content }] }),
  })
  const { choices } = await body.json()
  return choices[0].message.content
}

const [plan, facts] = await Promise.all([ask('Plan a trip.'), ask('List facts.')])
console.log(await ask(`Join: ${plan} ${facts}`))
workflow.end()
await scheduler.close()
await agent.close()
