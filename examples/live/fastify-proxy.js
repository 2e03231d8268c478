// The same with Fastify: BACKENDS=… PORT=3000 node examples/live/fastify-proxy.js
import Fastify from 'fastify'
import { Scheduler } from 'laxity'
import { schedulingRoute } from 'laxity/fastify'
import { backends, port } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
const app = Fastify()
app.post('/v1/chat/completions', schedulingRoute(scheduler))
app.get('/dashboard', async () => scheduler.snapshot())

await app.listen({ port })
console.log(`listening on ${app.server.address().port}`)
