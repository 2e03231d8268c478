import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { chessTrace } from '../../lib/traces/chess.ts'
import { sweep } from '../../lib/tuning/sweep.ts'
import { virtual } from './live.ts'

// A process of its own, so that nothing else has threads or schedulers in it. Prints how many of its threads have given way (by ten
// nice levels) while a sweep is on its way on one thread: by default, asked to, beside a scheduler, beside it but told not to, and after it.

async function given(options: { background?: boolean }): Promise<number> {
  const trace = await chessTrace({ workflows: 200, preset: 3, seed: 1 })
  const stop = new AbortController()
  let count = 0
  const look = () => {
    for (const task of readdirSync('/proc/self/task')) {
      const fields = readFileSync(`/proc/self/task/${task}/stat`, 'utf8').split(') ')[1]!.split(' ')
      if (Number(fields[16]) === getPriority() + 10) count += 1
    }
    stop.abort()
  }
  await sweep({
    trace,
    cluster: 'hexgen-homo',
    replications: 5000,
    workers: 1,
    signal: stop.signal,
    onProgress: ({ doneWorkflows }) => doneWorkflows > 0 && look(),
    ...options,
  }).catch((error) => {
    if (!stop.signal.aborted) throw error
  })
  return count
}

const counts = [await given({}), await given({ background: true })]
const { scheduler } = virtual()
counts.push(await given({}), await given({ background: false }))
await scheduler.close()
await scheduler.close()
counts.push(await given({}))
console.log(JSON.stringify(counts))
