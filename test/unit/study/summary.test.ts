import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { studyDocument } from '../../../lib/cli/study.ts'
import { htmlReport } from '../../../lib/report/html/report.ts'
import { checkResult } from '../../../lib/report/result/read.ts'
import { loadNative } from '../../../lib/simulator/simulate.ts'
import { rowLayout } from '../../../lib/study/rows.ts'
import { runStudy } from '../../../lib/study/run.ts'
import { MemoryStore } from '../../../lib/study/store.ts'
import { cellCount, coordinatesOf, runCount } from '../../../lib/study/study.ts'
import { summarise } from '../../../lib/study/summary.ts'
import { SMALL, studyOf, temporaryFolder } from '../../support/study.ts'

/** Two-sided 97.5 % points of Student's t with 1 and 2 degrees of freedom. */
const T = [12.7062047, 4.30265273]

describe('the summary of a study', () => {
  const folder = temporaryFolder()

  it('is means and Student-t intervals over the seeds, wherever chunks end', async () => {
    const study = await studyOf(SMALL)
    const native = await loadNative()
    const layout = rowLayout(study.scales.length, 1)
    const runs = runCount(study)
    const value = (run: number, column: number) => ((run * 7919 + column * 104_729) % 1009) / 10
    const column = layout.columns.indexOf('p95Ms')
    for (const cut of [1, 2, 5, runs]) {
      const store = new MemoryStore()
      // Cell 1 lacks a run, cell 2 all of them, and a run of cell 3 is infinite.
      for (let from = 0; from < runs; from += cut) {
        for (let run = from; run < Math.min(runs, from + cut); run++) {
          if (run === 4 || (run >= 6 && run < 9)) continue
          const rows = Float64Array.from({ length: layout.width }, (_, c) => value(run, c))
          if (run === 10) rows[column] = Number.POSITIVE_INFINITY
          await store.append({ from: run, to: run + 1, rows, cpuMs: 1 })
        }
      }
      const cells = await summarise(native, study, layout, store)
      assert.equal(cells.length, cellCount(study) - 1)
      let c = 0
      for (let cell = 0; cell < cellCount(study); cell++) {
        if (cell === 2) continue
        const own = cells[c++]!
        const at = coordinatesOf(study, cell * 3)
        assert.equal(own.policy, study.policies[at.policy]!.label)
        assert.equal(own.parameters.alpha, study.parameters[0]!.values[at.parameters[0]!])
        const seeds = [0, 1, 2].map((s) => cell * 3 + s).filter((run) => run !== 4)
        assert.equal(own.seeds, seeds.length)
        const values = seeds.map((run) => value(run, column))
        if (cell === 3) {
          assert.deepEqual(own.p95Ms, { mean: Number.POSITIVE_INFINITY, ci95: null })
          continue
        }
        const mean = values.reduce((sum, x) => sum + x, 0) / values.length
        const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1)
        const half = T[values.length - 2]! * Math.sqrt(variance / values.length)
        for (const [got, wanted] of [
          [own.p95Ms.mean, mean],
          [own.p95Ms.ci95![0], mean - half],
          [own.p95Ms.ci95![1], mean + half],
        ] as const)
          assert(Math.abs(got - wanted) < 1e-6 * Math.max(1, Math.abs(wanted)), `${got} for ${wanted}`)
        assert.deepEqual(
          own.attainment.map(({ scale }) => scale),
          [2, 5],
        )
        const first = seeds.map((run) => value(run, layout.attainment))
        assert.equal(own.attainment[0]!.mean, first.reduce((sum, x) => sum + x, 0) / first.length)
      }
    }
  })

  it('is what a report shows: tables, curves along every axis, and what is missing', async () => {
    const study = await studyOf(SMALL)
    const result = await runStudy(study, { out: join(folder(), 'report'), workers: 1, summary: true })
    const document = JSON.parse(JSON.stringify(studyDocument(study, result)))
    const page = htmlReport([checkResult(document, 'study: ')])
    assert.equal(htmlReport([checkResult(document, 'study: ')]), page)
    const titles = [...page.matchAll(/<h3[^>]*><span[^>]*>Figure \d+\.<\/span> ([^<]*)/g)].map((m) => m[1])
    const settings = ['hexgen-hetero-1', 'two'].flatMap((cluster) =>
      ['chess:6', 'sql, &quot;quoted&quot;'].map((workload) => `${workload} on ${cluster}`),
    )
    for (const setting of settings) {
      for (const axis of ['the rate', 'alpha']) {
        assert(titles.includes(`P95 latency against ${axis}: ${setting}`), `${axis}, ${setting}`)
        assert(titles.includes(`Within SLO scale 5 against ${axis}: ${setting}`))
      }
      assert(titles.includes(`SLO attainment at 2/s: ${setting}`))
      assert(!titles.includes(`P95 latency against gamma: ${setting}`), 'gamma has one value')
    }
    assert.match(page, /96 of 96 runs are finished\./)
    // Only what a policy reads.
    assert.match(page, /the least mean P95 is [^<]*, under /)
    assert.doesNotMatch(page, /under laxity[^.]* with alpha/)
    assert.match(page, /<dt>Seeds<\/dt><dd>4, 1, 9, the same in every cell/)
    document.doneRuns = 90
    assert.match(htmlReport([checkResult(document, 'study: ')]), /6 runs are missing/)
  })

  it('compares policies in one figure where there is one rate, and the best of many in the others', async () => {
    const orders = ['fcfs', 'urgency', 'ratio', 'workflow-fcfs', 'plas']
    const policies = orders.flatMap((order) =>
      ['round-robin', 'least-work-left'].map((placement) => ({
        order,
        placement,
        name: `${order}/${placement}`,
      })),
    )
    const study = await studyOf({
      clusters: ['hexgen-homo'],
      workloads: ['chess:8'],
      rates: [2],
      policies,
      scales: [2, 5],
      seeds: [1, 2],
    })
    const result = await runStudy(study, { out: join(folder(), 'policies'), workers: 1, summary: true })
    const document = JSON.parse(JSON.stringify(studyDocument(study, result)))
    const page = htmlReport([checkResult(document, 'study: ')])
    const figures = JSON.parse(/id="figures">(.*?)<\/script>/s.exec(page)![1]!) as {
      kind: string
      title: string
      rows?: { name: string; x: number; low?: number; high?: number }[]
      series?: { name: string }[]
    }[]
    const dots = figures.find(({ title }) => title === 'P95 latency by policy')!
    const cells = document.cells as {
      policy: string
      p95Ms: { mean: number; ci95: [number, number] | null }
    }[]
    assert.deepEqual(
      dots.rows!.map(({ name, x, low, high }) => [name, x, low, high]),
      cells.map(({ policy, p95Ms: { mean, ci95 } }) => [policy, mean, ci95?.[0], ci95?.[1]]),
    )
    assert.match(page, /<th[^>]*>95 % interval<\/th>/)
    const lines = figures.find(({ title }) => title.startsWith('SLO attainment at 2/s'))!
    const best = cells.toSorted((a, b) => a.p95Ms.mean - b.p95Ms.mean).slice(0, lines.series!.length)
    assert.ok(lines.series!.length < cells.length)
    assert.deepEqual(
      new Set(lines.series!.map(({ name }) => name)),
      new Set(best.map(({ policy }) => policy)),
    )
    // Nothing finished: no point is drawn, and it comes last.
    cells[0]!.p95Ms = { mean: null as never, ci95: null }
    const without = htmlReport([checkResult(document, 'study: ')])
    assert.doesNotMatch(without.replace(/<script>[\s\S]*/, ''), /NaN/)
  })

  it('is refused with its place where a file is damaged', () => {
    const cell = { cluster: 'c', workload: 'w', rate: 1, policy: 'p', parameters: {}, seeds: 1 }
    const bad = { command: 'study', id: 'i', name: 'n', version: '1', runs: 1, doneRuns: 1, seeds: [1] }
    assert.throws(
      () =>
        checkResult({ ...bad, options: {}, cells: [{ ...cell, p95Ms: { mean: 'x', ci95: null } }] }, 'f: '),
      (error: Error & { code: string }) =>
        error.code === 'ERR_LAXITY_FIELD' && /f: cells\[0\]\.p95Ms\.mean/.test(error.message),
    )
    assert.throws(() => checkResult({ ...bad, options: {} }, 'f: '), /cells/)
  })

  it('comes from the command, as JSON and as a page, and not where the grid is too large', async () => {
    const study = join(folder(), 'study.json')
    const report = join(folder(), 'report.html')
    const run = (...flags: string[]) =>
      promisify(execFile)(process.execPath, [
        '--import=tsx',
        'lib/cli/main.ts',
        'study',
        study,
        '--workers',
        '1',
        ...flags,
      ])
    const small = { clusters: ['hexgen-homo'], workloads: ['chess:3:4'], rates: [1, 2], seeds: [1, 2] }
    writeFileSync(study, JSON.stringify(small))
    const { stdout } = await run('--report', report)
    assert.match(stdout, /Report: .*report\.html\n$/)
    assert.match(readFileSync(report, 'utf8'), /P95 latency against the rate: chess:3:4 on hexgen-homo/)
    const document = JSON.parse((await run('--json')).stdout)
    assert.deepEqual([document.command, document.cells.length, document.cells[0].seeds], ['study', 2, 2])
    await assert.rejects(run('--report', ''), /Expected a file name for `--report`/)
    const rates = Array.from({ length: 10_001 }, (_, i) => 1 + i)
    writeFileSync(study, JSON.stringify({ ...small, rates, seeds: [1] }))
    await assert.rejects(
      run('--report', report),
      /at most 10,000 cells, this grid has 10,001.*ERR_LAXITY_LIMIT/,
    )
  })
})
