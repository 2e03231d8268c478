import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { sweep } from '../../../lib/tuning/sweep.ts'
import { code, virtual } from '../../support/live.ts'

/** Nice values of this process's threads, while a sweep is on its way on one thread of its pool. */
async function niceDuringSweep(options: { background?: boolean }): Promise<number[]> {
  const trace = await chessTrace({ workflows: 200, preset: 3, seed: 1 })
  const stop = new AbortController()
  let seen: number[] = []
  const look = () => {
    seen = readdirSync('/proc/self/task').map((task) =>
      Number(readFileSync(`/proc/self/task/${task}/stat`, 'utf8').split(') ')[1]!.split(' ')[16]),
    )
    stop.abort()
  }
  const sweeping = sweep({
    trace,
    cluster: 'hexgen-homo',
    replications: 5000,
    workers: 1,
    signal: stop.signal,
    onProgress: ({ doneWorkflows }) => doneWorkflows > 0 && look(),
    ...options,
  })
  assert.equal(await code(sweeping), 'ERR_LAXITY_ABORTED')
  return seen
}

const lowered = (nice: number[]) => nice.filter((value) => value === 10).length

describe('worker threads in the background', function () {
  this.timeout(60_000)
  before(function () {
    if (process.platform === 'linux') return
    console.log('      skipped: threads have no priority of their own here')
    this.skip()
  })

  it('are those beside a live scheduler, unless told otherwise', async () => {
    assert.equal(lowered(await niceDuringSweep({})), 0)
    assert.equal(lowered(await niceDuringSweep({ background: true })), 1)
    const { scheduler } = virtual()
    assert.equal(lowered(await niceDuringSweep({})), 1)
    assert.equal(lowered(await niceDuringSweep({ background: false })), 0)
    await scheduler.close()
    await scheduler.close()
    assert.equal(lowered(await niceDuringSweep({})), 0)
  })

  it('are asked for by true or false', async () => {
    const background = 'yes' as unknown as boolean
    const trace = await chessTrace({ workflows: 2, preset: 3, seed: 1 })
    assert.equal(await code(sweep({ trace, cluster: 'hexgen-homo', background })), 'ERR_LAXITY_OPTION')
  })
})
