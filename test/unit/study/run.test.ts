import assert from 'node:assert/strict'
import { readFileSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { studyText } from '../../../lib/cli/study.ts'
import { type SimulateOptions, simulate } from '../../../lib/index.ts'
import { runStudy } from '../../../lib/study/run.ts'
import { runCount, type Study } from '../../../lib/study/study.ts'
import { openSmall, SMALL, studyOf, temporaryFolder } from '../../support/study.ts'

type Row = Record<string, string>

function csv(path: string): Row[] {
  return parse(readFileSync(path), { columns: true }) as Row[]
}

describe('a study on this machine', () => {
  const folder = temporaryFolder()
  let study: Study
  let out: string
  before(async () => {
    study = await studyOf(SMALL)
    out = join(folder(), 'first')
    const result = await runStudy(study, { out, workers: 1, parquet: true })
    assert.deepEqual([result.runs, result.doneRuns, result.resumedRuns], [96, 96, 0])
    assert.deepEqual(
      result.files.map((path) => path.slice(out.length + 1)),
      ['results.jsonl', 'runs.csv', 'tenants.csv', 'runs.parquet'],
    )
  })

  it('gives for every run what `simulate` gives', async () => {
    const rows = csv(join(out, 'runs.csv'))
    const tenants = csv(join(out, 'tenants.csv'))
    assert.equal(rows.length, runCount(study))
    let r = 0
    for (const cluster of SMALL.clusters)
      for (const [w, workload] of ['chess:6', 'mac-sql:5'].entries())
        for (const rate of SMALL.rates)
          for (const policy of [{ policy: 'hexgen-flow' }, { policy: 'laxity', migrate: false }])
            for (const alpha of SMALL.parameters.alpha)
              for (const seed of SMALL.seeds) {
                const options = { ...policy, ...SMALL.options, rate, alpha, seed, parameters: { gamma: 0.5 } }
                const result = await simulate({
                  ...(options as unknown as SimulateOptions),
                  cluster: cluster as string,
                  trace: await openSmall(workload),
                  workers: 0,
                })
                const row = rows[r]!
                assert.equal(row.run, String(r))
                assert.equal(row.workload, w === 0 ? 'chess:6' : 'sql, "quoted"')
                assert.deepEqual([row.rate, row.alpha, row.seed], [rate, alpha, seed].map(String))
                for (const [name, value] of Object.entries({ ...result.metrics, ...result.counts })) {
                  assert.equal(Number(row[name]), value, `run ${r}: ${name}`)
                }
                for (const scale of [2, 5]) {
                  assert.equal(Number(row[`attainment@${scale}`]), result.attainment(scale))
                }
                assert.equal(Number(row.fairnessAttainment), result.fairness!.attainment)
                const mine = tenants.filter(({ run }) => run === String(r))
                assert.deepEqual(
                  mine.map(({ tenant }) => tenant),
                  ['a', 'b'],
                )
                for (const [t, one] of result.tenants.entries()) {
                  assert.equal(Number(mine[t]!.p95Ms), one.p95Ms)
                  assert.equal(Number(mine[t]!.attainment), one.attainment)
                }
                r++
              }
    assert.equal(r, rows.length)
  })

  it('writes the same numbers as Parquet', async () => {
    const rows = csv(join(out, 'runs.csv'))
    const file = await asyncBufferFromFile(join(out, 'runs.parquet'))
    const objects = (await parquetReadObjects({ file })) as Record<string, unknown>[]
    const text = objects.map((object) =>
      Object.fromEntries(Object.entries(object).map(([name, value]) => [name, String(value ?? '')])),
    )
    assert.deepEqual(text, rows)
  })

  it('has the same bytes for any number of threads, and after any interruption', async () => {
    const names = ['runs.csv', 'tenants.csv', 'runs.parquet']
    const bytes = (folder: string) => names.map((name) => readFileSync(join(folder, name)).toString('base64'))
    const three = join(folder(), 'three')
    await runStudy(study, { out: three, workers: 3, parquet: true })
    assert.deepEqual(bytes(three), bytes(out))
    const journal = join(three, 'results.jsonl')
    const { length } = readFileSync(journal)
    for (const share of [0.9, 0.5, 0.2]) {
      truncateSync(journal, Math.floor(length * share))
      for (const name of names) rmSync(join(three, name))
      const result = await runStudy(study, { out: three, workers: 2, parquet: true })
      assert.equal(result.doneRuns, 96)
      assert.deepEqual(bytes(three), bytes(out))
    }
  })

  it('does not run again what is finished', async () => {
    const result = await runStudy(study, { out, workers: 1 })
    assert.deepEqual([result.resumedRuns, result.timing.chunks, result.timing.cpuMs], [96, 0, 0])
  })

  it('stops when told to, and goes on', async () => {
    const long = await studyOf({ ...SMALL, workloads: ['chess:60'], seeds: '1:100:1' })
    const stopped = join(folder(), 'stopped')
    const controller = new AbortController()
    const onProgress = ({ doneRuns }: { doneRuns: number }) => {
      if (doneRuns > 0) controller.abort()
    }
    await assert.rejects(
      runStudy(long, { out: stopped, workers: 1, signal: controller.signal, onProgress }),
      {
        code: 'ERR_LAXITY_ABORTED',
      },
    )
    const result = await runStudy(long, { out: stopped, workers: 1 })
    assert(result.resumedRuns > 0 && result.resumedRuns < result.runs)
    assert.equal(result.doneRuns, result.runs)
    assert.equal(csv(join(stopped, 'runs.csv')).length, result.runs)
  })

  it('has an id by its content', async () => {
    const other = (change: object) => studyOf({ ...SMALL, ...change }).then(({ id }) => id)
    assert.equal(await other({ name: 'renamed' }), study.id)
    assert.equal((await other({ seeds: '4,1,9', rates: [0.3, 2] })) === study.id, false, 'another order')
    for (const change of [
      { rates: [0.3, 3] },
      { workloads: ['chess:6'] },
      { options: {} },
      { scales: [2] },
    ]) {
      assert.notEqual(await other(change), study.id)
    }
  })

  it('sets a run aside that the core refuses, and keeps its neighbours', async () => {
    const [good, bad] = study.clusters
    const { cluster } = bad!
    const latencies = cluster.latencies.map((latency) => ({ ...latency, prefillPerTokenMs: -1 }))
    const poisoned = {
      ...study,
      id: 'poisoned',
      clusters: [good!, { label: 'bad', cluster: { ...cluster, latencies } as typeof cluster }],
      workloads: study.workloads.slice(0, 1),
      rates: [0.3],
      policies: study.policies.slice(0, 1),
      parameters: [],
      seeds: [1],
    }
    const result = await runStudy(poisoned, { out: join(folder(), 'poisoned'), workers: 1 })
    assert.deepEqual([result.runs, result.doneRuns], [2, 1])
    const [aside, ...more] = result.aside
    assert.deepEqual(more, [])
    assert.deepEqual([aside!.from, aside!.to, aside!.attempts], [1, 2, 3])
    assert.match(aside!.error, /\S/)
    const text = studyText(poisoned, result)
    assert.match(text, /: 1 of 2 runs\n/)
    assert.ok(
      text.includes(
        `  run 1, cluster bad, workload chess:6, rate 0.3, policy hexgen-flow, seed 1: ${aside!.error} (3 attempts)\n`,
      ),
      text,
    )
    const many = Array.from({ length: 30 }, () => ({ ...aside!, from: 0, to: 2 }))
    assert.match(
      studyText(poisoned, { ...result, aside: many }),
      /seed 1 and 1 after it: .*\n {2}and 10 more\n/s,
    )
  })
})
