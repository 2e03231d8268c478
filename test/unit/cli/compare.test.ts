import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { laxity } from './shared.ts'

const ARGS = [
  'compare',
  '--workload',
  'chess:1',
  '--cluster',
  'hexgen-homo',
  '--workflows',
  '8',
  '--seeds',
  '2',
]

describe('laxity compare', () => {
  it('--json prints one document of the documented shape', async () => {
    const { status, stdout, stderr } = await laxity(
      ...ARGS,
      '--policy',
      'vllm',
      '--policy',
      'ratio/eft/at-reveal',
      '--load',
      '0.5',
      '--load',
      '0.9',
      '--json',
    )
    assert.deepEqual([status, stderr], [0, ''])
    const document = JSON.parse(stdout) as {
      command: string
      rows: Record<string, unknown>[]
      saturation: object[]
      timing: object
    }
    assert.deepEqual(Object.keys(document), ['command', 'rows', 'saturation', 'timing'])
    assert.equal(document.command, 'compare')
    assert.equal(document.rows.length, 4)
    for (const [i, row] of document.rows.entries()) {
      assert.deepEqual(
        [row.policy, row.workload, row.cluster, row.load, row.knowledge, row.feedback],
        [
          ['vllm', 'ratio/eft/at-reveal'][i % 2],
          'chess:1',
          'hexgen-homo',
          i < 2 ? 0.5 : 0.9,
          'online',
          'boundary',
        ],
      )
      for (const name of [
        'req95',
        'req99',
        'p95Ms',
        'p99Ms',
        'meanMs',
        'throughputPerS',
        'evictions',
        'ratePerS',
      ])
        assert.equal(typeof row[name], 'number', name)
      assert.deepEqual(Object.keys(row.planUs as object), ['mean', 'p50', 'p99'])
      assert.equal((row.perSeed as object[]).length, 2)
    }
    assert.deepEqual(Object.keys(document.rows[1]!.versusFirst as object), [
      'policy',
      'req95',
      'req99',
      'meanMs',
      'p95Ms',
      'p99Ms',
      'throughputPerS',
    ])
  })

  it('--report writes a page of the same numbers, and names it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'laxity-compare-'))
    try {
      const page = join(folder, 'report.html')
      const { status, stdout } = await laxity(...ARGS, '--policy', 'vllm', '--report', page)
      assert.equal(status, 0)
      assert.ok(stdout.includes(`Report: ${page}`))
      const html = readFileSync(page, 'utf8')
      assert.match(html, /<html/)
      assert.ok(html.includes('vllm') && html.includes('hexgen-homo'))
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('prints a table or CSV, and nothing else', async () => {
    const table = await laxity(...ARGS)
    assert.deepEqual([table.status, table.stderr], [0, ''])
    assert.match(table.stdout, /^chess:1 on hexgen-homo: load 0\.9 /)
    const csv = await laxity(...ARGS, '--csv', '--workers', '2')
    assert.deepEqual([csv.status, csv.stderr], [0, ''])
    assert.match(csv.stdout, /^policy,order,placement,binding,workload,/)
    assert.equal(csv.stdout.trim().split('\n').length, 4)
  })

  const refused: [args: string[], message: RegExp][] = [
    [[], /Expected a workload's name, a path or a table for `--workload`, got undefined/],
    [['--workload', 'chess:1', '--json', '--csv'], /`--csv` and `json` exclude each other/],
    [['--workload', 'chess:1', '--load', 'much'], /for `--load`, got "much" \(string\)/],
    [
      ['--workload', 'chess:1', '--policy', 'hexagnt', '--seeds', '0', '--decode-admission', 'me'],
      /3 problems: .*`--seeds`, got 0.*Unknown decodeAdmission "me".*"hexagnt"; did you mean "hexagent"\? \(in `--policy` "hexagnt"\)/,
    ],
    [['--workload', 'chess:1', '--paper', '--staging', 'none'], /`--staging` is set by `paper`/],
    [['--workload', 'chess:1', '--context', 'full'], /`--context` has no meaning for the workload "chess:1"/],
    [['--workload', 'chess:1', '--seed', '1'], /unknown option '--seed' \(Did you mean --seeds\?\)/],
    [['chess:1'], /too many arguments/],
  ]
  for (const [args, message] of refused) {
    it(`refuses ${args.join(' ') || 'nothing at all'}`, async () => {
      const { status, stdout, stderr } = await laxity('compare', ...args)
      assert.equal(stdout, '')
      assert.match(stderr, /^laxity: [^\n]+ \[ERR_LAXITY_OPTION\]\n$/)
      assert.match(stderr, message)
      assert.equal(status, 2)
    })
  }
})
