import assert from 'node:assert/strict'
import { rowBound } from '../../../lib/bounds/row.ts'
import { compare } from '../../../lib/compare/compare.ts'
import { compareCsv } from '../../../lib/compare/csv.ts'
import type { CompareOptions } from '../../../lib/compare/options.ts'
import { boundReport } from '../../../lib/report/bound-report.ts'
import { compareReport } from '../../../lib/report/compare-report.ts'
import { closePools } from '../../../lib/simulator/pool.ts'
import { laxity } from '../cli/shared.ts'
import { problemsOf } from '../model/shared.ts'

const small: CompareOptions = {
  workload: 'bfcl',
  cluster: 'hexagent-hetero-1',
  policy: ['hexagent', 'workflow-fcfs/earliest-finish', 'fcfs/round-robin', 'sjf/splitwise'],
  load: [0.8, 5],
  workflows: 100,
  seeds: 2,
  bound: true,
}

describe('the lower bound', () => {
  after(closePools)

  it('is above no policy, the same for all of a setting and for any number of workers', async () => {
    const [here, there] = await Promise.all([
      compare({ ...small, workers: 0 }),
      compare({ ...small, workers: 1 }),
    ])
    assert.equal(here.rows.length, 8)
    for (const [i, row] of here.rows.entries()) {
      assert.equal(row.sloBase, 'horizon')
      const { bound } = row
      assert.ok(bound !== undefined)
      assert.deepEqual(there.rows[i]!.bound, bound)
      for (const { req95, req99, evictions, bound } of row.perSeed) {
        assert.equal(evictions, 0)
        assert.ok(
          bound!.bound95 > 0.9 && bound!.bound95 <= bound!.bound99 && bound!.bound99 <= bound!.bound100,
        )
        assert.ok(req95 >= bound!.bound95 && req99 >= bound!.bound99 && bound!.req100 >= bound!.bound100)
        // From times in ms, where the others are from ns.
        assert.ok(bound!.req100 >= req99 * (1 - 1e-12))
      }
      const first = here.rows[4 * Math.floor(i / 4)]!.perSeed
      for (const name of ['bound95', 'bound99', 'bound100'] as const)
        assert.deepEqual(
          row.perSeed.map(({ bound }) => bound![name]),
          first.map(({ bound }) => bound![name]),
        )
      assert.ok(bound.over95! >= 1 && bound.over99! >= 1 && bound.over100! >= 1)
    }

    // Five times what the cluster sustains: more than the critical paths alone.
    assert.ok(here.rows[4]!.bound!.bound100 > 1.1)

    assert.match(compareReport(here), /no scheduler below Req95 \d.*\n\n policy +Req95 +vs first +\/ bound/)
    assert.match(boundReport(here), /\n no scheduler below +\d/)
    const [head, line] = compareCsv(here.rows).split('\n')
    const at = head!.split(',').indexOf('over100')
    assert.equal(Number(line!.split(',')[at]), here.rows[0]!.bound!.over100)
  })

  it('is left out where nobody asked', async () => {
    const { rows } = await compare({ ...small, bound: undefined, load: 0.8, seeds: 1, workers: 0 })
    for (const row of rows) assert.ok(!('bound' in row) && !('bound' in row.perSeed[0]!))
  })

  it('says nothing of runs outside its model', () => {
    const bound = { req100: 3, bound95: 1, bound99: 1.5, bound100: 2 }
    const seed = { req95: 2, req99: 3, evictions: 0, bound }
    assert.deepEqual(rowBound([seed, seed]), { ...bound, over95: 2, over99: 2, over100: 1.5 })
    const evicted = rowBound([seed, { ...seed, evictions: 1 }])
    assert.deepEqual([evicted.over95, evicted.over99, evicted.over100], [null, null, null])
    const endless = rowBound([{ ...seed, bound: { ...bound, req100: Number.POSITIVE_INFINITY } }])
    assert.equal(endless.over95, 2)
    assert.equal(endless.over100, null)
  })

  it('refuses unified clusters and other bases', async () => {
    const unified = await problemsOf(() => compare({ ...small, cluster: 'hexgen-homo', policy: undefined }))
    assert.match(unified[0]!.message, /`bound` needs prefill-decode clusters, and hexgen-homo is unified/)
    const base = await problemsOf(() => compare({ ...small, sloBase: 'exclusive' }))
    assert.match(base[0]!.message, /`bound` is on multiples of the final horizon: leave `sloBase` out/)
  })

  it('has a command', async () => {
    const args = ['bound', '--workload', 'bfcl', '--workflows', '10', '--seeds', '1', '--policy', 'hexagent']
    const [json, text] = await Promise.all([laxity(...args, '--json'), laxity(...args)])
    assert.deepEqual([json.status, json.stderr, text.status], [0, '', 0])
    const document = JSON.parse(json.stdout) as { command: string; rows: Record<string, unknown>[] }
    assert.equal(document.command, 'bound')
    assert.equal(document.rows.length, 1)
    for (const name of ['req95', 'req99', 'req100', 'bound95', 'bound99', 'bound100', 'over95', 'over100'])
      assert.equal(typeof document.rows[0]![name], 'number', name)
    assert.match(text.stdout, /no scheduler below/)
    const refused = await laxity(...args, '--cluster', 'hexgen-homo')
    assert.equal(refused.status, 2)
    assert.match(refused.stderr, /bound/)
  })
})
