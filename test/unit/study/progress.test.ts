import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { pricesJsonSchema } from '../../../lib/capacity/prices.ts'
import { ASKED_ABOVE, confirmSize } from '../../../lib/cli/study.ts'
import { progressText, studyReporter } from '../../../lib/cli/study-progress.ts'
import { studyJsonSchema } from '../../../lib/study/schema.ts'

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
