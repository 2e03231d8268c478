import assert from 'node:assert/strict'

// biome-ignore lint/suspicious/noExplicitAny: benchmarks are JavaScript without types
const bench = (file: string): Promise<any> => import(new URL(`../../../bench/${file}`, import.meta.url).href)

describe('what the page of measurements is computed with', () => {
  it('fits exponents: exact on a power, with the standard error of the textbook', async () => {
    const { fitPower } = await bench('performance/curves.js')
    const exact = fitPower([1, 10, 100, 1000].map((x) => ({ x, y: 3 * x ** 1.5 })))
    assert(Math.abs(exact.k - 1.5) < 1e-12 && Math.abs(exact.c - 3) < 1e-9 && exact.error < 1e-9)
    // ln x = 0, 1, 2, ln y = 0, 1, 3: slope 3/2, residuals 1/6, -1/3, 1/6, so se = sqrt((1/6) / 1 / 2).
    const three = fitPower([0, 1, 2].map((x, i) => ({ x: Math.exp(x), y: Math.exp([0, 1, 3][i]!) })))
    assert(Math.abs(three.k - 1.5) < 1e-12)
    assert(Math.abs(three.error - Math.sqrt(1 / 12)) < 1e-12)
    assert.equal(
      fitPower([
        { x: 1, y: 1 },
        { x: 2, y: 4 },
      ]).error,
      undefined,
    )
  })

  it('adds up what the least traffic costs', async () => {
    const { costsOf, withLimits } = await bench('performance/limits.js')
    const costs = costsOf([
      { value: 1, cost: { kind: 'jump', reach: 1000 } },
      { value: 3, cost: { kind: 'jump', reach: 100_000 } },
      { value: 0.1, cost: { kind: 'byte', reach: 1000 } },
      { value: 0.3, cost: { kind: 'byte', reach: 100_000 } },
      { value: 20, cost: { kind: 'crossing' } },
      { value: 7, cost: { kind: 'six' } },
      { value: 50, cost: { kind: 'promise' } },
      { value: 500, cost: { kind: 'signal' } },
    ])
    const limit = (traffic: object[], unit = 'ns', value = 1000) =>
      withLimits({ value, unit, traffic }, costs).limit
    assert.equal(limit([{ jumps: 2, reach: 10 }]), 2)
    // Half way between the two by the logarithm.
    assert(Math.abs(limit([{ jumps: 1, bytes: 10, reach: 10_000 }]) - 4) < 1e-9)
    assert(Math.abs(limit([{ bytes: 10, reach: 1e9 }]) - 3) < 1e-9)
    assert.equal(
      limit([
        { crossings: 1, sixes: 2 },
        { promises: 1, signals: 1 },
      ]),
      20 + 14 + 550,
    )
    assert.equal(limit([{ crossings: 5 }], 'µs'), 0.1)
    const rate = withLimits({ value: 1e6, unit: 'calls/s of CPU', traffic: [{ crossings: 5 }] }, costs)
    assert.equal(rate.limit, 1e7)
    assert.equal(rate.distance, 10)
    assert.equal(
      withLimits({ value: 250, unit: 'ns a call', traffic: [{ crossings: 5 }] }, costs).distance,
      2.5,
    )
  })

  it('leaves out sizes that would take too long, and says how long', async () => {
    const { affordable } = await bench('measure.js')
    const measured: number[] = []
    const left: number[] = []
    const spin = (ms: number) => {
      const until = performance.now() + ms
      while (performance.now() < until);
    }
    await affordable(
      [10, 20, 40, 400, 40_000],
      0.9,
      (size: number) => {
        measured.push(size)
        spin(size / 2)
      },
      (size: number, seconds: number) => {
        left.push(size)
        assert(seconds > 0.9)
      },
    )
    assert.deepEqual(measured, [10, 20, 40, 400].slice(0, measured.length))
    assert(measured.length >= 3)
    assert(left.includes(40_000))
    assert.equal(measured.length + left.length, 5)
  })

  it('says of each known number whether it is met, by the worst row', async () => {
    const { knownRows } = await bench('performance/known.js')
    const suite = (name: string, rows: [string, number][]) => ({
      suite: name,
      rows: rows.map(([row, value]) => ({ name: row, value })),
    })
    const document = (worst: number) => ({
      suites: [
        suite('planner', [
          ['greedy N=128 2x2 light', 90],
          ['greedy N=128 4x4 light', worst],
          ['greedy N=128 8x8 light', 30],
          ['greedy N=128 8x8 light scalar', 5000],
        ]),
      ],
    })
    const row = (worst: number) =>
      knownRows(document(worst)).find(({ what }: { what: string }) => /free KV, vectors/.test(what))
    assert.deepEqual([row(75).met, row(75).ours], [true, '30–75 µs (90 µs at 2x2, where it runs out)'])
    assert.deepEqual([row(76).met, row(76).why], [false, 'greedy'])
    const sweep = knownRows(document(75)).find(({ known }: { known: string }) => known.startsWith('3–5 ms'))
    assert.deepEqual([sweep.met, sweep.ours], [undefined, 'not measured'])
    // What other pages say of quality is found in them.
    assert.equal(
      knownRows(document(75)).filter(({ ours }: { ours: string }) => /\.md\)/.test(ours)).length,
      4,
    )
  })

  it('writes a page of what was run, with its plots', async () => {
    const { page, plots } = await bench('performance/page.js')
    const point = (x: number, value: number) => ({
      name: `${x} calls`,
      value,
      unit: 'µs',
      point: { plot: 'planner-calls', series: 'greedy', axis: 'waiting calls', x },
    })
    const skipped = {
      skipped: { plot: 'planner-calls', series: 'greedy', axis: 'waiting calls', x: 1e5, seconds: 300 },
    }
    const document = {
      quick: true,
      startedAt: '2026-01-02T03:04:05.000Z',
      seconds: 61,
      machine: { cpu: 'a CPU', cores: 2, memoryGiB: 8, platform: 'linux-x64', node: 'v20.0.0', load1: 0.5 },
      suites: [
        {
          suite: 'structures',
          seconds: 1,
          rows: [
            { name: 'a heap', value: 30, low: 29, high: 31, unit: 'ns', limit: 10, distance: 3, target: 20 },
          ],
        },
        { suite: 'scaling', seconds: 2, rows: [point(10, 1), point(100, 100), point(1000, 10_000), skipped] },
      ],
    }
    const text = page(document, 'performance')
    assert.match(text, /\| a heap \| 30 ns \| 29–31 \| 10 \| × 3 \| 20: \*\*missed\*\* \|/)
    assert.match(text, /A quick run/)
    assert.match(text, /!\[.*\]\(performance-planner-calls\.svg\)/)
    assert.match(
      text,
      /\| greedy, by waiting calls \| 10: 1 µs \| 1,000: 10,000 µs \| 2\.00 ± .* \| 100,000 \(about 300 s\) \|/,
    )
    const [one, ...others] = plots(document)
    assert.equal(others.length, 0)
    assert.equal(one.name, 'planner-calls')
    assert.equal(one.svg.match(/<circle [^>]*r="3.5"/g)!.length, 3)
    assert.match(one.svg, /exponent 2\.00/)
  })

  it('summarises by median and quartiles', async () => {
    const { spread } = await bench('measure.js')
    assert.deepEqual(spread([5, 1, 4, 2, 3]), { value: 3, low: 2, high: 4, samples: 5 })
    assert.deepEqual(
      spread(new Float64Array([1000, 3000, 2000]), (ns: number) => ns / 1000),
      {
        value: 2,
        low: 1,
        high: 3,
        samples: 3,
      },
    )
  })
})
