// An OpenAI-compatible proxy with Hono: BACKENDS=… PORT=3000 node examples/live/hono-proxy.js
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { Scheduler } from 'laxity'
import { schedulingHandler } from 'laxity/hono'
import { backends, port } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const app = new Hono()
app.post('/v1/chat/completions', schedulingHandler(scheduler, { expose: true }))
app.get('/dashboard', (c) => c.json(scheduler.snapshot()))

const server = serve({ fetch: app.fetch, port }, ({ port }) => console.log(`listening on ${port}`))
process.on('SIGTERM', async () => {
  await scheduler.close({ drainMs: 10_000 })
  server.close()
})
