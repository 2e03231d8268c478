import assert from 'node:assert/strict'
import { type SimulateOptions, simulate, sweep } from '../../../lib/index.ts'
import { chains } from './shared.ts'

const cluster = 'hexgen-homo'
const WORKFLOWS = 4000

/** So short that nothing waits. */
const trace = chains(Array.from({ length: WORKFLOWS }, () => [{ prompt: 1, output: 1 }]))

async function gapsOf(options: Partial<SimulateOptions>): Promise<Float64Array> {
  const { arrivalMs } = await simulate({ trace, cluster, rate: 10, ...options })
  return arrivalMs.map((t, w) => (w === 0 ? t : t - arrivalMs[w - 1]!))
}

function moments(values: Float64Array): { mean: number; cv: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length
  return { mean, cv: Math.sqrt(square) / mean }
}

describe('generated arrivals', () => {
  it('have the rate and the CV that were asked for', async () => {
    for (const cv of [0.5, 2]) {
      const found = moments(await gapsOf({ arrivals: 'gamma', cv }))
      assert(Math.abs(found.mean / 100 - 1) < 0.1, `mean ${found.mean}`)
      assert(Math.abs(found.cv / cv - 1) < 0.1, `CV ${found.cv}`)
    }
    assert(moments(await gapsOf({ arrivals: 'gamma' })).cv > 1.7, 'CV 2 is the default')
  })

  it('come in bursts of the size and the gap that were asked for', async () => {
    const gaps = await gapsOf({ arrivals: 'bursts', rate: 0.1, burstSize: 10, burstGapMs: 25 })
    const inner = gaps.filter((gap) => Math.abs(gap - 25) < 1e-3).length
    assert(Math.abs(inner / WORKFLOWS - 0.9) < 0.02, `${inner} gaps inside bursts`)
    assert(Math.abs(moments(gaps).mean / 10_000 - 1) < 0.15)
  })

  it('come faster inside a rate step', async () => {
    for (const rateStep of ['100000:50000:4', { fromMs: 100_000, lengthMs: 50_000, factor: 4 }]) {
      const { arrivalMs, arrivalShape } = await simulate({ trace, cluster, rate: 10, rateStep })
      const between = (from: number, to: number) => arrivalMs.filter((t) => t >= from && t < to).length
      assert(Math.abs(between(0, 100_000) / 1000 - 1) < 0.1)
      assert(Math.abs(between(100_000, 150_000) / 2000 - 1) < 0.1)
      assert.deepEqual(arrivalShape, { rateStep: { fromMs: 100_000, lengthMs: 50_000, factor: 4 } })
    }
  })

  it('differ between replications and agree between policies', async () => {
    for (const arrivals of ['gamma', 'bursts'] as const) {
      const first = await gapsOf({ arrivals })
      assert.deepEqual(await gapsOf({ arrivals, policy: 'vllm' }), first)
      assert.notDeepEqual(await gapsOf({ arrivals, replication: 1 }), first)
      const { replications } = await sweep({ trace, cluster, arrivals, alphas: [0, 1] })
      assert.equal(replications, 16)
    }
  })

  it('of a trace know no rate step, whether they were asked for or found', async () => {
    const recorded = { ...trace, columns: { ...trace.columns, arrivalMs: new Float64Array(WORKFLOWS) } }
    await assert.rejects(simulate({ trace: recorded, cluster, rateStep: '1:2:3' }), {
      code: 'ERR_LAXITY_OPTION',
      place: 'rateStep',
    })
  })

  const wrong: [options: Record<string, unknown>, message: RegExp][] = [
    [{ cv: 2 }, /`cv` needs arrivals "gamma"/],
    [{ arrivals: 'bursts', cv: 2 }, /`cv` needs arrivals "gamma"/],
    [{ arrivals: 'gamma', burstSize: 2 }, /`burstSize` needs arrivals "bursts"/],
    [{ arrivals: 'gamma', cv: 0 }, /Expected a number from 0.01 to 100 for `cv`, got 0 \(number\)/],
    [{ arrivals: 'gamma', cv: Number.NaN }, /`cv`, got NaN/],
    [{ arrivals: 'gamma', cv: '2' }, /`cv`, got "2" \(string\)/],
    [{ arrivals: 'bursts', burstSize: 0.5 }, /from 1 to 1000000 for `burstSize`, got 0.5/],
    [{ arrivals: 'bursts', burstGapMs: -1 }, /from 0 to 1000000000 for `burstGapMs`, got -1/],
    [{ arrivals: 'burst' }, /Unknown arrivals "burst"; did you mean "bursts"\?/],
    [{ rateStep: '1:2' }, /Expected fromMs:lengthMs:factor or an object for `rateStep`, got "1:2"/],
    [{ rateStep: '1:2:-3' }, /`rateStep`, got "1:2:-3"/],
    [{ rateStep: '1:2:0' }, /Expected factor a number from 0.001 to 1000 for `rateStep`, got 0/],
    [{ rateStep: [1, 2, 3] }, /`rateStep`, got an array/],
    [{ rateStep: { fromMs: 1, lengthMs: 2 } }, /`rateStep.factor`, got undefined/],
    [{ rateStep: { fromMs: 1, lengthMs: 2, factor: 2, to: 3 } }, /Unknown option `rateStep.to`/],
    [{ arrivals: 'trace', rate: undefined, rateStep: '1:2:3' }, /`rateStep` has no meaning/],
  ]
  for (const [options, message] of wrong) {
    it(`refuses ${JSON.stringify(options)}`, () =>
      assert.rejects(simulate({ trace, cluster, rate: 10, ...options } as SimulateOptions), {
        code: 'ERR_LAXITY_OPTION',
        message,
      }))
  }
})
