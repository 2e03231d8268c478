// The same as a middleware: BACKENDS=… PORT=3000 node examples/live/express-proxy.js
import express from 'express'
import { Scheduler } from 'laxity'
import { schedulingMiddleware } from 'laxity/node'
import { registerMetrics } from 'laxity/prometheus'
import { register } from 'prom-client'
import { backends, port } from './backends.js'

const scheduler = new Scheduler({ cluster: backends })
registerMetrics(scheduler)
const app = express()
app.use(schedulingMiddleware(scheduler))
app.get('/metrics', async (_, res) => void res.type(register.contentType).send(await register.metrics()))

const server = app.listen(port, () => console.log(`listening on ${server.address().port}`))
