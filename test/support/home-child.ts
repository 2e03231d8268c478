// Another router over the same engines: prints where it takes each id of its arguments to be at home.
import { ManualClock } from '../../lib/scheduler/clock.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'

const [urls, ...ids] = process.argv.slice(2) as [string, ...string[]]
// In another order: the place in the list says nothing.
const cluster = urls
  .split(',')
  .reverse()
  .map((url) => ({ url }))
const scheduler = new Scheduler({ cluster, clock: new ManualClock(), tieSeed: 7 })
console.log(JSON.stringify(ids.map((id) => scheduler.homeOf(id))))
await scheduler.close()
