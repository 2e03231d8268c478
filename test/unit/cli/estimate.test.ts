import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { laxity } from './shared.ts'

const SETUP = ['--model', 'llama-3.1-70b', '--gpu', 'h100', '--tp', '4']

interface Estimate {
  command: string
  prefillMs: Record<string, number>
  decodeMs: Record<string, number>
  against?: { errors: { rows: number; mape: number }; warnings: string[] }
}

describe('laxity estimate and calibrate', () => {
  let folder: string
  let rows: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-estimate-'))
    rows = join(folder, 'rows.csv')
    writeFileSync(
      rows,
      'batch,context,newTokens,ms\n1,2000,1,16\n16,2000,1,17.5\n64,2000,1,22.5\n1,0,2048,130\n',
    )
  })
  after(() => rmSync(folder, { recursive: true }))

  async function json(...args: string[]): Promise<Record<string, unknown>> {
    const { status, stdout, stderr } = await laxity(...args, '--json')
    assert.deepEqual([status, stderr], [0, ''])
    return JSON.parse(stdout) as Record<string, unknown>
  }

  it('estimate --json prints one document of the documented shape', async () => {
    const document = await json('estimate', ...SETUP)
    const { command, model, gpu, tp, calibration, kvCapacityTokens, kvBytesPerToken, errorBand } = document
    assert.deepEqual(
      [command, model, gpu, tp, calibration, kvCapacityTokens, kvBytesPerToken, errorBand],
      ['estimate', 'llama-3.1-70b', 'h100', 4, 'laxity-cal-1', 472_092, 327_680, 0.101],
    )
    const { prefillMs, decodeMs } = document as unknown as Estimate
    assert.deepEqual(Object.keys(prefillMs), ['512', '2048', '8192'])
    assert.deepEqual(Object.keys(decodeMs), ['1', '16', '64'])
    assert(Math.abs(prefillMs[2048]! - 123.766068) < 1e-4)
    assert(Math.abs(decodeMs[16]! - 16.42717) < 1e-5)
  })

  it('estimate prints a table, and errors against rows', async () => {
    const { status, stdout, stderr } = await laxity('estimate', ...SETUP, '--to', 'h200', '--against', rows)
    assert.deepEqual([status, stderr], [0, ''])
    assert.match(stdout, /llama-3\.1-70b on 4 × h100, bf16 \(laxity-cal-1\)/)
    assert.match(stdout, /prefill of 2048 tokens +124 ms/)
    assert.match(stdout, /KV of 4096 tokens to h200 × 4/)
    assert.match(stdout, /Against 4 iterations of .*rows\.csv: mean error 6\.0 %/)
    const { against } = (await json('estimate', ...SETUP, '--against', rows)) as unknown as Estimate
    assert.equal(against!.errors.rows, 4)
  })

  it('calibrate writes a file that estimate takes', async () => {
    const document = await json('calibrate', rows, ...SETUP)
    assert.deepEqual(Object.keys(document), [
      'command',
      'rows',
      'kind',
      'calibration',
      'base',
      'stack',
      'before',
      'inSample',
      'crossValidated',
      'folds',
      'onBound',
      'warnings',
      'output',
    ])
    assert.deepEqual([document.rows, document.crossValidated], [4, null])
    const output = join(folder, 'rows.calibration.json')
    assert.equal(document.output, output)
    assert.equal((JSON.parse(readFileSync(output, 'utf8')) as { laxity: string }).laxity, 'calibration')
    const after = (await json(
      'estimate',
      ...SETUP,
      '--against',
      rows,
      '--calibration',
      output,
    )) as unknown as Estimate & { calibration: string }
    assert.equal(after.calibration, 'laxity-cal-1+rows')
    assert(after.against!.errors.mape < 2)
    const text = await laxity('calibrate', rows, ...SETUP, '--output', join(folder, 'mine.json'))
    assert.equal(text.status, 0, text.stderr)
    assert.match(text.stdout, /time = [\d.]+ × kernels \+ [\d.]+ ms \+ [\d.]+ ms × sequences/)
    assert.match(text.stdout, /Too few rows to cross-validate/)
  })

  it('warns of times that look like seconds on standard error', async () => {
    const seconds = join(folder, 'seconds.csv')
    writeFileSync(seconds, 'batch,context,newTokens,ms\n1,2000,1,0.016\n16,2000,1,0.0175\n64,2000,1,0.0225\n')
    const { status, stderr } = await laxity('estimate', ...SETUP, '--against', seconds)
    assert.equal(status, 0)
    assert.match(
      stderr,
      /^laxity: warning: .*seconds\.csv: the times look like seconds, not ms: their median is 0\.00107 .*\n$/,
    )
  })

  it('refuses bad input in one line, with status 2 and nothing else', async () => {
    const missing = join(folder, 'missing.csv')
    writeFileSync(missing, 'batch,ms\n1,2\n')
    const cases: [args: string[], code: string, message: RegExp][] = [
      [['estimate', '--gpu', 'h100'], 'OPTION', /`--model` is needed/],
      [
        ['estimate', '--model', 'lama-3.1-70b', '--gpu', 'h100', '--tp', '3'],
        'OPTION',
        /2 problems: .*`--tp`, got 3.*did you mean "llama-3\.1-70b"/,
      ],
      [
        ['estimate', '--model', 'qwen3-235b-a22b', '--gpu', 'h100', '--tp', '4'],
        'MEMORY',
        /does not fit on 4 × h100/,
      ],
      [['estimate', ...SETUP, '--against', missing], 'FIELD', /Missing columns `context`, `newTokens`/],
      [['estimate', ...SETUP, '--against', join(folder, 'absent.csv')], 'FILE', /absent\.csv/],
      [['calibrate', missing, ...SETUP], 'FIELD', /missing\.csv:1/],
      [['calibrate', rows], 'OPTION', /`--model` is needed/],
      [['calibrate', rows, ...SETUP, '--output', rows], 'OPTION', /another file name for `--output`/],
      [
        ['calibrate', rows, ...SETUP, '--output', join(folder, 'no', 'where.json')],
        'FILE',
        /Cannot be written/,
      ],
      [['simulate', 'chess:1:2', '--gpu', 'h10'], 'OPTION', /Unknown GPU "h10"; did you mean "h100"/],
    ]
    const outcomes = await Promise.all(cases.map(([args]) => laxity(...args)))
    for (const [i, [args, code, message]] of cases.entries()) {
      const { status, stdout, stderr } = outcomes[i]!
      assert.deepEqual([status, stdout], [2, ''], args.join(' '))
      assert.match(stderr, /^laxity: [^\n]+\n$/)
      assert(stderr.endsWith(` [ERR_LAXITY_${code}]\n`), stderr)
      assert.match(stderr, message)
    }
    assert(!existsSync(join(folder, 'missing.calibration.json')))
  })

  it('a calibrated run is logged and replayed', async () => {
    const log = join(folder, 'run.log')
    const run = ['simulate', 'chess:1:5', '--latency', 'calibrated', '--log', log]
    const simulated = await laxity(...run)
    assert.equal(simulated.status, 0, simulated.stderr)
    const replayed = await laxity('replay', log)
    assert.equal(replayed.status, 0, replayed.stderr)
    assert.match(replayed.stdout, /all [\d,]+ decisions match/)
  })
})
