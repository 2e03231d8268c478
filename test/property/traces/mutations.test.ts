import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { LaxityError } from '../../../lib/errors.ts'
import { readTrace, type TraceFormat } from '../../../lib/traces/read.ts'
import { generator, mutate } from '../../support/mutate.ts'

const MUTATIONS = Number(process.env.LAXITY_FUZZ_MUTATIONS ?? 100_000)
const SEED = Number(process.env.FUZZ_SEED ?? 20_250_505)
/** Reads in flight: lets gzip use the thread pool. */
const BATCH = 250
const SLOWEST_BATCH_MS = 20_000

const jsonl = Buffer.from(
  [
    '{"laxity":"trace","version":1,"template":[{"stage":"plan","promptTokens":9,"outputTokens":2}],"stageGroups":{"plan":"1"}}',
    '{"id":"a","arrivedAtMs":3.5,"tenant":"ä","sloMs":9e3,"calls":[{"id":"y","stage":"act","parents":["x"],"toolGapMs":2,"promptTokens":20,"cachedTokens":8,"outputTokens":5,"predictedTokens":6},{"id":"x","stage":"plan","model":"m","promptTokens":8,"outputTokens":3}]}',
    '{"id":"b","arrivedAtMs":1,"calls":[{"id":"c0","stage":"plan","promptTokens":7,"outputTokens":2}]}',
    '',
  ].join('\n'),
)
const hexgen = Buffer.from(
  JSON.stringify(
    [
      [
        'Information Retriever',
        'generate_candidate_llama-agent',
        'generate_candidate_llama-agent',
        'evaluate',
      ],
      ['revise'],
    ].map((steps) => ({
      Text2SQLRequest: steps.map((step, i) => ({ step, input_length: 30 + i, output_length: 7 })),
    })),
    null,
    1,
  ),
)
const azure = Buffer.from(
  [
    'TIMESTAMP,ContextTokens,GeneratedTokens',
    '2024-03-01 12:00:03.2500000,1500,10',
    '2024-03-01 12:00:04.0310000,3000,8',
    '"2024-03-01T13:00:05+01:00",120,30',
  ].join('\r\n'),
)
const mooncake = Buffer.from(
  [
    '{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]}',
    '{"timestamp": 7, "input_length": 1100, "output_length": 9, "hash_ids": [0, 1, 3]}',
    '{"timestamp": 9.5, "input_length": 40, "output_length": 1, "hash_ids": []}',
  ].join('\n'),
)
const weka = Buffer.from(
  '{"id":"a","block":64,"tool_tokens":7,"system_tokens":2,"models":["m"],"subagents":1,"calls":[[0,0,0,90,5,0,1.5,0,1,0,[],-1],[1,0,6,95,7,64,4,3,2,0,[0,2],0],[2,1,2,30,2,0,3,0.5,2,0,[0],-1]]}\n',
)
const bfcl = Buffer.from(
  '{"id":"a","category":"base","classes":["f"],"func_doc_tokens":30,"num_funcs":2,"turns":[{"user":5,"steps":[[5,8],[6,1]]},{"user":3,"steps":[]}]}\n',
)
const toolbench = Buffer.from(
  '{"file":"a","query_count":2,"total_tokens":60,"finish":null,"task_tokens":10,"func_doc_tokens":4,"nodes":[[0,-1,0,0,0,0,0,0],[1,0,2,1,7,0,0,0],[2,1,3,2,3,9,1,0],[3,1,3,2,2,0,0,1],[4,2,1,3,6,0,0,0]]}\n',
)
const lats = Buffer.from(
  '{"task":"a","calls":[{"kind":"expand","iter":1,"t":1,"dur":2,"in":50,"outs":[7,8],"child_depths":[1,1]},{"kind":"value","iter":1,"t":3.5,"dur":1,"in":120,"outs":[6]},{"kind":"expand","iter":1,"t":5,"dur":1,"in":60,"outs":[3]}]}\n',
)
const bases: { bytes: Buffer; format?: TraceFormat }[] = [
  { bytes: jsonl },
  { bytes: hexgen },
  { bytes: gzipSync(jsonl) },
  { bytes: gzipSync(hexgen) },
  { bytes: azure },
  { bytes: mooncake },
  { bytes: mooncake, format: 'mooncake-chains' },
  { bytes: gzipSync(azure), format: 'azure' },
  { bytes: weka },
  { bytes: bfcl, format: 'bfcl' },
  { bytes: toolbench },
  { bytes: lats },
]

function heapAfterCollection(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

/** A hanging read leaves the event loop idle or busy; the timer catches the first, mocha's timeout the second. */
async function withinTime(work: Promise<unknown>, inputs: () => string): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`hangs on one of (base64):\n${inputs()}`)), SLOWEST_BATCH_MS)
  })
  await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

describe('mutated traces', () => {
  // Most reads fail, and most of their time would go into stacks.
  const { stackTraceLimit } = Error
  before(() => {
    Error.stackTraceLimit = 2
  })
  after(() => {
    Error.stackTraceLimit = stackTraceLimit
  })

  it(`${MUTATIONS} mutations never crash, hang or leak, and fail only with coded errors`, async function () {
    this.timeout(Math.max(300_000, MUTATIONS * 3))
    const draw = generator(SEED)
    const outcomes = new Map<string, number>()
    const pending = new Set<Buffer>()

    const attempt = async (): Promise<void> => {
      const base = bases[draw(bases.length)]!
      let { bytes } = base
      for (let edits = 1 + draw(3); edits > 0; edits--) bytes = mutate(bytes, draw)
      const cut = draw(bytes.length + 1)
      const chunks = draw(2) === 0 ? [bytes] : [bytes.subarray(0, cut), bytes.subarray(cut)]
      pending.add(bytes)
      let outcome = 'read'
      try {
        const table = await readTrace(
          Readable.from(chunks),
          base.format === undefined ? {} : { format: base.format },
        )
        assert.ok(table.workflows > 0 && table.calls >= table.workflows)
      } catch (error) {
        const input = bytes.toString('base64')
        assert.ok(
          error instanceof LaxityError,
          `${(error as Error)?.stack ?? error}\ninput (base64): ${input}`,
        )
        outcome = error.code
      }
      pending.delete(bytes)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }

    let heap = 0
    for (let done = 0; done < MUTATIONS; done += BATCH) {
      const attempts = Array.from({ length: Math.min(BATCH, MUTATIONS - done) }, attempt)
      await withinTime(Promise.all(attempts), () =>
        [...pending].map((bytes) => bytes.toString('base64')).join('\n'),
      )
      if (done === BATCH * 40) heap = heapAfterCollection()
    }
    const growth = heapAfterCollection() - heap
    assert.ok(growth < 2 ** 24, `the heap grew by ${growth} bytes`)
    // Else the mutations would test too little.
    for (const code of [
      'read',
      'ERR_LAXITY_SYNTAX',
      'ERR_LAXITY_FIELD',
      'ERR_LAXITY_GZIP',
      'ERR_LAXITY_UTF8',
    ]) {
      assert.ok((outcomes.get(code) ?? 0) > MUTATIONS / 1000, `${code}: ${outcomes.get(code)}`)
    }
  })
})
