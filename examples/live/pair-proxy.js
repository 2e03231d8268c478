// A proxy in front of prefill and decode instances: SGLang with its bootstrap (default), or vLLM with PROTOCOL=vllm.
//   PREFILL=http://gpu-1:30000 DECODE=http://gpu-2:30000 node examples/live/pair-proxy.js
import { createServer } from 'node:http'
import { Scheduler } from 'laxity'
import { schedulingMiddleware } from 'laxity/node'

const {
  PREFILL = 'http://localhost:30000',
  DECODE = 'http://localhost:30001',
  PROTOCOL = 'sglang',
} = process.env
const bootstrap = process.env.BOOTSTRAP?.split(',').map(Number) ?? []

const scheduler = new Scheduler({
  cluster: [
    ...PREFILL.split(',').map((url, i) => ({
      url,
      role: 'prefill',
      gpu: 'a100',
      ...(bootstrap[i] !== undefined && { bootstrap: { port: bootstrap[i] } }),
    })),
    ...DECODE.split(',').map((url) => ({ url, role: 'decode', gpu: 'a100' })),
  ],
})
const serve = schedulingMiddleware(scheduler, { protocol: PROTOCOL, expose: true })
const server = createServer((req, res) => {
  if (req.url !== '/ready') return serve(req, res)
  res.writeHead(scheduler.ready() ? 200 : 503).end()
})
server.listen(Number(process.env.PORT ?? 8080), () => console.log(`listening on ${server.address().port}`))
process.on('SIGTERM', () => scheduler.close({ drainMs: 10_000 }).then(() => process.exit(0)))
