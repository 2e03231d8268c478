import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { sweep } from '../../../lib/tuning/sweep.ts'
import { code } from '../../support/live.ts'

describe('worker threads in the background', function () {
  this.timeout(120_000)

  it('are those beside a live scheduler, unless told otherwise', function () {
    if (process.platform !== 'linux') {
      console.log('      skipped: threads have no priority of their own here')
      this.skip()
    }
    const script = fileURLToPath(new URL('../../support/background-child.ts', import.meta.url))
    const child = spawnSync(process.execPath, ['--import', 'tsx', script], { encoding: 'utf8' })
    assert.equal(child.stdout.trim(), '[0,1,1,0,0]', child.stderr)
  })

  it('are asked for by true or false', async () => {
    const background = 'yes' as unknown as boolean
    const trace = await chessTrace({ workflows: 2, preset: 3, seed: 1 })
    assert.equal(await code(sweep({ trace, cluster: 'hexgen-homo', background })), 'ERR_LAXITY_OPTION')
  })
})
