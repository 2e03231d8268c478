// An agent with LangChain: thread and node of a run become workflow and stage. BACKENDS=… node examples/live/langchain.js
import { RunnableLambda } from '@langchain/core/runnables'
import { ChatOpenAI } from '@langchain/openai'
import { Scheduler } from 'laxity'
import { schedulingLangChain } from 'laxity/langchain'
import { backends } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const { configuration, callbacks, callOptions } = schedulingLangChain(scheduler, { sloMs: 60_000 })
const model = new ChatOpenAI({ model: 'any', apiKey: 'none', maxRetries: 0, maxTokens: 20, configuration })
// A node as LangGraph calls it: it passes the run's metadata on.
const node = (name) =>
  RunnableLambda.from(
    async (question, config) => (await model.invoke(question, callOptions(config))).text,
  ).withConfig({ metadata: { langgraph_node: name } })

const agent = node('plan').pipe(node('write'))
console.log(await agent.invoke('Plan a trip.', { callbacks, metadata: { thread_id: 'trip-1' } }))
await scheduler.close()
