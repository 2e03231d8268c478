import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { pricesJsonSchema } from '../../../lib/capacity/prices.ts'
import { progressBar } from '../../../lib/cli/progress.ts'
import { ASKED_ABOVE, confirmSize } from '../../../lib/cli/study.ts'
import { progressText, studyReporter } from '../../../lib/cli/study-progress.ts'
import { studyJsonSchema } from '../../../lib/study/schema.ts'

/** What is written to a stream, a terminal or not. */
function screen(isTTY: boolean) {
  let text = ''
  const stream = new PassThrough()
  stream.on('data', (part) => {
    text += part
  })
  return {
    stream: Object.assign(stream, { isTTY, columns: 120 }) as unknown as NodeJS.WriteStream,
    text: () => text,
  }
}

/** Moves the clock by which bars decide whether to appear; 0 puts it back. */
function clock(): (ms: number) => void {
  const { now } = performance
  return (ms) => {
    performance.now = ms === 0 ? now : () => now.call(performance) + ms
  }
}

const RUNS = { doneRuns: 0, totalRuns: 1 }

const settled = () => new Promise((resolve) => setTimeout(resolve, 20))

async function drawn(out: ReturnType<typeof screen>, what: RegExp): Promise<void> {
  for (let i = 0; i < 500 && !what.test(out.text()); i += 1) await settled()
  assert.match(out.text(), what)
}

describe('what a study says while it runs', () => {
  it('is how far it is, and what is left', () => {
    const at = (remainingMs: number | undefined) =>
      progressText({ doneRuns: 1234, totalRuns: 10_000, resumedRuns: 0, remainingMs })
    assert.equal(at(undefined), '1,234 of 10,000 runs (12 %), time left unknown')
    assert.equal(at(41_400), '1,234 of 10,000 runs (12 %), about 41 s left')
    assert.equal(at(95_000), '1,234 of 10,000 runs (12 %), about 2 min left')
    assert.equal(at(7_500_000), '1,234 of 10,000 runs (12 %), about 2 h 5 min left')
  })

  it('stays one line, whatever a notice holds', () => {
    let text = ''
    const stream = { write: (part: string) => (text += part) } as unknown as NodeJS.WritableStream
    studyReporter(stream).notice('a\nb\u001b[31m')
    assert.equal(text, 'laxity: a b [31m\n')
  })

  it('is a line now and then where nobody watches', () => {
    const later = clock()
    try {
      const out = screen(false)
      const reporter = studyReporter(out.stream)
      const at = (doneRuns: number) =>
        reporter.update({ doneRuns, totalRuns: 100, resumedRuns: 0, remainingMs: 60_000 })
      at(1)
      assert.equal(out.text(), '')
      later(10_000)
      at(2)
      at(3)
      reporter.stop()
      assert.equal(out.text(), 'laxity: 2 of 100 runs (2 %), about 1 min left\n')
    } finally {
      later(0)
    }
  })

  it('is a bar on a terminal, with notices above it, and nothing once it stopped', async () => {
    const later = clock()
    try {
      const out = screen(true)
      const reporter = studyReporter(out.stream)
      const at = (doneRuns: number) =>
        reporter.update({ doneRuns, totalRuns: 100, resumedRuns: 0, remainingMs: 40_000 })
      at(1)
      await settled()
      assert.equal(out.text(), '', 'what is over soon needs no bar')
      later(1_000)
      at(20)
      await drawn(out, /study .* 20 % \| 20\/100 runs \| about 40 s left/)
      reporter.notice('a worker is gone')
      assert.ok(out.text().includes('\r\u001b[Klaxity: a worker is gone\n'))
      at(100)
      reporter.stop()
      const { length } = out.text()
      await settled()
      assert.equal(out.text().length, length)
    } finally {
      later(0)
    }
  })

  it('so is that of a simulation', async () => {
    const later = clock()
    try {
      const out = screen(true)
      const bar = progressBar(out.stream)
      bar.update({ ...RUNS, doneWorkflows: 1, totalWorkflows: 4 })
      await settled()
      assert.equal(out.text(), '')
      later(2_000)
      bar.update({ ...RUNS, doneWorkflows: 1, totalWorkflows: 4 })
      await drawn(out, /simulating .* 0 %/)
      bar.update({ ...RUNS, doneWorkflows: 3, totalWorkflows: 4 })
      bar.stop()
      const over = screen(true)
      const late = progressBar(over.stream)
      later(4_000)
      late.update({ ...RUNS, doneWorkflows: 1, totalWorkflows: 4 })
      late.stop()
      await settled()
      assert.equal(over.text(), '', 'it was over before it was drawn')
      const silent = progressBar(screen(false).stream)
      silent.update({ ...RUNS, doneWorkflows: 1, totalWorkflows: 4 })
      silent.stop()
    } finally {
      later(0)
    }
  })

  it('asks before large studies, and refuses where nobody can answer', async () => {
    await confirmSize(ASKED_ABOVE, 'x', false)
    await confirmSize(ASKED_ABOVE + 1, 'x', true)
    await assert.rejects(confirmSize(ASKED_ABOVE + 1, '2 seeds = 100001 runs', false), {
      code: 'ERR_LAXITY_LIMIT',
      message: /^2 seeds = 100001 runs: .*--yes/,
    })
  })

  it('is described by the published schemas', () => {
    const published = (name: string) =>
      JSON.parse(readFileSync(new URL(`../../../schemas/${name}`, import.meta.url), 'utf8'))
    assert.deepEqual(published('study.schema.json'), JSON.parse(JSON.stringify(studyJsonSchema())))
    assert.deepEqual(published('prices.schema.json'), JSON.parse(JSON.stringify(pricesJsonSchema())))
  })
})
