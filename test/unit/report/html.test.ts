import assert from 'node:assert/strict'
import { simulateDocument } from '../../../lib/cli/simulate.ts'
import { tuneDocument } from '../../../lib/cli/tune.ts'
import { escapeText, html, scriptJson, typeset } from '../../../lib/report/html/escape.ts'
import { runLabels } from '../../../lib/report/html/labels.ts'
import { htmlReport } from '../../../lib/report/html/report.ts'
import { checkResult } from '../../../lib/report/result/read.ts'
import type { SimulateDocument } from '../../../lib/report/result/schema.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { sweep } from '../../../lib/tuning/sweep.ts'

const HOSTILE = `</script><script>alert(1)</script><img src=x onerror="alert(2)">'"&\u0000\u2028`

async function document(options: object = {}): Promise<SimulateDocument> {
  const trace = await chessTrace({ workflows: 8, preset: 3, seed: 1 })
  const result = await simulate({ trace, cluster: 'hexgen-hetero-2', rate: 1, perCall: true, ...options })
  return checkResult(
    JSON.parse(JSON.stringify(simulateDocument(result, { perCall: true }))),
    'x: ',
  ) as SimulateDocument
}

/** Every text of a document replaced. */
function poisoned(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return ['command', 'data', 'type'].includes(key) ? value : HOSTILE
  if (Array.isArray(value)) return value.map((item) => poisoned(item, key))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, poisoned(item, name)]))
}

describe('escaping', () => {
  it('leaves no way out of text, attributes and script elements', () => {
    assert.equal(
      escapeText(`<a b="c" d='e'>&\u0000\ud800`),
      '&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\ufffd\ufffd',
    )
    assert.equal(
      html`<p title="${HOSTILE}">${['<', html`<b>`, undefined, 1]}</p>`.text.match(/<\w+/g)!.length,
      2,
    )
    const text = scriptJson({ [HOSTILE]: HOSTILE, comment: '<!--' }).text
    assert.doesNotMatch(text, /</)
    assert.deepEqual(JSON.parse(text), { [HOSTILE]: HOSTILE, comment: '<!--' })
  })

  it('keeps numbers and their units in one line', () => {
    assert.equal(
      typeset('P95 225 s (95 % of 3 seconds), α = 0.1'),
      'P95 225\u00a0s (95\u00a0% of 3 seconds), α\u00a0=\u00a00.1',
    )
  })
})

describe('a report', () => {
  it('is the same for the same result, and asks for nothing from anywhere', async () => {
    const one = await document()
    const page = htmlReport([one])
    assert.equal(htmlReport([one]), page)
    assert.doesNotMatch(page, /<link|<img|<iframe|@import|url\(\s*["']?http/i)
    assert.doesNotMatch(page, /\b(src|href)="(?!#)/)
    assert.match(
      page,
      /Content-Security-Policy" content="default-src &#39;none&#39;; script-src &#39;sha256-/,
    )
  })

  it('states policy, cluster, workload, knowledge, feedback and seeds', async () => {
    const page = htmlReport([
      await document({ seed: 7, policy: 'laxity', feedback: 'lease', replication: 3 }),
    ])
    for (const [name, text] of [
      ['Policy', /ratio × eftxp × at-reveal with migration, α\u00a0=\u00a00.3/],
      ['Cluster', /hexgen-hetero-2: 2 × A100/],
      ['Workload', /chess-3: 8 workflows, \d+ calls; poisson arrivals at 1\/s/],
      ['Knowledge', /template \(/],
      ['Feedback', /lease \(/],
      ['Deadlines', /arrival\u00a0\+\u00a05 × base/],
      ['Seeds', /arrivals 7, replication 3; ties 0; placement 1/],
    ] as const) {
      const fact = new RegExp(`<dt>${name}</dt><dd>([^<]*)</dd>`).exec(page)?.[1]
      assert.match(fact ?? '', text)
    }
  })

  it('lets no name of a result become markup', async () => {
    const hostile = poisoned(await document({ tenants: 'a=1,b=2' })) as SimulateDocument
    const trace = await chessTrace({ workflows: 4, preset: 3, seed: 1 })
    const swept = await sweep({ trace, cluster: 'hexgen-hetero-2', replications: 2, alphas: [0, 1] })
    const tune = poisoned(JSON.parse(JSON.stringify(tuneDocument(swept)))) as SimulateDocument
    const row = {
      policy: HOSTILE,
      workload: HOSTILE,
      cluster: HOSTILE,
      knowledge: HOSTILE,
      feedback: HOSTILE,
    }
    const compare = { command: 'compare', rows: [{ ...row, load: 1, req95: 2, attainment: [[1, 0.5]] }] }
    const page = htmlReport([hostile, tune, compare].map((result) => checkResult(result, 'x: ')))
    assert.equal(page.split('alert(1)').length > 20, true)
    const scripts = page.match(/<script[^>]*>/g)!
    assert.deepEqual(
      new Set(scripts.map((tag) => tag.replace(/id="figure-\d+-\w+"/, 'id=""'))),
      new Set([
        '<script type="application/json" id="figures">',
        '<script type="text/plain" id="">',
        '<script>',
      ]),
    )
    assert.equal(page.match(/<\/script/g)!.length, scripts.length)
    assert.doesNotMatch(page, /<img|<[^>]*onerror/)
    assert(!page.includes('\u0000'))
  })

  it('shows what a result holds, and no more', async () => {
    const titles = (page: string) =>
      [...page.matchAll(/<figure id="(figure-\d+)" class="(\w+)"/g)].map(([, id, kind]) => `${id} ${kind}`)
    const full = await document()
    assert.deepEqual(titles(htmlReport([full])), [
      'figure-1 line',
      'figure-2 line',
      'figure-3 line',
      'figure-4 line',
      'figure-5 timeline',
      'figure-6 path',
    ])
    const { perCall: _, ...bare } = full
    assert.deepEqual(titles(htmlReport([bare as SimulateDocument])), [])
    assert.match(htmlReport([bare as SimulateDocument]), /<caption>Metrics<\/caption>/)
    const { setup: __, ...old } = bare
    assert.match(
      htmlReport([old as SimulateDocument]),
      /<dt>Seeds<\/dt><dd>not stated in the result file<\/dd>/,
    )
  })

  it('shows several runs beside each other: what they share once, what tells them apart by run', async () => {
    const [one, other] = [await document({ seed: 7 }), await document({ seed: 7, policy: 'vllm' })]
    const page = htmlReport([one, other])
    assert.match(page, /<title>[^<]*2 runs for chess-3 on hexgen-hetero-2</)
    const facts = (name: string) =>
      [...page.matchAll(new RegExp(`<dt>${name}</dt><dd>([^<]*)</dd>`, 'g'))].map(([, text]) => text)
    assert.equal(facts('Cluster').length, 1)
    assert.deepEqual(
      facts('Policy').map((text) => text!.split(' ×')[0]),
      ['urgency', 'fcfs'],
    )
    assert.equal([...page.matchAll(/<caption>Metrics<\/caption>/g)].length, 1)
    const titles = [...page.matchAll(/<h2[^>]*>([^<]*)<\/h2>/g)].map(([, text]) => text)
    assert.deepEqual(titles.slice(0, 4), ['Figures', 'The runs', ...runLabels([one, other])])
  })

  it('shows a sweep by its objective, beside its bounds', async () => {
    const trace = await chessTrace({ workflows: 6, preset: 3, seed: 1 })
    const cluster = 'hexgen-hetero-2'
    const options = { trace, cluster, replications: 2, alphas: [0, 1], workers: 0 }
    for (const [objective, label] of [
      ['sloScale95', '95 % SLO scale'],
      [{ attainment: 5 }, 'Attainment at SLO scale 5'],
    ] as const) {
      const result = await sweep({ ...options, objective, bound: true })
      const page = htmlReport([checkResult(JSON.parse(JSON.stringify(tuneDocument(result))), 'x: ')])
      assert.ok(page.includes(`${label} against the dispatch weight α`), label)
      assert.match(page, /<th[^>]*>Req95 \/ bound<\/th>/)
    }
  })

  it('draws the panels of the busiest instances where there are too many', async () => {
    const run = await document({ cluster: { instances: [{ gpu: 'a100', count: 40 }] } })
    const page = htmlReport([run])
    assert.match(page, /The \d+ of 40 instances with the largest mean; all are in the table/)
  })

  it('survives runs in which nothing, or not everything, finished', async () => {
    const full = await document()
    const none = structuredClone(full)
    const { encodeColumn } = await import('../../../lib/report/result/columns.ts')
    const { calls, workflows } = none.perCall!
    const n = calls.stage.length
    calls.instance = encodeColumn(new Uint16Array(n).fill(65535))
    for (const name of ['waitNs', 'prefillNs', 'decodeNs'] as const)
      calls[name] = encodeColumn(new Float64Array(n).fill(Number.NaN))
    workflows.latencyNs = encodeColumn(new Float64Array(8).fill(Number.POSITIVE_INFINITY))
    none.metrics = { ...none.metrics, meanMs: null, p95Ms: null, sloScale95: null }
    const page = htmlReport([checkResult(JSON.parse(JSON.stringify(none)), 'x: ')])
    assert.match(page, /mean latency ∞/)
    // The script itself may say NaN.
    assert.doesNotMatch(page.replace(/<script>[\s\S]*/, ''), /NaN/)
  })

  it('names runs by what tells them apart', async () => {
    const [a, b] = [await document(), await document({ alpha: 0.5 })]
    const other = await document({ policy: 'vllm' })
    assert.deepEqual(runLabels([a, other]), ['urgency × workload-balanced', 'fcfs × round-robin'])
    assert.deepEqual(runLabels([a, b, a]), [
      'urgency × workload-balanced, α 0.3',
      'urgency × workload-balanced, α 0.5',
      'urgency × workload-balanced, α 0.3 (2)',
    ])
  })
})

describe('a result file', () => {
  const refused = (value: unknown, message: RegExp) => {
    assert.throws(
      () => checkResult(value, 'r.json: '),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'ERR_LAXITY_FIELD')
        assert.match(error.message, message)
        return true
      },
    )
  }

  it('is refused with every problem and its place', async () => {
    refused(null, /^r\.json: Expected a result of simulate, tune, compare, study for `command`, got none/)
    refused([], /got none/)
    refused({ command: 'toString' }, /got "toString"/)
    refused({ command: 'tunes' }, /got "tunes".*did you mean "tune"/)
    refused({ command: 'compare', rows: [] }, /rows/)
    const good = await document()
    refused({ ...good, metrics: { ...good.metrics, p95Ms: 'fast' } }, /r\.json: metrics\.p95Ms/)
    refused({ ...good, policy: null, cluster: 3 }, /2 problems: r\.json: policy.*r\.json: cluster/)
    const calls = { ...good.perCall!.calls, stage: { type: 'i8', length: -1, data: 1 } }
    refused(
      { ...good, perCall: { ...good.perCall, calls } },
      /perCall\.calls\.stage\.type.*perCall\.calls\.stage\.length/,
    )
  })
})
