import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { ErrorCode } from '../../../lib/errors.ts'
import { readTrace, type TraceFormat } from '../../../lib/traces/read.ts'
import { callId, type TraceTable } from '../../../lib/traces/table.ts'
import { traceLines } from '../../../lib/traces/write.ts'
import { random } from '../../support/runs.ts'
import { assertFails, contentOf, readInChunks, readText, repositoryFile, sharedFile } from './shared.ts'

type Row = [
  stage: string,
  prompt: number,
  cached: number,
  output: number,
  gapMs: number,
  parents: readonly number[],
]

/** The calls of each workflow. */
function rows(table: TraceTable): Row[][] {
  const { columns: c, stages } = table
  return Array.from({ length: table.workflows }, (_, w) =>
    Array.from({ length: c.firstCall[w + 1]! - c.firstCall[w]! }, (__, position): Row => {
      const row = c.firstCall[w]! + position
      assert.equal(callId(table, w, position), `c${position}`)
      return [
        stages[c.stage[row]!]!,
        c.promptTokens[row]!,
        c.cachedTokens?.[row] ?? 0,
        c.outputTokens[row]!,
        c.toolGapMs?.[row] ?? 0,
        [...c.parents.subarray(c.parentOffset[row], c.parentOffset[row + 1])],
      ]
    }),
  )
}

function jsonl(records: readonly unknown[]): string {
  return records.map((record) => `${JSON.stringify(record)}\n`).join('')
}

/** As Python's numpy does it, the way the published quantiles were made. */
function quantile(values: Iterable<number>, share: number): number {
  const sorted = Float64Array.from(values).sort()
  const at = share * (sorted.length - 1)
  const low = Math.floor(at)
  return sorted[low]! + (sorted[Math.min(low + 1, sorted.length - 1)]! - sorted[low]!) * (at - low)
}

function mean(values: ArrayLike<number>): number {
  return Array.from(values).reduce((sum, value) => sum + value, 0) / values.length
}

function near(value: number, wanted: number, error: number, what: string): void {
  assert(Math.abs(value / wanted - 1) <= error, `${what}: ${value}, not ${wanted}`)
}

async function survives(table: TraceTable): Promise<void> {
  assert.equal(table.context, 'full')
  assert.deepEqual(contentOf(await readText([...traceLines(table)].join(''))), contentOf(table))
}

// [index, agent, start, input, output, cached, API, think, stop, model, parents, prefix parent]
const wekaCalls: unknown[][] = [
  [0, 0, 0, 1000, 50, 0, 10, 0, 1, 0, [], -1],
  // Joins sub-agents 1 and 2; 3 runs in the background.
  [1, 0, 60, 1200, 0, 1000, 4, 50, 2, 0, [0, 3, 4], 0],
  [2, 1, 10.25, 300, 20, 0, 5, 0, 1, 1, [0], -1],
  [3, 1, 17.5, 400, 21, 320, 2.5, 2.25, 2, 1, [2], 2],
  [4, 2, 11, 310, 22, 0, 41, 0.5, 2, 1, [0], -1],
  [5, 3, 12, 320, 23, 320, 900, 0.75, 2, 1, [0], -1],
]
const wekaRun = {
  id: 'run',
  block: 64,
  tool_tokens: 700,
  system_tokens: 200,
  models: ['a', 'b'],
  subagents: 3,
  calls: wekaCalls,
}
const bfclEntry = {
  id: 'entry',
  category: 'base',
  classes: ['Files'],
  func_doc_tokens: 3000,
  num_funcs: 17,
  turns: [
    {
      user: 25,
      steps: [
        [5, 8],
        [6, 0],
      ],
    },
    { user: 0, steps: [] },
    { user: 11, steps: [[9, 400]] },
  ],
}
// [id, parent, type, depth, text, observation, pruned, terminal]
const tree = {
  file: 'tree.json',
  query_count: 6,
  total_tokens: 9000,
  finish: 'give_answer',
  task_tokens: 100,
  func_doc_tokens: 400,
  nodes: [
    [0, -1, 0, 0, 0, 0, 0, 0],
    [1, 0, 1, 1, 20, 0, 0, 0], // Thought, call 0
    [2, 1, 2, 2, 3, 0, 0, 0],
    [3, 2, 3, 3, 7, 90, 0, 0],
    [4, 3, 2, 4, 4, 0, 1, 0], // Action after an Action Input, call 1
    [5, 4, 3, 5, 6, 30, 1, 1],
    [6, 3, 1, 4, 8, 0, 0, 0], // its sibling, call 2
    [7, 6, 1, 5, 9, 0, 0, 0], // a Thought after a Thought, call 3
    [8, 7, 2, 6, 1, 0, 0, 0],
    [9, 8, 3, 7, 2, 50, 0, 1],
    [10, 0, 2, 1, 5, 0, 0, 0], // a second branch of the root, call 4
    [11, 10, 3, 2, 10, 12, 0, 0],
    [12, 10, 3, 2, 11, 13, 0, 1], // a second continuation, call 5
  ],
}
const expand = (t: number, prompt: number, outs: number[], depths?: number) => ({
  kind: 'expand',
  iter: 1,
  t,
  dur: 2,
  in: prompt,
  outs,
  ...(depths !== undefined && { child_depths: outs.map(() => depths) }),
})
const valuation = (t: number, prompt: number, out: number) => ({
  kind: 'value',
  iter: 1,
  t,
  dur: 1,
  in: prompt,
  outs: [out],
})
const search = {
  task: 'shop',
  calls: [
    expand(10, 500, [7, 8, 9], 1),
    valuation(13.5, 1200, 60),
    valuation(14.5, 1210, 61),
    expand(16, 700, [5, 6], 2),
    // Back to the first level: its prompt continues the root's.
    expand(20, 690, [4, 4], 2),
    valuation(22.25, 1300, 62),
    expand(23.25, 800, [3], 3),
    expand(30, 510, [9, 9, 9], 1),
    // No depths: longer than the one before, so deeper.
    expand(33, 720, [2, 2]),
    // Shorter: another search.
    expand(36, 505, [1, 0, 1]),
  ],
}

const samples: readonly (readonly [format: TraceFormat, record: object])[] = [
  ['weka', wekaRun],
  ['bfcl', bfclEntry],
  ['toolbench', tree],
  ['lats', search],
]

describe('recorded sessions', () => {
  it('weka: a chain that forks sub-agents and joins those it waits for', async () => {
    const table = await readText(jsonl([wekaRun]))
    // Parents come first; the join's gap is what remains after its last parent's end at 52 s.
    assert.deepEqual(rows(table), [
      [
        ['step', 1000, 0, 50, 0, []],
        ['sub-agent', 300, 0, 20, 0, [0]],
        ['sub-agent', 400, 320, 21, 2250, [1]],
        ['sub-agent', 310, 0, 22, 500, [0]],
        ['step', 1200, 1000, 1, 8000, [0, 2, 3]],
        ['sub-agent', 320, 319, 23, 750, [0]],
      ],
    ])
    assert.deepEqual(
      [table.workflowIds, table.models, table.columns.arrivalMs],
      [['run'], ['default'], undefined],
    )
    await survives(table)
  })

  it('weka: a join’s gap is never longer than the recorded delay, nor below 0', async () => {
    const gaps = async (startS: number, thinkS: number) => {
      const calls = wekaCalls.map((call, i) => (i === 1 ? call.with(2, startS).with(7, thinkS) : call))
      return rows(await readText(jsonl([{ ...wekaRun, calls }])))[0]![4]![4]
    }
    assert.deepEqual([await gaps(60, 3), await gaps(50, 40), await gaps(52.125, 60)], [3000, 0, 125])
  })

  it('bfcl: a chain of the steps and a closing call for each turn; prompts hold all that was said', async () => {
    const table = await readText(jsonl([bfclEntry]))
    assert.deepEqual(rows(table), [
      [
        ['tool', 3025, 0, 5, 0, []],
        ['tool', 3038, 3030, 6, 0, [0]],
        // Nothing new was said: at least the last token is computed.
        ['answer', 3044, 3043, 30, 0, [1]],
        ['answer', 3074, 3073, 30, 0, [2]],
        ['tool', 3115, 3104, 9, 0, [3]],
        ['answer', 3524, 3124, 30, 0, [4]],
      ],
    ])
    assert.deepEqual(table.workflowIds, ['entry'])
    await survives(table)
  })

  it('toolbench: the tree of calls; a call is a path of nodes', async () => {
    const table = await readText(jsonl([tree, { ...tree, nodes: tree.nodes.slice(0, 4) }]))
    assert.deepEqual(rows(table), [
      [
        ['step', 500, 0, 30, 0, []],
        ['step', 620, 530, 10, 0, [0]],
        ['step', 620, 530, 8, 0, [0]],
        ['step', 628, 627, 12, 0, [2]],
        ['step', 500, 0, 15, 0, []],
        ['step', 505, 504, 11, 0, [4]],
      ],
      [['step', 500, 0, 30, 0, []]],
    ])
    assert.deepEqual(table.workflowIds, ['tree.json', 'tree.json#2'])
    await survives(table)
  })

  it('lats: searches of expansions and valuations', async () => {
    const table = await readText(jsonl([search]))
    assert.deepEqual(rows(table), [
      [
        ['expand', 500, 0, 7, 0, []],
        ['expand', 500, 499, 8, 0, []],
        ['expand', 500, 499, 9, 0, []],
        ['value', 1200, 0, 60, 1500, [0, 1, 2]],
        ['value', 1210, 0, 61, 1500, [0, 1, 2]],
        ['expand', 700, 500, 5, 500, [3, 4]],
        ['expand', 700, 699, 6, 500, [3, 4]],
        ['expand', 690, 500, 4, 2000, [5, 6]],
        ['expand', 690, 689, 4, 2000, [5, 6]],
        ['value', 1300, 0, 62, 250, [7, 8]],
        ['expand', 800, 690, 3, 0, [9]],
      ],
      [
        ['expand', 510, 0, 9, 0, []],
        ['expand', 510, 509, 9, 0, []],
        ['expand', 510, 509, 9, 0, []],
        ['expand', 720, 510, 2, 1000, [0, 1, 2]],
        ['expand', 720, 719, 2, 1000, [0, 1, 2]],
      ],
      [
        ['expand', 505, 0, 1, 0, []],
        ['expand', 505, 504, 1, 0, []],
        ['expand', 505, 504, 1, 0, []],
      ],
    ])
    assert.deepEqual(table.workflowIds, ['shop/1', 'shop/2', 'shop/3'])
    await survives(table)
  })

  for (const [format, record] of samples) {
    it(`${format} is told by content, in any chunking, gzipped or not`, async () => {
      const text = jsonl([record])
      const expected = contentOf(await readText(text, { format }))
      for (const bytes of [Buffer.from(text), Buffer.from(`\ufeff\n\n${text}\n`), gzipSync(text)]) {
        for (const size of [1, 7, 64, 4096])
          assert.deepEqual(contentOf(await readInChunks(bytes, size)), expected)
      }
    })

    it(`refuses other texts as ${format}`, async () => {
      const good = jsonl([record])
      const read = (text: string) => readText(text, { format })
      await assertFails(read(`${good}[1]`), 'ERR_LAXITY_SYNTAX', 't:2', /one JSON object per line/)
      await assertFails(read(`${good}${good.slice(0, 30)}`), 'ERR_LAXITY_SYNTAX', 't:2', /Not valid JSON/)
      await assertFails(read(''), 'ERR_LAXITY_EMPTY', 't', /empty/)
      const field = { weka: 'block', bfcl: 'calls', toolbench: 'id', lats: 'id' }[format as 'weka']
      await assertFails(read('{"id":"a","calls":[1]}'), 'ERR_LAXITY_FIELD', `t:1: ${field}`)
    })
  }

  /** A copy with the value at a path of keys replaced; undefined removes it. */
  const edited = (record: object, path: readonly (string | number)[], value: unknown): object => {
    const copy = structuredClone(record) as Record<string | number, unknown>
    let at = copy
    for (const key of path.slice(0, -1)) at = at[key] as Record<string | number, unknown>
    if (value === undefined) delete at[path.at(-1)!]
    else at[path.at(-1)!] = value
    return copy
  }
  type Bad = [path: (string | number)[], value: unknown, code: string, place: string, message: RegExp]
  const bad: Record<string, Bad[]> = {
    weka: [
      [['id'], '', 'FIELD', 'id', /1 to 256/],
      [['block'], 0, 'FIELD', 'block', /got 0/],
      [['models'], undefined, 'FIELD', 'models', /Missing field `models`/],
      [['models'], ['a', 5], 'FIELD', 'models', /a list of names/],
      [['subagent'], 1, 'FIELD', 'subagent', /Unknown field "subagent"/],
      [['calls'], [], 'FIELD', 'calls', /not empty/],
      [['calls', 1], {}, 'FIELD', 'calls[1]', /list of 12 values .* got an object/],
      [['calls', 2, 12], 5, 'FIELD', 'calls[2]', /list of 12 values/],
      [['calls', 2, 0], 3, 'FIELD', 'calls[2][0]', /its own index, 2, .* got 3/],
      [['calls', 2, 3], 0, 'FIELD', 'calls[2][3]', /input tokens .* got 0/],
      [['calls', 2, 5], 301, 'FIELD', 'calls[2][5]', /at most the input tokens \(300\) .* got 301/],
      [['calls', 2, 6], -1, 'FIELD', 'calls[2][6]', /API time \(a time from 0 to 1000000 s\) .* got -1/],
      [['calls', 2, 7], '1', 'FIELD', 'calls[2][7]', /think time .* got "1"/],
      [['calls', 2, 8], 4, 'FIELD', 'calls[2][8]', /stop .* got 4/],
      [['calls', 2, 9], 2, 'FIELD', 'calls[2][9]', /one of 2 models .* got 2/],
      [['calls', 2, 10], 0, 'FIELD', 'calls[2][10]', /parents \(a list\) .* got 0/],
      [['calls', 2, 10], ['0'], 'FIELD', 'calls[2][10][0]', /got "0"/],
      [['calls', 2, 10], [6], 'PARENT', 'calls[2][10][0]', /Unknown parent 6: there are 6 calls/],
      [['calls', 2, 10], [-1], 'PARENT', 'calls[2][10][0]', /Unknown parent -1/],
      [['calls', 2, 10], [0, 0], 'DUPLICATE', 'calls[2][10]', /listed twice/],
      [['calls', 2, 10], [3], 'CYCLE', 'calls[3][10]', /3 waits for 2 waits for 3/],
      [['calls', 2, 10], [2], 'CYCLE', 'calls[2][10]', /2 waits for 2/],
      [['id'], 'used', 'DUPLICATE', 'id', /"used" was used before/],
      [['calls'], Array(65_537).fill(0), 'LIMIT', 'calls', /More than 65536 calls/],
      [['calls', 2, 10], Array(2 ** 22 + 1).fill(0), 'LIMIT', 'calls[2][10]', /More than 4194304 parents/],
    ],
    bfcl: [
      [['func_doc_tokens'], 1.5, 'FIELD', 'func_doc_tokens', /got 1.5/],
      [['classes'], 'Files', 'FIELD', 'classes', /a list of names .* got "Files"/],
      [['turns'], [], 'FIELD', 'turns', /not empty/],
      [['turns', 1], 3, 'FIELD', 'turns[1]', /an object .* got 3/],
      [['turns', 1, 'user'], -1, 'FIELD', 'turns[1].user', /got -1/],
      [['turns', 1, 'step'], [], 'FIELD', 'turns[1].step', /Unknown field "step"/],
      [['turns', 0, 'steps', 1], [5], 'FIELD', 'turns[0].steps[1]', /list of 2 values/],
      [['turns', 0, 'steps', 1], [0, 1], 'FIELD', 'turns[0].steps[1][0]', /call tokens .* got 0/],
      [['turns', 0, 'steps', 1, 1], null, 'FIELD', 'turns[0].steps[1][1]', /result tokens .* got null/],
      [['turns', 0, 'steps', 0, 1], 1e8, 'LIMIT', 'turns[0].steps[1]', /more than 100000000 tokens/],
      [['id'], 'used', 'DUPLICATE', 'id', /"used" was used before/],
    ],
    toolbench: [
      [['file'], 7, 'FIELD', 'file', /got 7/],
      [['finish'], 7, 'FIELD', 'finish', /a text or null .* got 7/],
      [['nodes'], [[0, -1, 0, 0, 0, 0, 0, 0]], 'FIELD', 'nodes', /no call/],
      [['nodes', 3], [1], 'FIELD', 'nodes[3]', /list of 8 values/],
      [['nodes', 3, 0], 4, 'FIELD', 'nodes[3][0]', /its own index, 3/],
      [['nodes', 3, 1], 3, 'PARENT', 'nodes[3][1]', /an earlier node, got 3/i],
      [['nodes', 3, 1], -1, 'PARENT', 'nodes[3][1]', /an earlier node, got -1/i],
      [['nodes', 0, 1], 0, 'PARENT', 'nodes[0][1]', /The root has no parent/],
      [['nodes', 0, 2], 1, 'FIELD', 'nodes[0][2]', /a root/],
      [['nodes', 3, 2], 0, 'FIELD', 'nodes[3][2]', /from 1 to 3/],
      [['nodes', 3, 4], -1, 'FIELD', 'nodes[3][4]', /text tokens .* got -1/],
      [['nodes', 3, 5], 99_999_999, 'LIMIT', 'nodes[4]', /more than 100000000 tokens/],
      [['nodes', 3, 6], true, 'FIELD', 'nodes[3][6]', /pruned .* got true/],
      [['file'], 'x'.repeat(257), 'FIELD', 'file', /1 to 256/],
    ],
    lats: [
      [['task'], undefined, 'FIELD', 'task', /Missing field `task`/],
      [['calls', 1, 'kind'], 'valu', 'FIELD', 'calls[1].kind', /"expand" or "value" .* got "valu"/],
      [['calls', 1, 't'], -1, 'FIELD', 'calls[1].t', /got -1/],
      [['calls', 1, 'in'], 0, 'FIELD', 'calls[1].in', /got 0/],
      [['calls', 1, 'outs'], [], 'FIELD', 'calls[1].outs', /not empty/],
      [['calls', 0, 'outs', 2], -1, 'FIELD', 'calls[0].outs[2]', /got -1/],
      [['calls', 0, 'child_depths'], 1, 'FIELD', 'calls[0].child_depths', /a list .* got 1/],
      [['calls', 0, 'child_depths', 1], 0, 'FIELD', 'calls[0].child_depths[1]', /got 0/],
      [['calls', 0, 'child_depth'], [1], 'FIELD', 'calls[0].child_depth', /Unknown field "child_depth"/],
      [['calls', 0, 'kind'], 'value', 'PARENT', 'calls[0]', /needs an expansion before it/],
      [['task'], 'used', 'DUPLICATE', 'task', /"used\/1" was used before/],
      [['task'], 'x'.repeat(255), 'FIELD', 'task', /1 to 256/],
    ],
  }
  for (const [format, record] of samples) {
    const idField = { weka: 'id', bfcl: 'id', toolbench: 'file', lats: 'task' }[format as 'weka']
    for (const [path, value, code, place, message] of bad[format]!) {
      it(`refuses ${path.join('.')} = ${JSON.stringify(value)?.slice(0, 40)} in ${format}`, () => {
        const text = jsonl([edited(record, [idField], 'used'), edited(record, path, value)])
        return assertFails(
          readText(text, { format }),
          `ERR_LAXITY_${code}` as ErrorCode,
          `t:2: ${place}`,
          message,
        )
      })
    }
  }

  it('the examples of the formats’ page are read', async () => {
    const page = readFileSync(repositoryFile('docs/trace-format.md'), 'utf8')
    const examples = page.slice(page.indexOf('## Recorded sessions')).matchAll(/```json\n(.*?)```/gs)
    const tables = await Promise.all(
      Array.from(examples, ([, text]) => readText(`${text!.replaceAll('\n', ' ')}\n`)),
    )
    assert.deepEqual(
      tables.map(({ calls, stages }) => [calls, stages[0]]),
      [
        [3, 'step'],
        [3, 'tool'],
        [1, 'step'],
        [4, 'expand'],
      ],
    )
  })

  it('weka: NaN, as Python writes it, is refused at its place', () =>
    assertFails(
      readText(jsonl([wekaRun]).replace(',2.25,', ',NaN,')),
      'ERR_LAXITY_FIELD',
      't:1: calls[3][7]',
      /think time .* got NaN/,
    ))

  it('weka: keeps every call and parent of 500 random runs', async () => {
    const next = random(5)
    const below = (n: number) => Math.floor(next() * n)
    for (let round = 0; round < 500; round++) {
      const n = 1 + below(20)
      // `rank` is a hidden order in which parents come first; outputs number the calls.
      const rank = Array.from({ length: n }, () => next())
      const calls = rank.map((own, i) => {
        const parents = rank.flatMap((other, j) => (other < own && next() < 0.2 ? [j] : []))
        return [
          i,
          below(3),
          below(100),
          100 + below(9),
          i + 1,
          below(100),
          below(9),
          below(9),
          1,
          0,
          parents,
          -1,
        ]
      })
      const [read] = rows(await readText(jsonl([{ ...wekaRun, calls }])))
      assert.deepEqual(
        read!.map(([, , , output]) => output).sort((a, b) => a - b),
        rank.map((_, i) => i + 1),
      )
      for (const [stage, prompt, cached, output, , parents] of read!) {
        const call = calls[output - 1]! as number[]
        assert.deepEqual([stage, prompt, cached], [call[1] === 0 ? 'step' : 'sub-agent', call[3], call[5]])
        assert.deepEqual(
          parents.map((parent) => read![parent]![3] - 1),
          call[10],
        )
      }
    }
  })

  it('toolbench: prompts are the paths, in 500 random trees', async () => {
    const next = random(6)
    const below = (n: number) => Math.floor(next() * n)
    for (let round = 0; round < 500; round++) {
      const nodes: number[][] = [[0, -1, 0, 0, 0, 0, 0, 0]]
      for (let i = 1 + below(30); i > 0; i--) {
        nodes.push([nodes.length, below(nodes.length), 1 + below(3), 0, below(9), below(9), 0, 0])
      }
      const begins = (i: number): boolean => {
        const [, parent, type] = nodes[i]! as [number, number, number]
        if (type === 1 || parent === 0 || nodes[parent]![2] === 3) return true
        return nodes.some(([j, p], k) => k > 0 && p === parent && j! < i && !begins(j!))
      }
      const starts = nodes.flatMap((_, i) => (i > 0 && begins(i) ? [i] : []))
      const callOf = (i: number): number => (starts.includes(i) ? starts.indexOf(i) : callOf(nodes[i]![1]!))
      const seen = (i: number): number =>
        i === 0 ? 500 : nodes[i]![4]! + nodes[i]![5]! + seen(nodes[i]![1]!)
      const expected = starts.map((i, position): Row => {
        const parent = nodes[i]![1]!
        const written = nodes.reduce(
          (sum, node, j) => sum + (j > 0 && callOf(j) === position ? node[4]! : 0),
          0,
        )
        const prompt = seen(parent)
        const cached = parent === 0 ? 0 : Math.min(prompt - 1, prompt - nodes[parent]![5]!)
        return ['step', prompt, cached, Math.max(1, written), 0, parent === 0 ? [] : [callOf(parent)]]
      })
      assert.deepEqual(rows(await readText(jsonl([{ ...tree, nodes }]))), [expected])
    }
  })

  it('bfcl: prompts are sums of what was said, in 300 random entries', async () => {
    const next = random(7)
    const below = (n: number) => Math.floor(next() * n)
    for (let round = 0; round < 300; round++) {
      const turns = Array.from({ length: 1 + below(5) }, () => ({
        user: below(20),
        steps: Array.from({ length: below(4) }, () => [1 + below(9), below(30)]),
      }))
      const said: number[] = [1 + below(100)]
      const expected: Row[] = []
      let before = 0
      const call = (stage: string, output: number) => {
        const prompt = said.reduce((sum, length) => sum + length)
        expected.push([
          stage,
          prompt,
          Math.min(before, prompt - 1),
          output,
          0,
          expected.length === 0 ? [] : [expected.length - 1],
        ])
        said.push(output)
        before = prompt + output
      }
      for (const { user, steps } of turns) {
        said.push(user)
        for (const [length, result] of steps) {
          call('tool', length!)
          said.push(result!)
        }
        call('answer', 30)
      }
      const entry = { ...bfclEntry, func_doc_tokens: said[0], turns }
      // `said` grew since; its first element is the documentation.
      assert.deepEqual(rows(await readText(jsonl([entry]))), [expected])
    }
  })
})

describe('the recorded sessions beside the repository', () => {
  it('coding agents: the published numbers of calls, forks, joins and lengths', async function () {
    this.timeout(60_000)
    const table = await readTrace(sharedFile(this, 'data/weka-agentic/agent_runs.jsonl.gz'))
    const { promptTokens, cachedTokens, outputTokens, firstCall } = table.columns
    assert.deepEqual([table.workflows, table.calls], [355, 24_015])
    const all = rows(table)
    assert.equal(all.flat().filter(([stage]) => stage === 'sub-agent').length, 524)
    assert.equal(all.filter((run) => run.some(([stage]) => stage === 'sub-agent')).length, 12)
    const joins = all
      .flat()
      .map(([, , , , , parents]) => parents.length - 1)
      .filter((width) => width > 0)
    assert.deepEqual(
      [1, 2, 3].map((width) => joins.filter((own) => own === width).length),
      [16, 5, 6],
    )
    // 48 sub-agents; 4 run in the background.
    const isParent = all.map((run) => new Set(run.flatMap(([, , , , , parents]) => parents)))
    const forks = all.flatMap((run) =>
      run.filter(([stage, , , , , parents]) => stage === 'sub-agent' && run[parents[0]!]![0] === 'step'),
    )
    assert.equal(forks.length, 48)
    const lastOfAgents = all.flatMap((run, w) =>
      run.filter(([stage], position) => stage === 'sub-agent' && !isParent[w]!.has(position)),
    )
    assert.equal(lastOfAgents.length, 4)

    near(mean(promptTokens), 125_450, 1e-5, 'input')
    near(quantile(promptTokens, 0.5), 106_546, 1e-5, 'input p50')
    near(quantile(promptTokens, 0.95), 308_056, 1e-3, 'input p95')
    near(quantile(promptTokens, 0.99), 452_685, 1e-3, 'input p99')
    near(mean(outputTokens), 444, 2e-3, 'output')
    near(quantile(outputTokens, 0.95), 1537, 1e-3, 'output p95')
    near(mean(cachedTokens!) / mean(promptTokens), 0.963, 1e-3, 'cached share')
    const fresh = promptTokens.map((prompt, i) => prompt - cachedTokens![i]!)
    near(quantile(fresh, 0.5), 746, 2e-3, 'new tokens p50')
    near(quantile(fresh, 0.95), 11_381, 2e-3, 'new tokens p95')
    const calls = Array.from({ length: 355 }, (_, w) => firstCall[w + 1]! - firstCall[w]!)
    near(mean(calls), 67.6, 1e-3, 'calls of a run')
    assert.deepEqual([quantile(calls, 0.5), Math.max(...calls)], [43, 561])
    const subAgents = all.flat().filter(([stage]) => stage === 'sub-agent')
    near(
      quantile(
        subAgents.map(([, prompt]) => prompt),
        0.5,
      ),
      42_724,
      1e-4,
      'input of sub-agents p50',
    )
    assert.equal(
      quantile(
        subAgents.map(([, , , output]) => output),
        0.5,
      ),
      241,
    )
    const within = all.filter((run) => run.every(([, prompt]) => prompt <= 131_072))
    assert.deepEqual([within.length, within.flat().length], [120, 4154])
    await survives(table)
  })

  it('BFCL: the published numbers of calls and lengths', async function () {
    const table = await readTrace(sharedFile(this, 'data/bfcl-v3-multiturn/entries.jsonl.gz'))
    assert.deepEqual([table.workflows, table.calls], [800, 7961])
    const { promptTokens, stage, outputTokens } = table.columns
    const tool = table.stages.indexOf('tool')
    const written = outputTokens.filter((_, call) => stage[call] === tool)
    assert.deepEqual([written.length, quantile(written, 0.5), quantile(written, 0.95)], [4625, 12, 41])
    near(mean(written), 16.2, 2e-3, 'call text')
    assert.equal(Math.max(...written), 1216)
    // The lengths of closing answers are assumed.
    near(mean(promptTokens), 6275, 1e-3, 'input')
    near(quantile(promptTokens, 0.5), 5669, 1e-3, 'input p50')
    near(quantile(promptTokens, 0.95), 9706, 1e-3, 'input p95')
    near(quantile(promptTokens, 0.99), 28_851, 1e-3, 'input p99')
    near(Math.max(...promptTokens), 48_718, 1e-3, 'input max')
    const calls = rows(table).map((entry) => entry.length)
    near(mean(calls), 9.95, 1e-3, 'calls of an entry')
    assert.deepEqual([quantile(calls, 0.5), quantile(calls, 0.95), Math.max(...calls)], [10, 15, 37])
    assert(
      rows(table).every((entry) => entry.every(([, , , , , parents], i) => i === 0 || parents[0] === i - 1)),
    )
    await survives(table)
  })

  it('ToolBench: the published trees, without the calls that left no node', async function () {
    const path = sharedFile(this, 'data/toolbench/dfsdt_trees.jsonl.gz')
    const table = await readTrace(path)
    assert.equal(table.workflows, 15)
    const calls = rows(table).map((own) => own.length)
    // query_count: 3, 4, 4, 4, 5, 7, 12, 24, 25, 30, 31, 36, 43, 45, 75, 348 together; 14 left no node.
    assert.deepEqual(
      calls.sort((a, b) => a - b),
      [3, 4, 4, 4, 5, 7, 10, 24, 24, 28, 31, 35, 43, 44, 68],
    )
    const { promptTokens, outputTokens } = table.columns
    near(mean(promptTokens) + mean(outputTokens), 2089, 0.02, 'tokens per call, as billed')
    // Every node's text was written by one call.
    const trees = gunzipSync(readFileSync(path)).toString().trim().split('\n')
    for (const [w, own] of rows(table).entries()) {
      const { nodes } = JSON.parse(trees[w]!) as { nodes: number[][] }
      const texts = nodes.reduce((sum, node) => sum + node[4]!, 0)
      assert.equal(
        own.reduce((sum, [, , , output]) => sum + output, 0),
        texts,
      )
    }
    await survives(table)
  })

  it('LATS: the published searches', async function () {
    const table = await readTrace(sharedFile(this, 'data/lats/search_call_logs.jsonl.gz'))
    const all = rows(table)
    // Two whole searches of 18 requests (42 to 44 generations), one that the log cuts off, and a depth-first search of 6 expansions.
    assert.deepEqual(table.workflowIds, [
      'webshop-lats-gpt3.5-n5/1',
      'webshop-lats-gpt3.5-n5/2',
      'webshop-lats-gpt3.5-n5/3',
      'hotpot-tot-dfs-gpt3.5-n5/1',
    ])
    assert.deepEqual(
      all.map((own) => own.length),
      [44, 42, 10, 30],
    )
    const values = all.flat().filter(([stage]) => stage === 'value')
    assert.equal(values.length, 26)
    near(mean(values.map(([, prompt]) => prompt)), 1572, 1e-3, 'input of valuations')
    near(mean(values.map(([, , , output]) => output)), 59, 1e-2, 'output of valuations')
    // The first candidate of each request has not sent the whole prompt before.
    const requests = all.map((own) =>
      own.filter(([stage, prompt, cached]) => stage === 'expand' && cached < prompt - 1),
    )
    const webshop = requests
      .slice(0, 3)
      .flat()
      .map(([, prompt]) => prompt)
    assert.deepEqual([webshop.length, quantile(webshop, 0.5)], [11, 1090])
    near(mean(webshop), 962, 1e-3, 'input of expansions')
    assert.deepEqual(
      requests[3]!.map(([, prompt, cached]) => [prompt, cached]),
      [
        [1563, 0],
        [1646, 1563],
        [1726, 1646],
        [1819, 1726],
        [1898, 1819],
        [2002, 1898],
      ],
    )
    assert(values.every(([, , , , , parents]) => parents.length === 5 || parents.length === 10))
    await survives(table)
  })
})
