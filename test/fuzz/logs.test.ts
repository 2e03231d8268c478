import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LaxityError } from '../../lib/errors.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import { writeLog } from '../../lib/scheduler/log.ts'
import { replayLog } from '../../lib/scheduler/replay.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'
import { shadowLog } from '../../lib/scheduler/shadow.ts'
import { instances, LATENCY, virtual } from '../support/live.ts'
import { generator, mutate } from '../support/mutate.ts'
import { policy, random, recorded, runOptions, scenario } from '../support/runs.ts'

const MUTATIONS = Number(process.env.LAXITY_FUZZ_MUTATIONS ?? 500)
const SEED = Number(process.env.FUZZ_SEED ?? 20_261_130)
/** Of one read; a hang shows as the test's timeout, and the file stays. */
const SLOWEST_MS = 10_000

type Draw = (n: number) => number

const ODD: unknown[] = [
  null,
  true,
  '',
  'text',
  '-1',
  '18446744073709551615',
  '99999999999999999999',
  0,
  1,
  -1,
  0.5,
  255,
  65_535,
  2 ** 31 - 1,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  1e300,
  [],
  {},
  [[1]],
  [
    [0, 1],
    [0, 1],
  ],
  [[4_294_967_295, 1]],
]

/** Where any value stands in a parsed line. */
function* places(value: unknown): Iterable<[holder: Record<string, unknown>, key: string]> {
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) {
    yield [value as Record<string, unknown>, key]
    yield* places((value as Record<string, unknown>)[key])
  }
}

/** Lines that are still JSON, mostly: a field changes, goes or comes, lines repeat, move, vanish. */
function mutateLines(bytes: Buffer, draw: Draw): Buffer {
  const lines = bytes.toString().split('\n')
  for (let edits = 1 + draw(2); edits > 0; edits -= 1) {
    const at = draw(lines.length)
    switch (draw(5)) {
      case 0:
        lines.splice(at, 1 + draw(3))
        break
      case 1:
        lines.splice(at, 0, lines[draw(lines.length)]!)
        break
      default: {
        let object: unknown
        try {
          object = JSON.parse(lines[draw(4) === 0 ? 0 : at]!)
        } catch {
          break
        }
        const all = [...places(object)]
        if (all.length === 0) break
        const [holder, key] = all[draw(all.length)]!
        if (draw(8) === 0) delete holder[key]
        else holder[key] = ODD[draw(ODD.length)]
        lines[at] = JSON.stringify(object)
      }
    }
  }
  return Buffer.from(lines.join('\n'))
}

/** Fails unless `read` succeeds or fails with a coded error, in time. */
async function survive(read: () => Promise<unknown>, bytes: Buffer): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('hangs')), SLOWEST_MS)
  })
  try {
    await Promise.race([read(), late])
    return 'read'
  } catch (error) {
    if (error instanceof LaxityError) return error.code
    const input = join(tmpdir(), 'laxity-fuzz-log')
    await writeFile(input, bytes)
    throw new assert.AssertionError({ message: `${(error as Error)?.stack ?? error}\ninput: ${input}` })
  } finally {
    clearTimeout(timer)
  }
}

const OPTIONS = {
  cluster: instances(3),
  leaseTtlMs: 60_000,
  tieSeed: 3,
  parameters: { retryBackoffMs: 0 },
}

/** A scheduler's own log, with everything that can happen in it. */
async function liveLog(path: string): Promise<void> {
  const { clock, scheduler } = virtual({ ...OPTIONS, log: path })
  const next = random(7)
  const leases: Lease[] = []
  for (let step = 0; step < 60; step += 1) {
    const workflow = scheduler.workflow({ id: `w${step % 9}`, tenant: `t${step % 3}`, sloMs: 5_000 })
    const named = step % 4 === 0 ? {} : { id: `c${step}` }
    void workflow
      .call({ ...named, stage: `s${step % 4}`, promptTokens: 1 + Math.floor(next() * 500) })
      .then((lease) => leases.push(lease))
      .catch(() => {})
    if (step === 20)
      scheduler.addInstance({ id: 'late', latency: { ...LATENCY, decodeBaseMs: 3 }, kvTokens: 9_000 })
    if (step === 30) scheduler.setPolicy('hexgen-flow')
    if (step === 35) scheduler.failInstance('m0')
    if (step === 40) scheduler.restoreInstance('m0')
    if (step === 45) scheduler.setParameters({ alpha: 0.7 })
    while (leases.length > 6) {
      const lease = leases.splice(Math.floor(next() * leases.length), 1)[0]!
      lease.firstToken()
      if (next() < 0.15) void lease.failed({ status: 502 }).catch(() => {})
      else lease.done({ outputTokens: 1 + Math.floor(next() * 60) })
    }
    if (next() < 0.1) workflow.end()
    await clock.advance(next() * 40)
  }
}

describe('mutated logs', function () {
  this.timeout(Math.max(300_000, MUTATIONS * 20))
  let folder = ''
  const { stackTraceLimit } = Error
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'laxity-fuzz-'))
  })
  after(() => rm(folder, { recursive: true }))
  afterEach(() => {
    Error.stackTraceLimit = stackTraceLimit
  })

  async function fuzz(
    base: Buffer,
    each: (path: string) => Promise<unknown>,
    seed: number,
  ): Promise<Map<string, number>> {
    const draw = generator(SEED + seed)
    const path = join(folder, 'mutated')
    const outcomes = new Map<string, number>()
    for (let done = 0; done < MUTATIONS; done += 1) {
      let bytes = mutateLines(base, draw)
      if (draw(5) === 0) for (let edits = 1 + draw(3); edits > 0; edits -= 1) bytes = mutate(bytes, draw)
      await writeFile(path, bytes)
      const outcome = await survive(() => each(path), bytes)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    return outcomes
  }

  function reaches(outcomes: Map<string, number>, codes: readonly string[]): void {
    for (const code of codes)
      assert.ok((outcomes.get(code) ?? 0) > MUTATIONS / 100, `${code}: ${outcomes.get(code)} of ${MUTATIONS}`)
  }

  it('of a simulation: replayed, or refused with a coded error', async () => {
    const path = join(folder, 'simulated')
    const { log } = recorded(scenario(12), runOptions({ ...policy(12), feedback: 'lease' }))
    await writeLog(path, log.header, log.records)
    reaches(await fuzz(await readFile(path), (mutated) => replayLog(mutated), 0), [
      'read',
      'ERR_LAXITY_LOG',
      'ERR_LAXITY_SYNTAX',
    ])
  })

  it('of a live scheduler: replayed or simulated again, or refused', async () => {
    const path = join(folder, 'live')
    await liveLog(path)
    const bytes = await readFile(path)
    reaches(await fuzz(bytes, (mutated) => replayLog(mutated), 1), ['read', 'ERR_LAXITY_LOG'])
    reaches(await fuzz(bytes, (mutated) => shadowLog(mutated, 'vllm'), 2), ['read', 'ERR_LAXITY_LOG'])
  })

  it('of a live scheduler: restored and sound, or refused', async () => {
    const path = join(folder, 'restored')
    await liveLog(path)
    const restore = async (mutated: string): Promise<void> => {
      const scheduler = await Scheduler.restore({ ...OPTIONS, log: mutated })
      try {
        assert.ok(scheduler.audit())
        scheduler.snapshot()
        const fresh = scheduler.workflow().call({ promptTokens: 5, parents: [] })
        fresh.catch(() => {})
        await new Promise((resolve) => setImmediate(resolve))
        assert.ok(scheduler.audit())
      } finally {
        await scheduler.close({ drainMs: 0 })
      }
    }
    reaches(await fuzz(await readFile(path), restore, 3), ['read', 'ERR_LAXITY_LOG', 'ERR_LAXITY_SYNTAX'])
  })
})
