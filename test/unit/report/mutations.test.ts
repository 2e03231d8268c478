import assert from 'node:assert/strict'
import { simulateDocument } from '../../../lib/cli/simulate.ts'
import { tuneDocument } from '../../../lib/cli/tune.ts'
import { LaxityError } from '../../../lib/errors.ts'
import { htmlReport } from '../../../lib/report/html/report.ts'
import { checkResult } from '../../../lib/report/result/read.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { sweep } from '../../../lib/tuning/sweep.ts'
import { random } from './shared.ts'

const VALUES = [null, 0, -1, 1e308, 0.5, '', 'x', [], {}, true, [1, 2], [[1, 2]]]

/** Changes one place of a document: another value, or none. */
function mutate(document: unknown, below: (n: number) => number): void {
  let node = document as Record<string, unknown>
  for (;;) {
    const keys = Object.keys(node)
    if (keys.length === 0) return
    const key = keys[below(keys.length)]!
    const child = node[key]
    if (typeof child === 'object' && child !== null && below(5) > 0) {
      node = child as Record<string, unknown>
      continue
    }
    if (below(4) === 0) delete node[key]
    else node[key] = VALUES[below(VALUES.length)]
    return
  }
}

describe('results that were changed by hand', () => {
  it('give a page, or an error with a code', async () => {
    const trace = await chessTrace({ workflows: 3, preset: 3, seed: 1 })
    const options = { trace, cluster: 'hexgen-hetero-2', rate: 1 }
    const run = await simulate({ ...options, perCall: true, tenants: 'a=1,b=2' })
    const tune = tuneDocument(
      await sweep({ ...options, replications: 2, alphas: [0, 1], tenants: 'a=1,b=2' }),
    )
    const row = { policy: 'p', workload: 'w', cluster: 'c', load: 1, knowledge: 'online', feedback: 'lease' }
    const compare = {
      command: 'compare',
      rows: [{ ...row, req95: 1, planUs: { p50: 1, p99: 2 }, attainment: [[1, 0.5]] }],
    }
    const documents = [simulateDocument(run, { perCall: true }), tune, compare].map((one) =>
      JSON.stringify(one),
    )
    const below = random(1)
    let pages = 0
    for (let k = 0; k < 1500; k++) {
      const document = JSON.parse(documents[k % documents.length]!)
      for (let n = 0; n <= below(2); n++) mutate(document, below)
      try {
        assert.match(htmlReport([checkResult(document, 'x: ')]), /^<!doctype html>/)
        pages++
      } catch (error) {
        if (!(error instanceof LaxityError))
          throw new Error(JSON.stringify(document).slice(0, 2000), { cause: error })
      }
    }
    assert(pages > 100 && pages < 1400)
  })
})
