import assert from 'node:assert/strict'
import { mkdirSync, readdirSync } from 'node:fs'
import { calibrate, createEstimator } from '../../../lib/model/api.ts'
import { writeCalibration } from '../../../lib/model/calibration-file.ts'
import { problemsOf, temporaryFolder } from './shared.ts'

const SETUP = { model: 'llama-3.1-70b', gpu: 'h100', tp: 4 } as const

/** Iterations under a stack, as a CSV; `noise` scales a fixed pattern of relative errors. */
async function rows(stack: [number, number, number], noise: number, unit = 1): Promise<string> {
  const kernels = await createEstimator({ ...SETUP, calibration: 'none' })
  const [scale, fixed, perSequence] = stack
  const lines = ['batch,context,newTokens,ms']
  let n = 0
  for (const batch of [1, 2, 4, 8, 16, 32, 64, 128]) {
    for (const context of [200, 1000, 4000, 8000]) {
      const time = scale * kernels.decodeMs(batch, batch * context) + fixed + perSequence * batch
      const error = 1 + noise * Math.sin(12.9898 * ++n)
      lines.push(`${batch},${context},${n % 2},${time * error * unit}`)
    }
  }
  for (const newTokens of [128, 512, 2048, 8192]) {
    lines.push(`1,0,${newTokens},${(scale * kernels.prefillMs({ newTokens }) + fixed + perSequence) * unit}`)
  }
  return `${lines.join('\n')}\n`
}

describe('calibrate', () => {
  const files = temporaryFolder()

  it('recovers the stack that rows were made with, and the file gives it back', async () => {
    const path = files.write('exact.csv', await rows([1.2, 3, 0.05], 0))
    const { file, before, folds, onBound, warnings } = await calibrate(path, SETUP)
    assert(Math.abs(file.stack.scale - 1.2) < 1e-4, String(file.stack.scale))
    assert(Math.abs(file.stack.fixedMs - 3) < 1e-2, String(file.stack.fixedMs))
    assert(Math.abs(file.stack.perSequenceMs - 0.05) < 1e-4, String(file.stack.perSequenceMs))
    assert(file.inSample.mape < 0.01 && file.crossValidated!.mape < 0.01)
    assert(before.mape > 15)
    assert.deepEqual([folds, onBound, warnings], [5, [], []])
    assert.equal(file.id, 'laxity-cal-1+exact')

    const written = files.path('exact.json')
    await writeCalibration(written, file)
    const estimator = await createEstimator({ ...SETUP, calibration: written })
    assert.equal(estimator.calibration, 'laxity-cal-1+exact')
    assert.equal(estimator.errorBand, file.crossValidated!.mape / 100)
    const { scale, fixedMs, perSequenceMs } = file.stack
    const kernels = (await createEstimator({ ...SETUP, calibration: 'none' })).decodeMs(16, 32_000)
    assert(Math.abs(estimator.decodeMs(16, 32_000) - (scale * kernels + fixedMs + 16 * perSequenceMs)) < 1e-9)
  })

  it('refuses a calibration of other kernel constants, and leaves nothing behind where it cannot write', async () => {
    const { file } = await calibrate(files.write('rows.csv', await rows([1.2, 3, 0.05], 0)), SETUP)
    const old = files.write('old.json', JSON.stringify({ ...file, base: 'laxity-cal-0' }))
    const [problem] = await problemsOf(() => createEstimator({ ...SETUP, calibration: old }))
    assert.deepEqual([problem!.code, problem!.place], ['ERR_LAXITY_FIELD', old])
    assert.match(problem!.message, /stands on laxity-cal-0, this version has laxity-cal-1/)

    const folder = files.path('folder.json')
    mkdirSync(folder)
    const [failed] = await problemsOf(() => writeCalibration(folder, file))
    assert.deepEqual([failed!.code, failed!.place], ['ERR_LAXITY_FILE', folder])
    assert.deepEqual(
      readdirSync(files.path('.')).filter((name) => name.endsWith('.tmp')),
      [],
    )
  })

  it('reports more error outside the sample than inside, and bounds that bind', async () => {
    const path = files.write('noisy.csv', await rows([0.9, 0, 0.02], 0.2))
    const { file, onBound } = await calibrate(path, SETUP)
    assert(file.inSample.mape > 5 && file.inSample.mape < 20)
    assert(file.crossValidated!.mape > file.inSample.mape)
    assert.equal(file.crossValidated!.rows, 36)
    assert(onBound.every((name) => name === 'fixedMs'))
  })

  it('takes model, GPU and parallelism from columns, and serving rows', async () => {
    const lines = ['concurrency,isl,osl,tpot,model,gpu,tp,precision']
    for (const concurrency of [1, 4, 16, 64]) {
      for (const tp of [2, 4])
        lines.push(`${concurrency},1024,256,${12 + concurrency / 8},qwen3-32b,h100,${tp},fp8`)
    }
    const path = files.write('serving.csv', `${lines.join('\r\n')}\r\n`)
    const { kind, rows: count, setups, folds } = await calibrate(path)
    assert.deepEqual([kind, count, folds], ['serving', 8, 8])
    assert.deepEqual(
      setups.map(({ gpu, spec }) => [gpu, spec.tensorParallel, spec.weights]),
      [
        ['h100', 2, 'fp8'],
        ['h100', 4, 'fp8'],
      ],
    )
  })

  it('warns of seconds and microseconds, with the numbers', async () => {
    for (const [unit, name] of [
      [1e-3, 'seconds'],
      [1e3, 'microseconds'],
    ] as const) {
      const path = files.write('units.csv', await rows([1, 1, 0.02], 0, unit))
      const { warnings } = await calibrate(path, SETUP)
      assert.equal(warnings.length, 1)
      assert.match(
        warnings[0]!,
        new RegExp(`look like ${name}, not ms: their median is [\\d.]+ of the estimate \\(row 1 says `),
      )
    }
  })

  it('refuses bad rows, each with its line', async () => {
    const header = 'batch,context,newTokens,ms\n'
    const cases: [text: string, code: string, message: RegExp][] = [
      ['', 'ERR_LAXITY_EMPTY', /empty/],
      [header, 'ERR_LAXITY_EMPTY', /no rows/],
      [`${header}1,2,0,3\n1,2,0,3\n`, 'ERR_LAXITY_EMPTY', /2 rows: three numbers need at least 3/],
      [
        'batch,context,ms\n1,2,3\n',
        'ERR_LAXITY_FIELD',
        /Missing column `newTokens` \(the header has "batch", "context", "ms"\)/,
      ],
      [`${header}1,2,0,x\n`, 'ERR_LAXITY_FIELD', /:2: Expected a number for `ms`, got "x"/],
      [
        `${header}1,2,0,5\n0,2,0,5\n1.5,2,0,5\n`,
        'ERR_LAXITY_FIELD',
        /:3: Expected a whole number from 1 to 65535 for `batch`, got 0/,
      ],
      [`${header}1,2,0,-5\n1,2,0,5\n1,2,0,5\n`, 'ERR_LAXITY_FIELD', /:2: Expected a time in ms above 0/],
      [`${header}1,2,0\n`, 'ERR_LAXITY_SYNTAX', /:2/],
      ['concurrency,isl,osl,tpot,gpu,tp\n1,9000000,10,5,h100,4\n'.repeat(1), 'ERR_LAXITY_EMPTY', /1 row/],
      [
        `concurrency,isl,osl,tpot\n${'1,9000000,10,5\n'.repeat(3)}`,
        'ERR_LAXITY_MEMORY',
        /:2: A request of 9000000 \+ 10 tokens does not fit: llama-3\.1-70b on 4 × h100/,
      ],
      [
        `concurrency,isl,osl,tpot,gpu\n${'1,100,10,5,h1000\n'.repeat(3)}`,
        'ERR_LAXITY_FIELD',
        /:2: .*Unknown GPU "h1000"; did you mean "h100"/,
      ],
    ]
    for (const [text, code, message] of cases) {
      const path = files.write('bad.csv', text)
      const found = await problemsOf(() => calibrate(path, SETUP))
      assert.equal(found[0]!.code, code, found[0]!.message)
      assert(
        found.some((problem) => message.test(problem.message)),
        found[0]!.message,
      )
    }
    const path = files.write('who.csv', await rows([1, 1, 0], 0))
    const [missing] = await problemsOf(() => calibrate(path, { gpu: 'h100' }))
    assert.match(missing!.message, /`model` is needed: give it, or a column `model`/)
  })
})
