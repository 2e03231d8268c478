import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readLog, writeLog } from '../../lib/scheduler/log.ts'
import { replay, replayLog } from '../../lib/scheduler/replay.ts'
import { pairRun, pairScenario } from '../support/pairs.ts'
import { policy, recorded, runOptions, scenario, wrong } from '../support/runs.ts'

describe('contract 2: a lease-mode simulation written as a log replays as a live log', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-log-'))
  })
  after(() => rm(folder, { recursive: true }))

  it('holds no boundary, survives the file byte for byte, and makes every decision again', async () => {
    for (let seed = 1; seed <= 80; seed += 1) {
      const caching = seed % 2 === 0
      const paired = seed > 40
      const own = { feedback: 'lease', lookahead: seed % 3, ...(caching && { error: wrong(seed) }) } as const
      const run = paired ? pairRun(seed, own) : runOptions({ ...policy(seed), ...own })
      const { log } = recorded((paired ? pairScenario : scenario)(seed, { caching }), run)
      const path = join(folder, `${seed}.jsonl`)
      await writeLog(path, log.header, log.records)
      const read = await readLog(path)
      assert.deepEqual(read.header, log.header)
      assert.equal(Buffer.compare(read.records, log.records), 0, `seed ${seed}: the file changed a record`)
      assert.ok(!(await kinds(path)).has('capacity'), 'a live log holds no exact capacities')
      const result = await replayLog(path)
      assert.deepEqual(result, { decisions: result.decisions, matched: result.decisions })
      assert.ok(result.decisions > 0)
    }
  })

  it('replays times beyond 2^53 ns exactly', async () => {
    const input = scenario(3)
    input.columns.arrivalMs = input.columns.arrivalMs!.map((t) => t + 20_000_000_000.000_12)
    const { log } = recorded(input, runOptions({ feedback: 'lease', lookahead: 1 }))
    const path = join(folder, 'late.jsonl')
    await writeLog(path, log.header, log.records)
    const read = await readLog(path)
    assert.equal(Buffer.compare(read.records, log.records), 0)
    assert.equal(replay(read).firstMismatch, undefined)
  })
})

async function kinds(path: string): Promise<Set<string>> {
  const { readFile } = await import('node:fs/promises')
  const lines = (await readFile(path, 'utf8')).trim().split('\n').slice(1)
  return new Set(lines.map((line) => JSON.parse(line).kind as string))
}
