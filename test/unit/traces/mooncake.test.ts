import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { gunzipSync, gzipSync } from 'node:zlib'
import { type ReadTraceOptions, readTrace } from '../../../lib/traces/read.ts'
import type { TraceTable } from '../../../lib/traces/table.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { random } from '../../support/runs.ts'
import { assertFails, contentOf, readInChunks, readText, sharedFile } from './shared.ts'

interface Request {
  timestamp: number
  input_length: number
  output_length: number
  hash_ids: number[]
}

const request = (
  timestamp: number,
  input_length: number,
  hash_ids: number[],
  output_length = 5,
): Request => ({
  timestamp,
  input_length,
  output_length,
  hash_ids,
})

function jsonl(requests: readonly object[]): string {
  return requests.map((row) => `${JSON.stringify(row)}\n`).join('')
}

const chains: ReadTraceOptions = { format: 'mooncake-chains' }

/** Parents by comparing every pair, from the definition. */
function naiveParents(requests: readonly Request[]): number[] {
  const whole = requests.map(({ input_length, hash_ids }) =>
    hash_ids.slice(0, Math.min(Math.floor(input_length / 512), hash_ids.length)),
  )
  return requests.map(({ hash_ids, timestamp }, i) => {
    let best = -1
    for (let j = 0; j < i; j++) {
      const prefix = whole[j]!
      if (prefix.length < 2 || !prefix.every((id, k) => hash_ids[k] === id)) continue
      if (timestamp - requests[j]!.timestamp > 1e9) continue
      if (best < 0 || prefix.length >= whole[best]!.length) best = j
    }
    return best
  })
}

/** The requests and their parents as a table says, by [workflow's arrival, calls]. */
function trees(table: TraceTable): { arrival: number; calls: (number | undefined)[][] }[] {
  const { firstCall, arrivalMs, promptTokens, cachedTokens, parentOffset, parents, toolGapMs } = table.columns
  return Array.from({ length: table.workflows }, (_, w) => ({
    arrival: arrivalMs![w]!,
    calls: Array.from({ length: firstCall[w + 1]! - firstCall[w]! }, (__, position) => {
      const row = firstCall[w]! + position
      const parent = parentOffset[row]! < parentOffset[row + 1]! ? parents[parentOffset[row]!] : undefined
      return [promptTokens[row], cachedTokens?.[row] ?? 0, parent, toolGapMs?.[row] ?? 0]
    }),
  }))
}

describe("Mooncake's traces", () => {
  it('are single calls; a cache may hold the leading blocks seen before, but never the whole prompt', async () => {
    const table = await readText(
      jsonl([
        request(0, 1300, [0, 1, 2]),
        request(7, 1024, [0, 1]),
        request(7, 2000, [0, 9, 2, 3]),
        request(8.5, 5, []),
        request(9, 600, [77, 0]),
      ]),
    )
    assert.deepEqual([...table.columns.arrivalMs!], [0, 7, 7, 8.5, 9])
    assert.deepEqual([...table.columns.cachedTokens!], [0, 1023, 512, 0, 0])
    assert.deepEqual([table.workflows, table.calls, table.columns.parents.length], [5, 5, 0])
  })

  it('are chains by shared whole blocks: the longest prefix, of equals the latest', async () => {
    const table = await readText(
      jsonl([
        request(0, 1100, [0, 1, 2]),
        request(1000, 1100, [0, 1, 8]),
        request(2000, 1700, [0, 1, 3, 4]),
        request(2500, 600, [0, 5]),
        request(4000, 2100, [0, 1, 3, 9, 10]),
        request(5000, 1536, [0, 1, 3]),
        request(9000, 520, [0, 6]),
      ]),
      chains,
    )
    assert.deepEqual(trees(table), [
      {
        arrival: 0,
        calls: [
          [1100, 0, undefined, 0],
          [1100, 1024, 0, 1000],
          [1700, 1024, 1, 1000],
          [2100, 1536, 2, 2000],
          [1536, 1535, 2, 3000],
        ],
      },
      { arrival: 2500, calls: [[600, 0, undefined, 0]] },
      { arrival: 9000, calls: [[520, 0, undefined, 0]] },
    ])
  })

  it('are the chains that comparing all pairs gives, in 400 random traces', async () => {
    const next = random(77)
    const below = (n: number) => Math.floor(next() * n)
    let linked = 0
    for (let round = 0; round < 400; round++) {
      // Ids name their whole prefix, as in the format.
      const ids = new Map<string, number>()
      const idOf = (path: string) => ids.get(path) ?? ids.set(path, ids.size).get(path)!
      const requests: Request[] = []
      let t = 0
      for (let i = 0; i < 30; i++) {
        t += next() < 0.03 ? 2e9 : below(4) * 100
        const blocks = 1 + below(6)
        const path = Array.from({ length: blocks }, () => below(2))
        const length = 512 * (blocks - 1) + 1 + below(512)
        const hashes = path.map((_, k) => idOf(path.slice(0, k + 1).join()))
        // Some traces leave out the last, partial block.
        if (next() < 0.1) hashes.pop()
        requests.push(request(t, length, hashes, 1 + i))
      }
      const table = await readText(jsonl(requests), chains)
      for (const read of [table, await readText(jsonl(requests))]) {
        assert.deepEqual(contentOf(await readText([...traceLines(read)].join(''))), contentOf(read))
      }
      const parents = naiveParents(requests)
      const { columns } = table
      // Outputs number the requests.
      const rowOf = new Map(Array.from(columns.outputTokens, (output, row) => [output - 1, row]))
      for (const [i, parent] of parents.entries()) {
        const row = rowOf.get(i)!
        const w = columns.firstCall.findLastIndex((first) => first <= row)
        const edges = columns.parents.subarray(columns.parentOffset[row], columns.parentOffset[row + 1])
        if (parent < 0) {
          assert.equal(edges.length, 0)
          assert.equal(columns.arrivalMs![w], requests[i]!.timestamp)
          continue
        }
        linked++
        assert.deepEqual(
          [...edges],
          [rowOf.get(parent)! - columns.firstCall[w]!],
          `round ${round}, request ${i}`,
        )
        assert.equal(columns.toolGapMs?.[row] ?? 0, requests[i]!.timestamp - requests[parent]!.timestamp)
        const whole = Math.min(
          Math.floor(requests[parent]!.input_length / 512),
          requests[parent]!.hash_ids.length,
        )
        assert.equal(columns.cachedTokens![row], Math.min(512 * whole, requests[i]!.input_length - 1))
      }
    }
    assert(linked > 2000, `${linked} linked`)
  })

  const real = {
    conversation: { requests: 12_031, reuse: 0.374, parents: 3974, differ: 1 },
    synthetic: { requests: 3993, reuse: 0.651, parents: 1444, differ: 3 },
  }
  for (const [name, facts] of Object.entries(real)) {
    it(`reads the real ${name} trace: its reuse, and the parents that others inferred`, async function () {
      this.timeout(120_000)
      const path = sharedFile(this, `data/mooncake/${name}_trace.jsonl.gz`)
      const single = await readTrace(path)
      assert.deepEqual([single.workflows, single.calls], [facts.requests, facts.requests])
      const sum = (column: Uint32Array) => column.reduce((total, x) => total + x, 0)
      const { cachedTokens, promptTokens } = single.columns
      assert.equal((sum(cachedTokens!) / sum(promptTokens)).toFixed(3), String(facts.reuse))

      const table = await readTrace(path, chains)
      assert.equal(table.calls, facts.requests)
      const csv = gunzipSync(readFileSync(sharedFile(this, `data/mooncake/${name}_chains.csv.gz`))).toString()
      const inferred = csv
        .trim()
        .split('\n')
        .slice(1)
        .map((line) => Number(line.split(',')[5]))
      assert.equal(inferred.filter((parent) => parent >= 0).length, facts.parents)
      const requests = gunzipSync(readFileSync(path))
        .toString()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Request)
      const parents = naiveParents(requests)
      const differ = parents.flatMap((parent, i) => (parent === inferred[i] ? [] : [[parent, inferred[i]!]]))
      // They took the last block for partial where the prompt fills it exactly.
      assert.equal(differ.length, facts.differ)
      const fills = (i: number) => i >= 0 && requests[i]!.input_length % 512 === 0
      assert(differ.every(([own, other]) => fills(own!) || fills(other!)))
      assert.equal(table.workflows, parents.filter((parent) => parent < 0).length)
      assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
    })
  }

  it('are told from the own format by their fields, in any chunking, gzipped or not', async () => {
    const text = jsonl([request(0, 1300, [0, 1, 2]), request(7, 1024, [0, 1])])
    const expected = contentOf(await readText(text, { format: 'mooncake' }))
    for (const bytes of [Buffer.from(text), Buffer.from(`\ufeff\n\n${text}\n`), gzipSync(text)]) {
      for (const size of [1, 2, 7, 64]) assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
    }
  })

  const good = jsonl([request(0, 1300, [0, 1, 2])])
  const bad: [fields: object, code: 'FIELD' | 'SYNTAX', place: string, message: RegExp][] = [
    [{ timestamp: -1 }, 'FIELD', 't:2: timestamp', /got -1/],
    [{ timestamp: '3' }, 'FIELD', 't:2: timestamp', /got "3"/],
    [{ timestamp: 1e13 }, 'FIELD', 't:2: timestamp', /4000000000000 ms/],
    [{ input_length: 0 }, 'FIELD', 't:2: input_length', /got 0/],
    [{ input_length: 1.5 }, 'FIELD', 't:2: input_length', /got 1.5/],
    [{ output_length: 1e9 }, 'FIELD', 't:2: output_length', /got 1000000000/],
    [{ output_length: undefined }, 'FIELD', 't:2: output_length', /Missing field `output_length`/],
    [
      { output_length: undefined, output_lenght: 3 },
      'FIELD',
      't:2: output_lenght',
      /did you mean "output_length"/,
    ],
    [{ hash_ids: 3 }, 'FIELD', 't:2: hash_ids', /a list of block ids .* got 3/],
    [{ hash_ids: [1, -2] }, 'FIELD', 't:2: hash_ids[1]', /got -2/],
    [{ hash_ids: [1, 2, 0.5] }, 'FIELD', 't:2: hash_ids[2]', /got 0.5/],
    [{ hash_ids: ['a'] }, 'FIELD', 't:2: hash_ids[0]', /got "a"/],
    [{ session: 3 }, 'FIELD', 't:2: session', /Unknown field "session"/],
  ]
  for (const format of ['mooncake', 'mooncake-chains'] as const) {
    for (const [fields, code, place, message] of bad) {
      it(`refuses ${JSON.stringify(fields)} in ${format}`, () => {
        const line = JSON.stringify({ ...request(1, 600, [3, 4]), ...fields })
        return assertFails(readText(`${good}${line}\n`, { format }), `ERR_LAXITY_${code}`, place, message)
      })
    }
    it(`refuses other texts as ${format}`, async () => {
      const read = (text: string) => readText(text, { format })
      await assertFails(read(`${good}[1]`), 'ERR_LAXITY_SYNTAX', 't:2', /one JSON object per line/)
      await assertFails(read(`${good}${good.slice(0, 30)}`), 'ERR_LAXITY_SYNTAX', 't:2', /Not valid JSON/)
      await assertFails(read(good.replace('1300', 'NaN')), 'ERR_LAXITY_FIELD', 't:1: input_length', /got NaN/)
      await assertFails(read(''), 'ERR_LAXITY_EMPTY', 't', /empty/)
      await assertFails(read('TIMESTAMP,x'), 'ERR_LAXITY_SYNTAX', 't:1', /Not valid JSON/)
    })
  }

  it('names the formats it knows', () =>
    assertFails(
      readText(good, { format: 'moon' as never }),
      'ERR_LAXITY_OPTION',
      'format',
      /mooncake-chains.*"moon"/,
    ))
})
