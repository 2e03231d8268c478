import assert from 'node:assert/strict'
import { bindCluster } from '../../../lib/cluster/bind.ts'
import { loadCluster } from '../../../lib/cluster/load.ts'
import { readProfile } from '../../../lib/model/profile.ts'
import { native } from '../../../lib/native.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { problemsOf, temporaryFolder } from './shared.ts'

const HEADER = 'batch,context,new_tokens,latency_ms'
const ROWS = [
  ...['1,1000,0,10', '1,4000,1,13', '8,1000,0,12', '8,4000,0,20'],
  ...['1,0,512,30', '1,0,2048,100', '1,0,2048,102', '1,0,2048,101'],
]

describe('measured profiles', () => {
  const files = temporaryFolder()
  const csv = (name: string, lines: readonly string[]) =>
    files.write(name, `${[HEADER, ...lines].join('\n')}\n`)

  it('reads decode and prefill rows; repeats count by their median', async () => {
    const { latency, coverage, raised } = await readProfile(csv('good.csv', ROWS), false)
    assert.deepEqual(latency.decode, { rows: [1, 8], columns: [1000, 4000], ms: [10, 13, 12, 20] })
    assert.deepEqual(latency.prefill, { rows: [0], columns: [512, 2048], ms: [30, 101] })
    assert.deepEqual(coverage, { batch: 8, contextPerSequence: 4000, newTokens: 2048, extrapolate: false })
    assert.equal(raised.cells, 0)
    const model = new native.Latency({ latencies: [latency] })
    const out = new Float64Array(2)
    model.decode(Uint32Array.of(8, 8), Float64Array.of(8000, 20_000), out)
    assert.deepEqual([...out], [12, 16])
    model.prefill(Uint32Array.of(512, 1280), Uint32Array.of(0, 0), out)
    assert.deepEqual([...out], [30, 65.5])
  })

  it('raises times that fall where the load grows, and says so', async () => {
    const { latency, raised } = await readProfile(
      csv('noise.csv', [...ROWS.slice(0, 3), '8,4000,0,11', ...ROWS.slice(4)]),
      false,
    )
    assert.deepEqual(latency.decode.ms, [10, 13, 12, 13])
    assert.equal(raised.cells, 1)
    assert(Math.abs(raised.mostPercent - 100 * (13 / 11 - 1)) < 1e-9)
  })

  it('fills holes only where it may extrapolate', async () => {
    const path = csv('holes.csv', [
      ...ROWS.filter((row) => row !== '8,4000,0,20'),
      '8,2000,0,14',
      '1,2000,0,11',
    ])
    const [hole] = await problemsOf(() => readProfile(path, false))
    assert.equal(hole!.code, 'ERR_LAXITY_RANGE')
    assert.match(hole!.message, /No decode row for batch 8, context 4000: measure it, or allow `extrapolate`/)
    const { latency } = await readProfile(path, true)
    assert.deepEqual(latency.decode.ms, [10, 11, 13, 12, 14, 18])
  })

  it('refuses rows that say nothing of this kind', async () => {
    const cases: [lines: string[], code: string, message: RegExp][] = [
      [ROWS.slice(0, 4), 'ERR_LAXITY_EMPTY', /no prefill rows/],
      [ROWS.slice(4), 'ERR_LAXITY_EMPTY', /no decode rows/],
      [[...ROWS, '4,0,512,60'], 'ERR_LAXITY_FIELD', /:10: Expected batch 1 in a prefill row/],
    ]
    for (const [lines, code, message] of cases) {
      const [problem] = await problemsOf(() => readProfile(csv('bad.csv', lines), false))
      assert.equal(problem!.code, code)
      assert.match(problem!.message, message)
    }
    const serving = files.write('serving.csv', 'concurrency,isl,osl,tpot\n1,10,10,5\n')
    const [problem] = await problemsOf(() => readProfile(serving, false))
    assert.match(problem!.message, /Missing columns/)
  })

  it('runs in the simulator, but not beyond what was measured', async () => {
    const wide = [
      '1,100,0,10',
      '1,200000,0,30',
      '256,100,0,20',
      '256,200000,0,4000',
      '1,0,16,5',
      '1,0,200000,9000',
    ]
    csv('wide.csv', wide)
    csv('narrow.csv', ROWS)
    const trace = await chessTrace({ workflows: 5, preset: 1, seed: 1 })
    const cluster = (name: string, extrapolate: boolean) =>
      files.write(
        `${name}-${extrapolate}.json`,
        JSON.stringify({
          latencies: { mine: { kind: 'profile', csv: `${name}.csv`, extrapolate } },
          instances: [{ latency: 'mine', count: 2, kvTokens: 500_000 }],
        }),
      )
    const run = (name: string, extrapolate: boolean) =>
      simulate({ trace, cluster: cluster(name, extrapolate), policy: 'vllm', laws: true, workers: 0 })
    assert.equal((await run('wide', false)).counts.completed, 5)
    assert.equal((await run('narrow', true)).counts.completed, 5)
    const [problem] = await problemsOf(() => run('narrow', false))
    assert.equal(problem!.code, 'ERR_LAXITY_RANGE')
    assert.match(
      problem!.message,
      /profile "mine" does not cover batch 256 \(measured up to 8\), .*set `extrapolate`/,
    )
    const bound = bindCluster(await loadCluster(cluster('wide', false)), trace)
    assert.equal(bound.latencies.length, 1)
  })
})
