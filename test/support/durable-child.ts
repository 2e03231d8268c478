import { writeSync } from 'node:fs'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { instances } from './live.ts'

// A durable scheduler under load until it is killed. It says what it asks for, which leases it was given as soon as it is, and
// which it is about to close: lines of what, workflow, call, epoch.
const scheduler = new Scheduler({ cluster: instances(3), log: process.argv[2]!, durable: true })
const still = new Int32Array(new SharedArrayBuffer(4))

/** What is said is written when this returns. The pipe does not wait where it is full, so this does. */
function say(...words: (string | number)[]): void {
  let left = Buffer.from(`${words.join(' ')}\n`)
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(1, left))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(still, 0, 0, 1)
    }
  }
}

let workflows = 0

async function agent(): Promise<void> {
  for (;;) {
    workflows += 1
    const name = `w${workflows}`
    const workflow = scheduler.workflow({ id: name, sloMs: 10_000 })
    for (let i = 0; i < 3; i += 1) {
      const call = `c${i}`
      const n = workflows * 3 + i
      say('call', name, call, 0)
      let lease: Lease | null = await workflow.call({ id: call, promptTokens: 100 + (n % 7) })
      while (lease !== null) {
        const { epoch }: Lease = lease
        say('lease', name, call, epoch)
        await new Promise((resolve) => setTimeout(resolve, 1 + (n % 5)))
        say('done', name, call, epoch)
        if (n % 11 === 0) {
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
