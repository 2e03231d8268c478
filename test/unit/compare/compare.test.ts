import assert from 'node:assert/strict'
import type { ClusterConfig } from '../../../lib/cluster/config.ts'
import { compare } from '../../../lib/compare/compare.ts'
import { compareCsv } from '../../../lib/compare/csv.ts'
import type { CompareOptions } from '../../../lib/compare/options.ts'
import { LaxityError } from '../../../lib/errors.ts'
import { compareReport } from '../../../lib/report/compare-report.ts'
import { closePools } from '../../../lib/simulator/pool.ts'
import { simulate } from '../../../lib/simulator/simulate.ts'
import { chessTrace } from '../../../lib/traces/chess.ts'
import { problemsOf } from '../model/shared.ts'
import { chains } from '../simulator/shared.ts'

const small = { workload: 'chess:1', cluster: 'hexgen-hetero-2', workflows: 20, seeds: 2 } as const

/** One call of 10 ms at a time: 100 workflows per second. */
const server: ClusterConfig = {
  latencies: { l: { kind: 'constants', prefillPerTokenMs: 0.1, decodeBaseMs: 5 } },
  instances: [{ latency: 'l', kvTokens: 1000, maxSequences: 1 }],
}
const jobs = chains(Array.from({ length: 50 }, () => [{ prompt: 100, output: 1 }]))

describe('compare', () => {
  after(closePools)

  it('finds load 1.0 of a single server exactly, and derives the rate from it', async () => {
    const { rows, saturation } = await compare({
      workload: jobs,
      cluster: server,
      load: [0.5, 0.9],
      policy: 'fcfs/round-robin',
      workers: 0,
    })
    assert.deepEqual(saturation, [
      { workload: 'chains', context: null, cluster: 'custom', model: null, ratePerS: 100 },
    ])
    assert.deepEqual(
      rows.map(({ load, ratePerS }) => [load, ratePerS]),
      [
        [0.5, 50],
        [0.9, 90],
      ],
    )
  })

  it('gives what the same runs give alone', async () => {
    const { rows } = await compare({ ...small, policy: ['laxity', 'fcfs/round-robin'], workers: 0 })
    for (const [k, policy] of ['laxity', { order: 'fcfs', placement: 'round-robin' }].entries()) {
      for (const seed of [1, 2]) {
        const result = await simulate({
          trace: () => chessTrace({ preset: 1, workflows: 20, seed }),
          cluster: small.cluster,
          policy,
          rate: rows[k]!.ratePerS,
          arrivals: 'poisson',
          knowledge: 'online',
          seed,
          workers: 0,
        })
        const own = rows[k]!.perSeed[seed - 1]!
        assert.deepEqual(
          [own.seed, own.req95, own.req99, own.p95Ms, own.meanMs],
          [
            seed,
            result.metrics.sloScale95,
            result.metrics.sloScale99,
            result.metrics.p95Ms,
            result.metrics.meanMs,
          ],
        )
        const share = rows[k]!.perSeed.length === 2 ? result.attainment(2) : Number.NaN
        const [scale, both] = rows[k]!.attainment[4]!
        assert.equal(scale, 2)
        assert(Math.abs(2 * both - share) <= 1)
      }
      const [a, b] = rows[k]!.perSeed
      assert.equal(rows[k]!.req95, (a!.req95 + b!.req95) / 2)
    }
  })

  it('is the same for any number of threads', async () => {
    const options: CompareOptions = {
      ...small,
      cluster: ['hexgen-hetero-2', 'hexgen-homo'],
      load: '0.5,1',
      feedback: 'boundary,lease',
      error: 'length=lognormal:0.3',
    }
    const [none, one, three] = await Promise.all([0, 1, 3].map((workers) => compare({ ...options, workers })))
    assert.deepEqual(one!.rows, none!.rows)
    assert.deepEqual(three!.rows, none!.rows)
    assert.deepEqual([none!.timing.workers, one!.timing.workers, three!.timing.workers], [0, 1, 3])
    assert.equal(none!.timing.runs, 2 + 2 * 2 * 2 * 3 * 2)
  })

  it('spans the grid in the order of its options, with the first policy on top of every group', async () => {
    const { rows } = await compare({
      ...small,
      workload: ['chess:1', 'mac-sql'],
      workflows: 5,
      seeds: 1,
      load: [1, 0.5],
      feedback: ['boundary', 'lease'],
      policy: ['vllm', 'laxity'],
      workers: 0,
    })
    const wanted = ['chess:1', 'mac-sql'].flatMap((workload) =>
      [1, 0.5].flatMap((load) =>
        ['boundary', 'lease'].flatMap((feedback) =>
          ['vllm', 'laxity'].map((policy) => [workload, load, feedback, policy]),
        ),
      ),
    )
    assert.deepEqual(
      rows.map(({ workload, load, feedback, policy }) => [workload, load, feedback, policy]),
      wanted,
    )
    for (const [i, { versusFirst, meanMs }] of rows.entries()) {
      if (i % 2 === 0) assert.equal(versusFirst, null)
      else {
        assert.equal(versusFirst!.policy, 'vllm')
        assert.equal(versusFirst!.meanMs!.ratio, meanMs / rows[i - 1]!.meanMs)
        assert.equal(versusFirst!.meanMs!.low, null)
      }
    }
  })

  it("names what is particular to pairs, and what the paper's simulator does", async () => {
    const options = { ...small, cluster: 'hexagent-h200', workflows: 5, seeds: 1, workers: 0 } as const
    const { rows } = await compare({ ...options, links: ['contended', 'free'], reserve: 'early,late' })
    const of = ({ links, reserve, staging, decodeAdmission }: (typeof rows)[0]) => [
      links,
      reserve,
      staging,
      decodeAdmission,
    ]
    assert.deepEqual(rows.filter(({ policy }) => policy === 'hexagent').map(of), [
      ['contended', 'early', 'none', 'scheduler'],
      ['contended', 'late', 'none', 'scheduler'],
      ['free', 'early', 'none', 'scheduler'],
      ['free', 'late', 'none', 'scheduler'],
    ])
    assert.deepEqual([rows[0]!.sloBase, rows[0]!.model], ['horizon', 'llama-3.1-70b'])
    const paper = await compare({ ...options, paper: true, policy: 'hexagent' })
    assert.deepEqual(of(paper.rows[0]!), ['free', null, 'unlimited', 'scheduler'])
    const unified = await compare({ ...small, workflows: 3, seeds: 1, workers: 0, sloBase: 'horizon' })
    assert.deepEqual(of(unified.rows[0]!), [null, null, null, null])
    assert.deepEqual([unified.rows[0]!.sloBase, unified.rows[0]!.kvPeak], ['horizon', null])
  })

  const refused: [options: object, messages: RegExp[]][] = [
    [{}, [/Expected a workload's name, a path or a table for `workload`, got undefined/]],
    [{ workload: 'chess:1', plicy: 'x' }, [/Unknown option `plicy`; did you mean "policy"\?/]],
    [
      {
        workload: ['mixd.', 'mixd'],
        cluster: 'hexgen-hom',
        load: [0, '1'],
        workflows: 0,
        seeds: 1.5,
        knowledge: ['online', 'all'],
        feedback: 'boundry',
        policy: 'hexgen-flo',
        error: 'zz',
        sloBase: 'best',
      },
      [
        /a positive number up to 100 for `load`, got 0/,
        /`workflows`, got 0/,
        /`seeds`, got 1\.5/,
        /Unknown knowledge "all"/,
        /Unknown feedback "boundry"; did you mean "boundary"/,
        /Unknown sloBase "best"/,
        /`error`, got "zz"/,
        /Unknown cluster "hexgen-hom"; did you mean "hexgen-homo"/,
        /Unknown policy "hexgen-flo"; did you mean "hexgen-flow"/,
        /Unknown workload "mixd"; did you mean "mixed"\?/,
      ],
    ],
    [
      { workload: 'chess:1', cluster: 'hexgen-homo', paper: true, links: 'free', backfill: true },
      [
        /`links` is set by `paper`/,
        /`links` needs prefill-decode clusters, and hexgen-homo is unified/,
        /`backfill` needs prefill-decode clusters/,
        /`paper` needs prefill-decode clusters/,
      ],
    ],
    [
      { workload: 'chess:1', staging: ['none', 'unlimited'], reserve: 'late' },
      [/`reserve` has no meaning with staging "unlimited"/],
    ],
    [{ workload: 'chess:1', context: 'new' }, [/`context` has no meaning for the workload "chess:1"/]],
    [{ workload: 'chess:1', load: [] }, [/`load`, got an array/]],
    [
      { workload: [{}, null, chains([[{ prompt: 5, output: 5 }]])], cluster: [null, 7] },
      [
        /a path or a table for `workload`, got an object/,
        /a path or a table for `workload`, got null/,
        /a path or an object for `cluster`, got null/,
        /a path or an object for `cluster`, got 7/,
      ],
    ],
    [
      {
        workload: chains([Array.from({ length: 1000 }, () => ({ prompt: 5, output: 5 }))]),
        workflows: 70_000,
      },
      [/Fewer `workflows`: 70000 of chains have more than 67108864 calls/],
    ],
    [{ workload: 'chess:1', policy: 3 }, [/Expected a name for `policy`, got 3/]],
    [
      { workload: chains([[{ prompt: 5, output: 5 }]]), knowledge: 'template' },
      [/`knowledge` "template" needs a trace that ships a stage template/],
    ],
  ]
  for (const [options, messages] of refused) {
    it(`refuses ${Object.keys(options).join(', ') || 'nothing at all'}, all at once`, async () => {
      const problems = await problemsOf(() => compare(options as CompareOptions))
      const texts = problems.map(({ message }) => message)
      for (const message of messages) {
        const matching = texts.filter((text) => message.test(text))
        assert.equal(matching.length, 1, `${message} in ${texts.join('\n')}`)
      }
      assert.equal(problems.length, messages.length, texts.join('\n'))
    })
  }

  it('refuses calls that never fit before it runs anything', async () => {
    const trace = chains([[{ prompt: 2000, output: 1 }]])
    await assert.rejects(compare({ workload: trace, cluster: server }), { code: 'ERR_LAXITY_NEVER_FITS' })
  })

  for (const workers of [0, 2]) {
    it(`ends when it is told to, with ${workers} threads`, async () => {
      const controller = new AbortController()
      const progress: number[] = []
      const running = compare({
        ...small,
        workflows: 2000,
        seeds: 50,
        workers,
        signal: controller.signal,
        onProgress: ({ doneWorkflows, totalWorkflows }) => {
          progress.push(doneWorkflows / totalWorkflows)
          controller.abort()
        },
      })
      await assert.rejects(
        running,
        (error: unknown) => error instanceof LaxityError && error.code === 'ERR_LAXITY_ABORTED',
      )
      assert(progress[0]! >= 0 && progress[0]! < 1)
    })
  }
})

describe('what a comparison looks like', () => {
  it('as a table: one for every setting, and how the changes are meant', async () => {
    const result = await compare({ ...small, load: [0.5, 0.9], workers: 0 })
    const text = compareReport(result)
    assert.match(
      text,
      /^chess:1 on hexgen-hetero-2: load 0\.5 = \d\.\d+ workflows\/s, 20 workflows × 2 seeds\n/,
    )
    assert.match(text, /\nknowledge online, feedback boundary, base template\n/)
    assert.equal(text.match(/^ policy +Req95 +vs first/gm)!.length, 2)
    assert.match(text, /^ vllm .* [+−]\d+\.\d % \([+−]?\d+\.\d … [+−]?\d+\.\d\)/m)
    assert.match(text, /geometric mean over the seeds.*Student-t/s)
    assert.doesNotMatch(text, /KV peak|NaN|undefined/)
  })

  it('as CSV: a line per row', async () => {
    const { rows } = await compare({ ...small, workers: 0 })
    const { parse } = await import('csv-parse/sync')
    const records = parse<Record<string, string>>(compareCsv(rows), { columns: true })
    assert.equal(records.length, 3)
    assert.equal(records[1]!.policy, 'hexgen-flow')
    assert.equal(Number(records[1]!.req95), rows[1]!.req95)
    assert.equal(Number(records[1]!['p95Ms.low']), rows[1]!.versusFirst!.p95Ms!.low)
    assert.equal(records[1]!.versus, 'laxity')
    assert.deepEqual([records[0]!.versus, records[0]!['req95.ratio'], records[0]!.links], ['', '', ''])
  })
})
