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

  it('knows unified clusters and every base', async () => {
    for (const sloBase of ['exclusive', 'horizon', undefined] as const) {
      const { rows } = await compare({
        workload: 'chess:1',
        cluster: 'hexgen-hetero-2',
        load: [0.9, 5],
        workflows: 100,
        seeds: 1,
        bound: true,
        sloBase,
        workers: 0,
      })
      assert.equal(rows.length, 6)
      for (const { bound, perSeed, policy } of rows) {
        assert.ok(bound!.over95! >= 1 && bound!.over99! >= 1 && bound!.over100! >= 1, policy)
        assert.equal(perSeed[0]!.evictions, 0)
      }
      // Five times what the cluster sustains: most of what the best policy needs.
      assert.ok(Math.min(...rows.slice(3).map(({ bound }) => bound!.over100!)) < 2)
    }
  })

  it('stands below a search that knows the future, which is the same for any number of workers', async () => {
    for (const cluster of ['hexagent-hetero-1', 'hexgen-hetero-2']) {
      const options = { ...small, cluster, policy: undefined, load: 1, reference: 'search:12' } as const
      const [here, there] = await Promise.all([
        compare({ ...options, workers: 0 }),
        compare({ ...options, workers: 1 }),
      ])
      for (const [i, { bound, perSeed }] of here.rows.entries()) {
        assert.deepEqual(there.rows[i]!.bound, bound)
        assert.ok(
          bound!.referenceOver95! >= 1 && bound!.referenceOver99! >= 1 && bound!.referenceOver100! >= 1,
        )
        for (const { req95, req99, bound } of i === 0 ? perSeed : [])
          assert.ok(
            bound!.reference95! <= req95 &&
              bound!.reference99! <= req99 &&
              bound!.reference100! <= bound!.req100 * (1 + 1e-12),
          )
      }
      assert.match(compareReport(here), /clairvoyant search \d.* \(achievable, not optimal\)/)
      assert.match(boundReport(here), /\n clairvoyant search +\d/)
    }
    const [alone] = await problemsOf(() => compare({ ...small, bound: undefined, reference: 'search' }))
    assert.match(alone!.message, /`reference` needs `bound`/)
    const [wrong] = await problemsOf(() => compare({ ...small, reference: 'search:0' }))
    assert.match(wrong!.message, /Expected search, or search:n .* for `reference`, got "search:0"/)
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
  })
})
