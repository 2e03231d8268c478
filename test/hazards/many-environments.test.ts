import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { addonWorker, firstMessage } from '../support/addon.ts'
import { policy, recorded, runOptions, scenario } from '../support/runs.ts'

const WORK = `
const { createHash } = require('node:crypto');
const hashes = workerData.map(({ input, run }) =>
  createHash('sha256').update(simulator(input).record(run, {}).log).digest('hex'));
parentPort.postMessage(hashes);
`

/** Each thread loads the addon for itself; they share nothing but its code. */
describe('hazard: many environments', () => {
  it('at once, and one after the other: the same decisions in each', async function () {
    this.timeout(240_000)
    const work = Array.from({ length: 12 }, (_, i) => ({
      input: scenario(i + 1),
      run: runOptions(policy(i + 1)),
    }))
    const expected = work.map(({ input, run }) =>
      createHash('sha256').update(recorded(input, run).log.records).digest('hex'),
    )
    for (let round = 0; round < 3; round += 1) {
      const threads = Array.from({ length: 8 }, () => addonWorker(WORK, work))
      const ends = threads.map((thread) => new Promise((resolve) => thread.once('exit', resolve)))
      for (const hashes of await Promise.all(threads.map(firstMessage))) assert.deepEqual(hashes, expected)
      assert.deepEqual(await Promise.all(ends), Array(8).fill(0))
    }
    // And this one, which was there before, is as it was.
    assert.deepEqual(
      work.map(({ input, run }) =>
        createHash('sha256').update(recorded(input, run).log.records).digest('hex'),
      ),
      expected,
    )
  })

  it('twice in one environment: the file loads again, and its objects mix', async () => {
    const again = `
      const module_ = { exports: {} };
      process.dlopen(module_, require_('node-gyp-build').path(workerData.root));
      const { columns, cluster } = workerData.input;
      const trace = new module_.exports.Trace(columns);
      const mixed = new addon.Simulator(trace, cluster).record(workerData.run, {});
      const own = simulator(workerData.input).record(workerData.run, {});
      parentPort.postMessage(Buffer.compare(mixed.log, own.log));
    `
    const { ROOT } = await import('../support/addon.ts')
    const data = { root: ROOT, input: scenario(7), run: runOptions(policy(7)) }
    assert.equal(await firstMessage(addonWorker(again, data)), 0)
  })
})
