import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { simulate, sweep } from '../../lib/index.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { addonWorker, firstMessage, LONG } from '../support/addon.ts'
import { policy, recorded, runOptions, scenario } from '../support/runs.ts'

const ROUNDS = LONG ? 200 : 10

/** Ends a thread some time after it said that it works; it must end, and only it. */
async function terminate(code: string, round: number): Promise<void> {
  const thread = addonWorker(code, { input: scenario(9), run: runOptions(policy(9)) })
  await firstMessage(thread)
  await new Promise((resolve) => setTimeout(resolve, (round * 7) % 23))
  assert.equal(await thread.terminate(), 1)
}

/** A thread ends where it stands: in the core, on the way there, or in a callback of the core. */
describe('hazard: termination of a worker', function () {
  this.timeout(LONG ? 0 : 120_000)
  const expected = recorded(scenario(9), runOptions(policy(9))).log.records
  afterEach(() => {
    assert.deepEqual(recorded(scenario(9), runOptions(policy(9))).log.records, expected)
  })

  it('meets no conversion that aborts on what a dying thread reads (native/binding/convert.h)', () => {
    const folder = new URL('../../native/binding/', import.meta.url)
    for (const name of readdirSync(folder)) {
      const text = readFileSync(new URL(name, folder), 'utf8').replaceAll(/\/\/.*/g, '')
      assert.doesNotMatch(text, /\.To(Boolean|Number|String|Object)\(/, name)
    }
  })

  it('that simulates without a pause', async () => {
    const code = `
      const built = simulator(workerData.input);
      built.run(workerData.run, {});
      parentPort.postMessage('works');
      for (;;) built.record(workerData.run, {});
    `
    for (let round = 0; round < ROUNDS; round += 1) await terminate(code, round)
  })

  it('that binds traces and builds simulators', async () => {
    const code = `
      simulator(workerData.input);
      parentPort.postMessage('works');
      for (;;) simulator(workerData.input);
    `
    for (let round = 0; round < ROUNDS; round += 1) await terminate(code, round)
  })

  it('inside a placement that does not return', async () => {
    const code = `
      let asked = 0;
      const placement = ({ candidates }) => {
        if (++asked === 10) { parentPort.postMessage('inside'); for (;;); }
        return candidates[0].instance;
      };
      simulator(workerData.input).run({ ...workerData.run, placement }, {});
    `
    for (let round = 0; round < ROUNDS; round += 1) await terminate(code, round)
  })

  it('among calls of a placement', async () => {
    const code = `
      const placement = ({ candidates }) => candidates[0].instance;
      const built = simulator(workerData.input);
      built.run({ ...workerData.run, placement }, {});
      parentPort.postMessage('works');
      for (;;) built.run({ ...workerData.run, placement }, {});
    `
    for (let round = 0; round < ROUNDS; round += 1) await terminate(code, round)
  })

  it('inside a placement that ends its own thread', async () => {
    const code = `
      let asked = 0;
      const placement = ({ candidates }) => {
        if (++asked === 10) { parentPort.postMessage('inside'); process.exit(5); }
        return candidates[0].instance;
      };
      simulator(workerData.input).run({ ...workerData.run, placement }, {});
      parentPort.postMessage('not reached');
    `
    for (let round = 0; round < ROUNDS; round += 1) {
      const thread = addonWorker(code, { input: scenario(9), run: runOptions(policy(9)) })
      const exit = new Promise((resolve) => thread.once('exit', resolve))
      const messages: unknown[] = []
      thread.on('message', (message) => messages.push(message))
      assert.equal(await exit, 5)
      assert.deepEqual(messages, ['inside'])
    }
  })

  it('that observes a scheduler of its own', async () => {
    const code = `
      const { recordBytes, kinds } = addon.eventLayout;
      const { latencies, templates } = workerData.input.cluster;
      const shared = (bytes) => new Uint8Array(new SharedArrayBuffer(bytes));
      const log = simulator(workerData.input).record({ ...workerData.run, feedback: 'lease' }, {}).log;
      const build = () => new addon.Scheduler({ ...workerData.run, feedback: 'lease', latencies, templates }, shared(2 * recordBytes));
      build().applyLog(log);
      parentPort.postMessage('works');
      for (;;) build().applyLog(log);
    `
    for (let round = 0; round < ROUNDS; round += 1) await terminate(code, round)
  })

  it('through the API: aborted sweeps give their threads back, and the next one runs', async () => {
    const trace = await chessTrace({ workflows: 90, preset: 1, seed: 1 })
    const options = { trace, cluster: 'hexgen-hetero-1', workers: 2 } as const
    for (let round = 0; round < 4; round += 1) {
      const controller = new AbortController()
      const running = sweep({ ...options, replications: 400, signal: controller.signal })
      setTimeout(() => controller.abort(), 20 + round * 90)
      await assert.rejects(running, { code: 'ERR_LAXITY_ABORTED' })
    }
    const here = await simulate({ trace, cluster: 'hexgen-hetero-1', workers: 0 })
    const there = await simulate({ trace, cluster: 'hexgen-hetero-1', workers: 2 })
    assert.deepEqual(there.metrics, here.metrics)
  })
})
