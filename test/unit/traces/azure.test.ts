import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { readTrace } from '../../../lib/traces/read.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { random } from '../../support/runs.ts'
import { assertFails, contentOf, readInChunks, readText, sharedFile } from './shared.ts'

const HEADER = 'TIMESTAMP,ContextTokens,GeneratedTokens'
const csv = (...rows: string[]) => [HEADER, ...rows].join('\r\n')

describe("Azure's traces", () => {
  it('reads the real one: its published statistics', async function () {
    const table = await readTrace(sharedFile(this, 'data/azure-2023/AzureLLMInferenceTrace_code.csv.gz'))
    const { arrivalMs, promptTokens, outputTokens } = table.columns
    assert.deepEqual([table.workflows, table.calls, table.stages], [8819, 8819, ['request']])
    const mean = (values: ArrayLike<number>) =>
      Array.from(values).reduce((sum, x) => sum + x, 0) / values.length
    assert.equal(Math.round(mean(promptTokens)), 2048)
    assert.equal(Math.round(mean(outputTokens)), 28)
    const gaps = Float64Array.from(arrivalMs!.subarray(1), (t, i) => t - arrivalMs![i]!)
    const gap = mean(gaps)
    const square = mean(gaps.map((own) => (own - gap) ** 2))
    assert.equal((Math.sqrt(square) / gap).toFixed(1), '13.2')
    assert.equal(Math.round(arrivalMs!.at(-1)! / 1000), 3436)
    assert.deepEqual([Math.max(...promptTokens), Math.max(...outputTokens)], [7437, 1899])
    const written = await readText([...traceLines(table)].join(''))
    assert.deepEqual(contentOf(written), contentOf(table))
  })

  it('keeps arrivals to 100 ns, from the earliest row on, in any order of rows and columns', async () => {
    const table = await readText(
      csv(
        '2024-03-01 12:00:03.2500000,1500,10',
        '2024-03-01 12:00:03.3020001,3000,8',
        '2024-03-01 12:00:02.2500000,5,6',
      ),
    )
    assert.deepEqual([...table.columns.arrivalMs!], [0, 1000, 1052.0001])
    assert.deepEqual([...table.columns.promptTokens], [5, 1500, 3000])
    const text =
      'GeneratedTokens,"TIMESTAMP",ContextTokens\n7, "2024-02-29T23:59:59Z" ,"9"\n\n1,2024-03-01 01:00:00+01:00,2\n'
    const other = await readText(text, { format: 'azure' })
    assert.deepEqual([...other.columns.arrivalMs!], [0, 1000])
    assert.deepEqual([...other.columns.promptTokens], [9, 2])
    assert.deepEqual([...other.columns.outputTokens], [7, 1])
  })

  it('means the same after being written and read, for 200 random files', async () => {
    const next = random(5)
    const below = (n: number) => Math.floor(next() * n)
    const two = (value: number) => String(value).padStart(2, '0')
    for (let round = 0; round < 200; round++) {
      const rows = Array.from({ length: 1 + below(20) }, () => {
        const [day, hour, second, fraction] = [1 + below(28), below(24), below(60), below(1e7)]
        const ns = BigInt(((day - 1) * 24 + hour) * 3600 + second) * 10n ** 9n + BigInt(fraction) * 100n
        const time = `2024-02-${two(day)} ${two(hour)}:00:${two(second)}.${String(fraction).padStart(7, '0')}`
        return { ns, prompt: 1 + below(9000), output: 1 + below(500), time }
      })
      const table = await readText(
        csv(...rows.map(({ time, prompt, output }) => `${time},${prompt},${output}`)),
      )
      // Sorted stably by time; differences in whole nanoseconds.
      const sorted = rows.toSorted((a, b) => Number(a.ns - b.ns))
      assert.deepEqual([...table.columns.promptTokens], sorted.map(({ prompt }) => prompt)) // biome-ignore format: one line
      for (const [w, { ns }] of sorted.entries()) {
        // A month in ms has half a nanosecond in its last place, and a shift rounds again.
        assert(Math.abs(table.columns.arrivalMs![w]! * 1e6 - Number(ns - sorted[0]!.ns)) <= 1)
      }
      assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
    }
  })

  it('reads any chunking alike, gzipped or not, with a byte order mark or blank lines', async () => {
    const text = csv('2024-03-01 12:00:03.5,10,1', '2024-03-01 12:00:04,20,2', '')
    const expected = contentOf(await readText(text))
    for (const bytes of [Buffer.from(text), Buffer.from(`\ufeff\n${text}`), gzipSync(text)]) {
      for (const size of [1, 2, 7, 64]) assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
    }
  })

  const good = '2024-03-01 12:00:03.5,10,1'
  const bad: [
    title: string,
    text: string,
    code: 'SYNTAX' | 'FIELD' | 'EMPTY',
    place: string,
    message: RegExp,
  ][] = [
    ['no rows', HEADER, 'EMPTY', 't', /no workflows/],
    ['a missing field', csv(good, '2024-03-01 12:00:03.5,10'), 'SYNTAX', 't:3', /Expected 3 fields, got 2/],
    ['one field too many', csv('2024-03-01 12:00:03.5,1,0,1'), 'SYNTAX', 't:2', /got 4/],
    ['no tokens', csv('2024-03-01 12:00:03,0,1'), 'FIELD', 't:2: ContextTokens', /got 0 \(number\)/],
    ['negative tokens', csv('2024-03-01 12:00:03,1,-1'), 'FIELD', 't:2: GeneratedTokens', /got "-1"/],
    ['fractional tokens', csv('2024-03-01 12:00:03,1.5,1'), 'FIELD', 't:2: ContextTokens', /got "1.5"/],
    ['huge tokens', csv('2024-03-01 12:00:03,100000001,1'), 'FIELD', 't:2: ContextTokens', /100000001/],
    ['an empty field', csv('2024-03-01 12:00:03,,1'), 'FIELD', 't:2: ContextTokens', /got ""/],
    ['a day that does not exist', csv('2023-02-30 18:17:03,1,1'), 'FIELD', 't:2: TIMESTAMP', /2023-02-30/],
    ['an hour that does not exist', csv('2023-02-03 24:17:03,1,1'), 'FIELD', 't:2: TIMESTAMP', /24:17/],
    ['a number for a time', csv(good, '12345,1,1'), 'FIELD', 't:3: TIMESTAMP', /got "12345"/],
    [
      'rows centuries apart',
      csv(good, '2200-01-01 00:00:00,1,1'),
      'FIELD',
      't:3: TIMESTAMP',
      /of the other rows/,
    ],
    ['another header', 'TIMESTAMP,Prompt,GeneratedTokens\n', 'SYNTAX', 't:1', /Unknown column "Prompt"/],
    ['a repeated column', 'TIMESTAMP,TIMESTAMP,GeneratedTokens\n', 'SYNTAX', 't:1', /Expected the header/],
    ['a text that begins with T', 'Trace of nothing\n', 'SYNTAX', 't:1', /Azure's CSV.*got "T"/],
  ]
  for (const [title, text, code, place, message] of bad) {
    it(`refuses ${title}`, () => assertFails(readText(text), `ERR_LAXITY_${code}`, place, message))
  }
})
