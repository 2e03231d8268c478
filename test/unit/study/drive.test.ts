import assert from 'node:assert/strict'
import { LaxityError } from '../../../lib/errors.ts'
import { drive, type Executor } from '../../../lib/study/drive.ts'
import { Planner } from '../../../lib/study/plan.ts'
import { MemoryStore } from '../../../lib/study/store.ts'
import type { Range } from '../../../lib/study/study.ts'

const CALLS = 1000

/** Chunks take made-up CPU time and end in random order; those with a run of `bad` fail. */
class Fake implements Executor {
  readonly ran: Range[] = []
  readonly #random: () => number
  readonly #bad: ReadonlySet<number>
  readonly #msPerRun: number

  constructor(random: () => number, bad: ReadonlySet<number>, msPerRun: number) {
    this.#random = random
    this.#bad = bad
    this.#msPerRun = msPerRun
  }

  window = () => 5

  async run(chunk: Range) {
    this.ran.push(chunk)
    for (let turns = Math.floor(this.#random() * 5); turns >= 0; turns--) await new Promise(setImmediate)
    for (const run of this.#bad) {
      if (run >= chunk.from && run < chunk.to) return { failed: `run ${run} is bad`, attempts: 3 }
    }
    const rows = Float64Array.from({ length: chunk.to - chunk.from }, (_, i) => chunk.from + i)
    return { rows, cpuMs: rows.length * this.#msPerRun }
  }
}

function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1103515245 + 12345) % 2 ** 31
    return state / 2 ** 31
  }
}

async function rowsOf(store: MemoryStore): Promise<number[]> {
  const rows: number[] = []
  for await (const chunk of store.chunks()) rows.push(...chunk.rows)
  return rows
}

const options = { signal: undefined, onChunk: () => {} }

describe('driving a study', () => {
  it('stores every run once, in order, whatever order chunks end in', async () => {
    for (let seed = 1; seed <= 50; seed++) {
      const runs = 1 + ((seed * 997) % 20_000)
      const store = new MemoryStore()
      const planner = new Planner(runs, () => CALLS, 1, store)
      const driven = await drive(store, planner, new Fake(random(seed), new Set(), seed / 10), options)
      assert.deepEqual(
        await rowsOf(store),
        Array.from({ length: runs }, (_, i) => i),
      )
      assert.equal(driven.runs, runs)
      assert.deepEqual(driven.aside, [])
    }
  })

  it('grows chunks until they are worth a message', async () => {
    for (const msPerRun of [0.01, 0.3, 2, 300]) {
      const store = new MemoryStore()
      const fake = new Fake(random(7), new Set(), msPerRun)
      await drive(store, new Planner(60_000, () => CALLS, 1, store), fake, options)
      // All but the first two, which measure, and the last, which is the rest.
      for (const { from, to } of fake.ran.slice(2, -1)) {
        assert((to - from) * msPerRun >= 250, `${to - from} runs of ${msPerRun} ms`)
        assert((to - from - 1) * msPerRun < 800, `${to - from} runs of ${msPerRun} ms`)
      }
    }
  })

  it('sets exactly the runs aside that fail, and names them', async () => {
    for (let seed = 1; seed <= 50; seed++) {
      const draw = random(seed)
      const bad = new Set(Array.from({ length: 1 + (seed % 5) }, () => Math.floor(draw() * 3000)))
      const store = new MemoryStore()
      const planner = new Planner(3000, () => CALLS, 1, store)
      const driven = await drive(store, planner, new Fake(draw, bad, 1), options)
      const expected = [...bad].sort((a, b) => a - b)
      assert.deepEqual(
        driven.aside,
        expected.map((run) => ({ from: run, to: run + 1, error: `run ${run} is bad`, attempts: 3 })),
      )
      assert.deepEqual(
        await rowsOf(store),
        Array.from({ length: 3000 }, (_, i) => i).filter((run) => !bad.has(run)),
      )
    }
  })

  it('gives up halving where everything fails', async () => {
    const store = new MemoryStore()
    const fake = new Fake(random(1), new Set(Array.from({ length: 5000 }, (_, i) => i)), 1)
    const driven = await drive(store, new Planner(5000, () => CALLS, 1, store), fake, options)
    const runs = driven.aside.reduce((sum, { from, to }) => sum + to - from, 0)
    assert.equal(runs, 5000)
    assert(fake.ran.length < 300, `${fake.ran.length} chunks`)
  })

  it('stops when it is told to, and when a result cannot be kept', async () => {
    const controller = new AbortController()
    const store = new MemoryStore()
    const planner = new Planner(1e6, () => CALLS, 1, store)
    const onChunk = () => controller.abort()
    const stopped = drive(store, planner, new Fake(random(1), new Set(), 1), {
      signal: controller.signal,
      onChunk,
    })
    await assert.rejects(stopped, { code: 'ERR_LAXITY_ABORTED' })
    const full = new MemoryStore()
    full.append = async () => {
      throw new LaxityError('ERR_LAXITY_FILE', 'full')
    }
    const failing = drive(
      full,
      new Planner(1e6, () => CALLS, 1, full),
      new Fake(random(1), new Set(), 1),
      options,
    )
    await assert.rejects(failing, { code: 'ERR_LAXITY_FILE' })
  })
})
