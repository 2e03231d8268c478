import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { candidatesOf, canReach, cheapest } from '../../../lib/capacity/cheapest.ts'
import { bracket, maxRate } from '../../../lib/capacity/max-rate.ts'
import { parsePrices } from '../../../lib/capacity/prices.ts'
import { repeatTrace } from '../../../lib/capacity/repeat.ts'
import { bestSplit, split, splitsOf } from '../../../lib/capacity/split.ts'
import { type ClusterConfig, generateWorkload, simulate } from '../../../lib/index.ts'
import { parsePositioned } from '../../../lib/study/positions.ts'
import { openSmall, temporaryFolder } from '../../support/study.ts'
import { laxity } from '../cli/shared.ts'
import { chains } from '../simulator/shared.ts'

const PRICES = `currency: USD
offers:
  - {name: big, pricePerHour: 0.3, most: 2, instance: {gpu: a100}}
  - {name: small, pricePerHour: 0.1, most: 3, instance: {gpu: l40s}}
`
const prices = async (text = PRICES) => parsePrices(await parsePositioned(text, 'prices.yaml'))
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

describe('capacity: the highest rate', () => {
  it('is bracketed within the tolerance, whatever the limit', async () => {
    const property = fc.asyncProperty(
      fc.double({ min: 0.002, max: 5000, noNaN: true }),
      fc.constantFrom(0.0001, 0.01, 0.3),
      async (limit, tolerance) => {
        const seen = new Set<number>()
        const meets = async (rate: number) => {
          assert(!seen.has(rate), 'a rate is tested once')
          seen.add(rate)
          return rate <= limit
        }
        const { low, high } = await bracket(0.01, 1000, tolerance, meets)
        if (limit < 0.01) assert.deepEqual([low, high], [undefined, 0.01])
        else if (limit >= 1000) assert.deepEqual([low, high], [1000, undefined])
        else {
          assert(low! <= limit && limit < high! && high! <= low! * (1 + tolerance) * (1 + 1e-12))
          assert(seen.has(low!) && seen.has(high!))
        }
      },
    )
    await fc.assert(property, { numRuns: 300 })
  })

  it('is one that `simulate` confirms, beside one that it does not', async () => {
    const trace = repeatTrace(await openSmall('chess:20'), 10)
    const options = {
      trace,
      policy: 'hexgen-flow',
      alpha: 0.2,
      sloScale: 4,
      seeds: 3,
      seed: 5,
      attainment: 0.9,
    }
    const result = await maxRate({ ...options, cluster: 'hexgen-hetero-1', tolerance: 0.02 })
    const at = async (rate: number) => {
      const values = []
      for (const seed of [5, 6, 7]) {
        const { seeds: _, attainment: __, ...run } = options
        values.push((await simulate({ ...run, cluster: 'hexgen-hetero-1', rate, seed })).attainment(4))
      }
      return mean(values)
    }
    assert.equal(result.attainment.mean, await at(result.ratePerS))
    assert.equal(result.failsAt!.attainment.mean, await at(result.failsAt!.ratePerS))
    assert(result.attainment.mean >= 0.9 && result.failsAt!.attainment.mean < 0.9)
    assert(result.failsAt!.ratePerS <= result.ratePerS * 1.02)
    assert.equal(result.tooShort, false)
  })

  it('says that a short trace shows no steady state, and that nothing may do', async () => {
    const trace = await openSmall('chess:5')
    const short = await maxRate({ trace, cluster: 'hexgen-homo', seeds: 2, sloScale: 20, to: 100 })
    assert.deepEqual([short.ratePerS, short.failsAt, short.tooShort], [100, undefined, true])
    const never = maxRate({ trace, cluster: 'hexgen-homo', seeds: 2, sloScale: 0.01 })
    await assert.rejects(never, { code: 'ERR_LAXITY_INFEASIBLE' })
  })
})

describe('capacity: the cheapest cluster', () => {
  it('is looked for in the order of prices', () => {
    const offer = fc.record({
      price: fc.integer({ min: 0, max: 4 }),
      least: fc.integer({ min: 0, max: 1 }),
      most: fc.integer({ min: 1, max: 3 }),
    })
    fc.assert(
      fc.property(
        fc.array(offer, { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 6 }),
        (list, most) => {
          const offers = list.map((one, i) => ({ ...one, name: `o${i}`, instance: {} }))
          let naive: number[][] = [[]]
          for (const one of offers) {
            const counts = Array.from({ length: one.most - one.least + 1 }, (_, n) => one.least + n)
            naive = naive.flatMap((before) => counts.map((count) => [...before, count]))
          }
          const total = (counts: number[]) => counts.reduce((sum, n) => sum + n, 0)
          const cost = (counts: number[]) => counts.reduce((sum, n, i) => sum + n * offers[i]!.price, 0)
          naive = naive.filter((counts) => total(counts) > 0 && total(counts) <= most)
          // Of equal prices fewer instances; then more of the earlier offers.
          const key = (counts: number[]) => [cost(counts), total(counts), ...counts.map((n) => -n)]
          naive.sort((a, b) => {
            const [x, y] = [key(a), key(b)]
            const at = x.findIndex((value, i) => value !== y[i])
            return at < 0 ? 0 : x[at]! - y[at]!
          })
          assert.deepEqual(
            candidatesOf(offers, most).map(({ counts }) => counts),
            naive,
          )
        },
      ),
      { numRuns: 300 },
    )
  })

  it('gives a candidate up exactly when perfect seeds could not save it', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(fc.array(share, { minLength: 1, maxLength: 12 }), share, (values, target) => {
        const meets = mean(values) >= target
        for (let k = 1; k < values.length; k++) {
          const perfect = [...values.slice(0, k), ...values.slice(k).map(() => 1)]
          assert.equal(canReach(values.slice(0, k), values.length, target), mean(perfect) >= target)
          if (meets) assert(canReach(values.slice(0, k), values.length, target))
        }
        assert.equal(canReach(values, values.length, target), meets)
      }),
    )
  })

  it('is the one that trying all of them finds', async () => {
    const trace = await openSmall('chess:30')
    const list = await prices()
    for (const [attainment, sloScale] of [
      [0.9, 3],
      [0.5, 2.5],
      [0.97, 6],
    ] as const) {
      const run = { policy: 'laxity', rate: 0.2, sloScale }
      let best: { counts: number[]; mean: number } | undefined
      for (const { counts } of candidatesOf(list.offers, Number.POSITIVE_INFINITY)) {
        const cluster: ClusterConfig = {
          instances: list.offers
            .map(({ instance }, i) => ({ ...instance, count: counts[i]! }))
            .filter(({ count }) => count > 0),
        }
        const values = []
        for (const seed of [1, 2, 3]) {
          values.push((await simulate({ ...run, trace, cluster, seed })).attainment(sloScale))
        }
        if (mean(values) >= attainment) {
          best = { counts, mean: mean(values) }
          break
        }
      }
      const result = await cheapest({ ...run, trace, prices: list, attainment, seeds: 3 })
      assert.deepEqual(Object.values(result.counts), best!.counts)
      assert.equal(result.attainment.mean, best!.mean)
      const [big, small] = best!.counts as [number, number]
      assert.equal(result.pricePerHour, (3 * big + small) / 10)
    }
  })

  it('says when nothing in the list does, or can', async () => {
    const trace = await openSmall('chess:10')
    const never = cheapest({ trace, prices: await prices(), rate: 0.2, sloScale: 0.1, seeds: 2 })
    await assert.rejects(never, {
      code: 'ERR_LAXITY_INFEASIBLE',
      message: /None of 11 clusters, up to 0\.9 per hour/,
    })
    const tiny = await prices(PRICES.replaceAll(/gpu: \w+/g, (gpu) => `${gpu}, kvTokens: 10`))
    const unfit = cheapest({ trace, prices: tiny, rate: 0.2, seeds: 2 })
    await assert.rejects(unfit, {
      code: 'ERR_LAXITY_INFEASIBLE',
      message: /can serve the trace: .*never fits/,
    })
  })

  it('passes over clusters that lack a model or room, and counts those before the answer', async () => {
    const trace = chains([[{ prompt: 100, output: 5, model: 0 }, { prompt: 100, output: 5, model: 1 }]]) // biome-ignore format: one call after the other
    const list = await prices(`offers:
  - {name: small, pricePerHour: 0.1, most: 1, instance: {gpu: l40s, kvTokens: 50, model: model-0}}
  - {name: one, pricePerHour: 0.2, most: 1, instance: {gpu: a100, model: model-0}}
  - {name: other, pricePerHour: 0.4, most: 1, instance: {gpu: a100, model: model-1}}
`)
    const result = await cheapest({ trace, prices: list, rate: 0.01, sloScale: 20, seeds: 2 })
    assert.deepEqual(result.counts, { small: 0, one: 1, other: 1 })
    // Before it by price: small, one, both, other; small and other together have no room.
    assert.deepEqual([result.unfit, result.rejected, result.candidates], [5, 0, 7])
  })

  it('refuses lists and traces beyond what can be searched', async () => {
    const offers = [{ name: 'any', price: 1, least: 0, most: 1e9, instance: {} }]
    assert.throws(() => candidatesOf(offers, 1e9), { code: 'ERR_LAXITY_LIMIT', message: /lower `most`/ })
    const trace = await openSmall('chess:5')
    assert.throws(() => repeatTrace(trace, 1_000_000), { code: 'ERR_LAXITY_LIMIT', place: 'repeat' })
    const none = await prices(`mostInstances: 1\n${PRICES.replaceAll('most:', 'least: 1, most:')}`)
    await assert.rejects(cheapest({ trace, prices: none, rate: 1, seeds: 2 }), {
      code: 'ERR_LAXITY_INFEASIBLE',
      message: /No cluster can be made of these offers/,
    })
  })

  it('refuses a price list that is wrong, with its places', async () => {
    for (const [text, message] of [
      [
        PRICES.replace('0.3', '-1'),
        /prices\.yaml:3:\d+: offers\[0\]\.pricePerHour: Expected a number from 0/,
      ],
      [
        PRICES.replace('most: 2', 'mots: 2'),
        /prices\.yaml:3:\d+: offers\[0\]\.mots: Unknown field `mots`; did you mean "most"/,
      ],
      [
        PRICES.replace('name: small', 'name: big'),
        /prices\.yaml:4:\d+: offers\[1\]\.name: "big" is there twice/,
      ],
      [PRICES.replace('most: 2', 'least: 9'), /prices\.yaml:3:\d+: offers\[0\]\.least: More than `most`/],
      ['offers: []\n', /prices\.yaml:1:1: offers: Expected a list of at least one offer/],
    ] as const) {
      await assert.rejects(prices(text), { message })
    }
  })
})

describe('capacity: the best split', () => {
  it('has every split once, the instances as they were given', () => {
    const config: ClusterConfig = { instances: [{ gpu: 'a100', count: 9 }] }
    const list = splitsOf(config, 4).map(({ prefill, decode, config: { instances } }) => [
      prefill,
      decode,
      instances,
    ])
    assert.deepEqual(
      list,
      [1, 2, 3].map((p) => [
        p,
        4 - p,
        [
          { gpu: 'a100', role: 'prefill', count: p },
          { gpu: 'a100', role: 'decode', count: 4 - p },
        ],
      ]),
    )
    const two: ClusterConfig = {
      instances: [
        { gpu: 'l40s', role: 'decode' },
        { gpu: 'a100', role: 'prefill' },
      ],
    }
    assert.deepEqual(splitsOf(two, 2)[0]!.config.instances, [
      { gpu: 'a100', role: 'prefill', count: 1 },
      { gpu: 'l40s', role: 'decode', count: 1 },
    ])
    assert.throws(() => splitsOf({ instances: [{ gpu: 'a100' }, { gpu: 'l40s' }] }, 2), {
      code: 'ERR_LAXITY_OPTION',
    })
  })

  it('is that of the highest attainment, then the smallest P95, then the fewest prefill instances', () => {
    const outcome = (attainment: number, p95: number) => ({
      attainment: Float64Array.of(attainment, attainment),
      p95Ms: Float64Array.of(p95, p95),
      makespanMs: Float64Array.of(1, 1),
    })
    assert.equal(bestSplit([outcome(0.5, 1), outcome(0.9, 9), outcome(0.8, 1)]), 1)
    assert.equal(bestSplit([outcome(0.9, 5), outcome(0.9, 4), outcome(0.9, 4)]), 1)
  })

  it('compares splits as `simulate` does, and says which of them the seeds cannot tell apart', async () => {
    const trace = await generateWorkload('bfcl', { workflows: 12, seed: 4 })
    const cluster = { instances: [{ gpu: 'a100' }] }
    const shared = { rate: 1, sloScale: 2, policy: 'laxity' }
    const result = await split({ trace, cluster, instances: 4, seeds: 2, ...shared })
    assert.deepEqual(
      result.points.map(({ prefill, decode }) => [prefill, decode]),
      [
        [1, 3],
        [2, 2],
        [3, 1],
      ],
    )
    const attainments: number[][] = []
    for (const [k, { config }] of splitsOf(cluster, 4).entries()) {
      const runs = []
      for (const seed of [1, 2]) runs.push(await simulate({ trace, cluster: config, ...shared, seed }))
      attainments.push(runs.map((run) => run.attainment(2)))
      assert.equal(result.points[k]!.attainment.mean, mean(attainments[k]!))
      assert.equal(result.points[k]!.p95Ms, mean(runs.map(({ metrics }) => metrics.p95Ms)))
    }
    const best = Math.max(...attainments.map(mean))
    assert.equal(result.best.attainment.mean, best)
    assert.equal(result.cluster.name, `${result.best.prefill} prefill + ${result.best.decode} decode`)
    const same = attainments.flatMap((values, k) => {
      const isBest = k + 1 === result.best.prefill
      return !isBest && values.join() === attainments[result.best.prefill - 1]!.join() ? [k + 1] : []
    })
    assert.ok(same.every((prefill) => result.indistinguishable.includes(prefill)))
    assert.ok(!result.indistinguishable.includes(result.best.prefill))
  })

  it('asks for at least two instances', async () => {
    const cluster = { instances: [{ gpu: 'a100' }] }
    const one = split({ trace: await openSmall('chess:5'), cluster, instances: 1 })
    await assert.rejects(one, { code: 'ERR_LAXITY_OPTION', place: 'instances' })
  })
})

describe('capacity on the command line', () => {
  const folder = temporaryFolder()

  it('answers as text and as JSON', async () => {
    const file = join(folder(), 'prices.yaml')
    writeFileSync(file, PRICES)
    const flags = ['chess:3:20', '--seeds', '2', '--slo-scale', '4']
    const text = await laxity('capacity', 'max-rate', ...flags, '--repeat', '5', '--attainment', '0.8')
    assert.match(text.stdout, /^hexgen-hetero-2: [\d.]+ workflows per second, attainment 0\.8/)
    const { stdout } = await laxity(
      'capacity',
      'cheapest',
      ...flags,
      '--rate',
      '0.1',
      '--prices',
      file,
      '--json',
    )
    const answer = JSON.parse(stdout)
    assert.equal(answer.question, 'cheapest')
    assert(answer.attainment.mean >= 0.95)
    const bought = await laxity('capacity', 'cheapest', ...flags, '--rate', '0.1', '--prices', file)
    const row = (name: string) => new RegExp(`^ *${name} +(\\d+)$`, 'm').exec(bought.stdout)?.[1]
    assert.deepEqual({ big: Number(row('big')), small: Number(row('small')) }, answer.counts)
    assert.match(bought.stdout, new RegExp(`: ${answer.pricePerHour} USD per hour\n`))
    const divided = [
      'chess:3:5',
      '--cluster',
      'hexagent-a100',
      '--instances',
      '3',
      '--rate',
      '1',
      '--seeds',
      '2',
    ]
    const splits = await laxity('capacity', 'split', ...divided)
    assert.equal(splits.status, 0, splits.stderr)
    assert.deepEqual(splits.stdout.match(/\d:\d/g), ['1:2', '2:1'])
    assert.equal(splits.stdout.match(/ best$/gm)!.length, 1)
  })

  it('refuses what makes no sense', async () => {
    for (const [args, message] of [
      [['cheapest', 'chess:3:5'], /`--prices` is needed/],
      [['max-rate', 'chess:3:5', '--rate', '1'], /`--rate` is what is searched/],
      [['max-rate', 'chess:3:5', '--attainment', '2'], /for `--attainment`, got 2/],
      [['max-rate', 'chess:3:5', '--policy', 'vlm'], /did you mean "vllm"/],
      [['max-rate', 'chess:3:5', '--repeat', '0'], /for `--repeat`, got 0/],
      [['split', 'chess:3:5'], /for `--instances`, got undefined|one kind of instance/],
    ] as const) {
      const { status, stderr } = await laxity('capacity', ...args)
      assert.match(stderr, message)
      assert.match(stderr, /\[ERR_LAXITY_OPTION\]\n$/)
      assert.equal(status, 2)
    }
  })
})
