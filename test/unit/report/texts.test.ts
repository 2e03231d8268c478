import assert from 'node:assert/strict'
import { simulationReport } from '../../../lib/report/simulation-report.ts'
import { sweepReport } from '../../../lib/report/sweep-report.ts'
import { count, duration, percent, significant } from '../../../lib/report/units.ts'
import type { SimulateOptions } from '../../../lib/simulator/options.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { generateWorkload } from '../../../lib/traces/workload.ts'
import { type SweepOptions, sweep } from '../../../lib/tuning/sweep.ts'

/** The cells of a table's row, by its first one. */
function cells(text: string, first: string): string[] {
  const line = text.split('\n').find((one) => one.trim().startsWith(first))
  assert.ok(line !== undefined, `no row ${first} in\n${text}`)
  return line.trim().slice(first.length).trim().split(/ {2,}/)
}

describe('a simulation for people', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 12, preset: 3, seed: 7 })
  })
  const run = (options: Partial<SimulateOptions> = {}) =>
    simulate({ trace, cluster: 'hexgen-hetero-2', rate: 1, workers: 0, ...options })
  const bare = { perWorkflow: false, mix: false }

  it('lists workflows and the mix of stages when asked', async () => {
    const result = await run({ perCall: true })
    const text = simulationReport(result, { perWorkflow: true, mix: true })
    for (const { id, arrivalMs, latencyMs, baseMs, scale } of result.workflows())
      assert.deepEqual(cells(text, id), [
        duration(arrivalMs),
        duration(latencyMs),
        duration(baseMs),
        significant(scale),
      ])
    const { stages, instances } = result.stageMix()
    for (const [row, stage] of stages.entries())
      assert.deepEqual(
        cells(text, stage).map(Number),
        instances.map(({ shares }) => Number(shares[row]!.toFixed(1))),
      )
    assert.deepEqual(
      cells(text, 'calls'),
      instances.map(({ calls }) => count(calls)),
    )
    assert.doesNotMatch(simulationReport(result, bare), /stage mix|arrival {2}/)
  })

  it('says what prefix caches held', async () => {
    const agents = await generateWorkload('agents', { workflows: 5, seed: 1, context: 'full' })
    const result = await run({ trace: agents, prefixCache: 1_000_000 })
    const { hitRate, hits, misses } = result.cache!
    const text = simulationReport(result, bare)
    assert.deepEqual(cells(text, 'prefix cache, tokens'), [percent(hitRate)])
    assert.deepEqual(cells(text, 'prefix cache, calls'), [`${count(hits)} of ${count(hits + misses)}`])
  })

  it('says what each tenant got, and which arrivals it had', async () => {
    const result = await run({ tenants: 'a=1,b=3', rateStep: '1000:2000:3' })
    const text = simulationReport(result, bare)
    assert.match(text, /poisson arrivals \(rate × 3 from 1000 ms for 2000 ms\) at 1\/s/)
    for (const { name, workflows } of result.tenants)
      assert.ok(cells(text, name).join(' ').includes(String(workflows)))
    const { attainment, normalisedLatency } = result.fairness!
    assert.ok(
      text.includes(
        `Jain index over tenants: attainment ${attainment.toFixed(3)}, normalised latency ${normalisedLatency.toFixed(3)}`,
      ),
    )
  })

  it('says what the tuner saw and did, and why', async () => {
    const tuned = await simulate({
      trace: await chessTrace({ workflows: 260, preset: 1, seed: 3 }),
      cluster: 'hexgen-hetero-2',
      policy: 'hexgen-flow',
      rate: 0.5,
      seed: 3,
      alpha: 1,
      workers: 0,
      autoTune: { replications: 4, calibrationRuns: 2 },
      script: [
        { atMs: 200_000, instance: 0, kind: 'down' },
        { atMs: 300_000, instance: 0, kind: 'up' },
        { atMs: 400_000, instance: 1, kind: 'speed', factor: 2 },
      ],
    })
    const { tuning } = tuned
    const text = simulationReport(tuned, bare)
    const sweeps = tuning!.events.filter(({ kind }) => kind !== 'trigger').length
    assert.ok(text.includes(`Auto-tuner: ${count(tuning!.runs)} simulations in ${sweeps} sweeps`))
    const rows = text.split('\n').filter((line) => / (trigger|applied|kept|declined) /.test(line))
    const events = tuning!.events
    const of = (reason: string) =>
      rows.filter((line) => line.includes(` ${reason} `) || line.endsWith(reason))
    assert.ok(events.some(({ kind, reason }) => kind === 'trigger' && reason === 'instance'))
    for (const { kind, from, to, gain, p } of events.filter((e) => e.kind === 'applied'))
      assert.ok(
        text.includes(`gain ${percent(gain)}, p ${significant(p)}`) &&
          text.includes(`${significant(from)} → ${significant(to)}`),
        kind,
      )
    const slow = events.find(({ kind, reason }) => kind === 'trigger' && reason === 'service-up')!
    assert.ok(
      of('service-up').some((line) =>
        line.includes(`${significant(slow.statistic)} > ${significant(slow.threshold)}`),
      ),
    )
    assert.match(text, /P95 [\d.]+ % (above|below) that of the best fixed alpha in hindsight/)
  })
})

describe('a sweep for people', () => {
  let trace: TraceTable
  before(async () => {
    trace = await chessTrace({ workflows: 10, preset: 3, seed: 1 })
  })
  const run = (options: Partial<SweepOptions> = {}) =>
    sweep({
      trace,
      cluster: 'hexgen-hetero-2',
      rate: 1,
      replications: 2,
      alphas: [0, 0.5, 1],
      workers: 0,
      ...options,
    })

  it('shows the objective that was asked for, of the best alpha', async () => {
    for (const [objective, title, of] of [
      ['p99', 'P99 latency', ({ p99Ms }) => duration(p99Ms)],
      ['mean', 'mean latency', ({ meanMs }) => duration(meanMs)],
      ['sloScale95', '95 % SLO scale', ({ sloScale95 }) => significant(sloScale95)],
      [
        { attainment: 5 },
        'attainment',
        ({ attainment }) => percent(attainment.find(([scale]) => scale === 5)![1]),
      ],
    ] as [
      SweepOptions['objective'],
      string,
      (point: Awaited<ReturnType<typeof run>>['points'][number]) => string,
    ][]) {
      const result = await run({ objective: objective! })
      const best = result.points.find(({ alpha }) => alpha === result.best.alpha)!
      const text = sweepReport(result)
      assert.ok(text.includes(`Best alpha: ${best.alpha} (${of(best)})`), text)
      assert.match(text, new RegExp(`^ *${title}`, 'mi'))
    }
  })

  it('shows the tenants of the best alpha', async () => {
    const result = await run({ tenants: 'a=1,b=3' })
    const { alpha, fairness, tenants } = result.points.find((point) => point.alpha === result.best.alpha)!
    const text = sweepReport(result)
    const [, part] = text.split(`Tenants at alpha ${alpha}:\n`)
    for (const { name } of tenants!) assert.ok(cells(part!, name).length > 3)
    assert.match(part!, new RegExp(`attainment ${fairness!.attainment.toFixed(3)}`))
  })
})
