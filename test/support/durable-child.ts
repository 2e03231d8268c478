import { writeSync } from 'node:fs'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { instances } from './live.ts'

// A durable scheduler under load until it is killed. It says which leases it was given as soon as it is, and which it is
// about to close.
const scheduler = new Scheduler({ cluster: instances(3), log: process.argv[2]!, durable: true })
const say = (line: string) => writeSync(1, `${line}\n`)
let calls = 0

async function agent(): Promise<void> {
  for (;;) {
    const workflow = scheduler.workflow({ sloMs: 10_000 })
    for (let i = 0; i < 3; i += 1) {
      calls += 1
      let lease: Lease | null = await workflow.call({ id: `c${calls}`, promptTokens: 100 + (calls % 7) })
      while (lease !== null) {
        const { id, epoch }: Lease = lease
        say(`lease ${id} ${epoch}`)
        await new Promise((resolve) => setTimeout(resolve, 1 + (calls % 5)))
        say(`done ${id} ${epoch}`)
        if (calls % 11 === 0) {
          lease = await lease.failed({ status: 500 })
        } else {
          lease.done({ outputTokens: 5 })
          lease = null
        }
      }
    }
    workflow.end()
  }
}

for (let i = 0; i < 12; i += 1) void agent()
