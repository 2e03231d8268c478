import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addonProcess } from '../support/addon.ts'

const API = `
const ready = Promise.all([import('./lib/index.ts'), import('./lib/traces/chess.ts')]);
`

/** A process ends while there is work: with the code it chose, by no signal, with nothing on stderr. */
describe('hazard: environment exit with work pending', function () {
  this.timeout(120_000)

  const cases: Record<string, { code: string; exit: number; out?: string }> = {
    'while threads of a pool simulate': {
      exit: 7,
      code: `${API}
        ready.then(async ([{ sweep }, { chessTrace }]) => {
          const trace = await chessTrace({ workflows: 90, preset: 1, seed: 1 });
          sweep({ trace, cluster: 'hexgen-hetero-1', replications: 500, workers: 2, onProgress: () => process.exit(7) });
        });`,
    },
    'inside a placement of a simulation': {
      exit: 8,
      code: `${API}
        ready.then(async ([{ simulate }, { chessTrace }]) => {
          let asked = 0;
          const placement = ({ candidates }) => { if (++asked === 30) process.exit(8); return candidates[0].instance; };
          simulate({ trace: await chessTrace({ workflows: 9, preset: 1, seed: 1 }), cluster: 'hexgen-hetero-1', placement });
        });`,
    },
    'inside a placement of a scheduler': {
      exit: 9,
      code: `${API}
        Promise.all([import('./test/support/runs.ts'), import('./lib/scheduler/replay.ts')]).then(([runs, { replay }]) => {
          const placement = ({ candidates }) => candidates[0].instance;
          const { log } = runs.recorded(runs.scenario(2), runs.runOptions({ placement }));
          replay(log, 'log', { placement: () => process.exit(9) });
        });`,
    },
    'with calls that wait, leases that are open and a log': {
      exit: 0,
      out: 'leased',
      code: `${API}
        ready.then(async ([{ Scheduler }]) => {
          const scheduler = new Scheduler({
            cluster: [{ gpu: 'a100', maxSequences: 1 }], queueTimeoutMs: 60000, log: process.env.LAXITY_LOG });
          const workflow = scheduler.workflow();
          const lease = await workflow.call({ promptTokens: 10, parents: [] });
          for (let i = 0; i < 50; i += 1) workflow.call({ promptTokens: 10, parents: [] }).catch(() => {});
          console.log(lease === undefined ? 'none' : 'leased');
          // No timer, thread or file of a scheduler keeps its process alive.
        });`,
    },
    'at beforeExit and exit, where decisions may still be asked for': {
      exit: 0,
      out: 'before\nexit',
      code: `
        const data = { columns: { firstCall: Uint32Array.of(0, 1), stage: new Uint16Array(1), promptTokens: Uint32Array.of(1),
          outputTokens: Uint32Array.of(1), parentOffset: new Uint32Array(2), parents: new Uint32Array(0) } };
        const trace = new addon.Trace(data.columns);
        globalThis.kept = trace;
        process.once('beforeExit', () => console.log(trace.status === 0 ? 'before' : 'wrong'));
        process.once('exit', () => console.log(new addon.Trace(data.columns).status === 0 ? 'exit' : 'wrong'));`,
    },
  }

  for (const [name, { code, exit, out }] of Object.entries(cases))
    it(name, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'laxity-exit-'))
      const setLog = `process.env.LAXITY_LOG = ${JSON.stringify(join(folder, 'log'))};`
      const ended = await addonProcess(setLog + code, { typescript: code.startsWith(API) })
      await rm(folder, { recursive: true })
      assert.deepEqual(
        { code: ended.code, signal: ended.signal, err: ended.err },
        { code: exit, signal: null, err: '' },
      )
      if (out !== undefined) assert.equal(ended.out.trim(), out)
    })
})
