// The package's Hono proxy in a process of its own. argv: JSON of { instances, router, compression }. Prints its port.
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { schedulingHandler } from '../../dist/adapters/hono.js'
import { Scheduler } from '../../dist/index.js'

const { instances, router, compression } = JSON.parse(process.argv[2])
/** In the engines' time, so that every time the scheduler has by default means what it says. */
const clock = {
  now: () => performance.now() * compression,
  setTimer: (callback, delayMs) => setTimeout(callback, Math.max(0, Math.ceil(delayMs / compression))),
  clearTimer: clearTimeout,
}
const scheduler = new Scheduler({ cluster: instances, clock, ...router })
const app = new Hono()
app.post('/v1/chat/completions', schedulingHandler(scheduler))
app.get('/state', (c) => {
  const { workflows, activeCalls, queued, retriesRefused, leasesGranted } = scheduler.snapshot()
  const cpu = process.cpuUsage()
  return c.json({
    workflows,
    activeCalls,
    queued,
    retriesRefused,
    leasesGranted,
    cpuMs: (cpu.user + cpu.system) / 1000,
  })
})
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => console.log(port))
// Whoever started it is gone.
process.stdin.on('end', () => process.exit()).resume()
