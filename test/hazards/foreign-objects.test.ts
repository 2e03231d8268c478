import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'
import { Problems } from '../../lib/report/problems.ts'
import { checkAutoTune } from '../../lib/tuning/auto-options.ts'
import { addonProcess } from '../support/addon.ts'
import { runOptions, scenario, simulator } from '../support/runs.ts'

const LATENCY = {
  kind: 'constants',
  prefillBaseMs: 0,
  prefillPerTokenMs: 1,
  decodeBaseMs: 1,
  decodePerSequenceMs: 0,
  decodePerContextMs: 0,
} as const

const CODED = { name: 'TypeError', code: 'ERR_LAXITY_NATIVE' }

const TUNER = checkAutoTune(true, native.parameters, new Problems())!.native

/** One object of each class that the addon exports. */
function objects(): Record<string, object> {
  const { columns, cluster } = scenario(1)
  const trace = new native.Trace(columns)
  const ring = new Uint8Array(new SharedArrayBuffer(4 * native.eventLayout.recordBytes))
  const config = { ...runOptions({ feedback: 'lease' }), latencies: [LATENCY], templates: [] }
  const roofline = new native.Roofline({
    llm: { layers: 2, hidden: 256, queryHeads: 2, kvHeads: 2, headDim: 128, ffn: 512, vocabulary: 1000, gated: true, tiedEmbeddings: false, experts: 0, expertsPerToken: 0, expertWidth: 0 }, // biome-ignore format: one line
    gpu: { flops16: 1e14, flops8: 1e14, bandwidth: 1e12, memory: 8e10, peer: 1e11, network: 1e10, pcie: 1e10, interconnect: 'switched', kernels: 'a100', transferred: false }, // biome-ignore format: one line
    tensorParallel: 1,
    weights: 'bf16',
    kv: 'bf16',
    stack: { scale: 1, fixedMs: 0, perSequenceMs: 0 },
  })
  return {
    Trace: trace,
    Simulator: new native.Simulator(trace, cluster),
    Scheduler: new native.Scheduler(config, ring),
    Tuner: new native.Tuner(TUNER, { latencies: [LATENCY] }, 0.3),
    Latency: new native.Latency({ latencies: [LATENCY] }),
    Roofline: roofline,
  }
}

/** What is no object of class `name`: objects of the other classes, and what only looks like one. */
function strangers(name: string): unknown[] {
  const all = Object.entries(objects())
  return [
    ...all.filter(([of]) => of !== name).map(([, object]) => object),
    ...all.map(([, object]) => new Proxy(object, {})),
    ...all.map(([, object]) => Object.create(object)),
    ...all.map(([, object]) => Object.create(Object.getPrototypeOf(object))),
    {},
    [],
    () => 1,
    new Map(),
    new Uint8Array(8),
    null,
    undefined,
    1,
    'text',
    10n,
    Symbol('s'),
  ]
}

/** Native code must not take the object of another class for its own. */
describe('hazard: foreign objects', () => {
  it('as `this` of an accessor: a coded error', () => {
    let refused = 0
    for (const [name, object] of Object.entries(objects())) {
      const prototype = Object.getPrototypeOf(object)
      for (const [key, { get }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
        if (get === undefined) continue
        assert.doesNotThrow(() => get.call(object), `${name}.${key} of its own`)
        for (const stranger of strangers(name)) {
          assert.throws(() => get.call(stranger), CODED, `${name}.${key}`)
          refused += 1
        }
      }
    }
    assert.ok(refused > 200, `${refused}`)
  })

  it('as `this` of a method: a TypeError', () => {
    for (const [name, object] of Object.entries(objects())) {
      const prototype = Object.getPrototypeOf(object)
      for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
        if (typeof value !== 'function' || key === 'constructor') continue
        for (const stranger of strangers(name))
          assert.throws(() => value.call(stranger), TypeError, `${name}.${key}`)
      }
    }
  })

  it('as an argument: a coded error', () => {
    const { Roofline } = objects() as { Roofline: InstanceType<typeof native.Roofline> }
    const { cluster } = scenario(1)
    for (const stranger of strangers('Trace'))
      assert.throws(() => new native.Simulator(stranger as never, cluster), CODED)
    for (const stranger of strangers('Roofline'))
      assert.throws(() => Roofline.transfer(stranger as never, 1, {}), CODED)
  })

  it('as anything else: coded errors, never a crash', () => {
    const functions = Object.entries(native).filter(([, value]) => typeof value === 'function')
    assert.ok(functions.length > 10)
    for (const [name, value] of functions) {
      const call = value as unknown as (...list: unknown[]) => unknown
      for (const a of strangers(''))
        for (const b of [undefined, {}, new Float64Array(2), a]) {
          for (const act of [() => call(a, b, a, b), () => Reflect.construct(call, [a, b, a, b])]) {
            try {
              act()
            } catch (error) {
              assert.ok(error instanceof TypeError, `${name}: ${String(error)}`)
            }
          }
        }
    }
  })

  it('of another addon: refused', async () => {
    // Another copy of the file is another addon to Node; a proxy hides what it wraps from both.
    const code = `
      const { copyFileSync, mkdtempSync, rmSync } = require('node:fs');
      const folder = mkdtempSync(require('node:path').join(require('node:os').tmpdir(), 'laxity-copy-'));
      copyFileSync(require_('node-gyp-build').path(${JSON.stringify(process.cwd())}), folder + '/copy.node');
      const other = require(folder + '/copy.node');
      rmSync(folder, { recursive: true });
      const status = Object.getOwnPropertyDescriptor(other.Trace.prototype, 'status').get;
      try { status.call(new Proxy(new addon.Trace({}), {})) } catch (error) { console.log(error.name) }
    `
    const { code: exit, signal, out } = await addonProcess(code)
    assert.deepEqual({ exit, signal, out: out.trim() }, { exit: 0, signal: null, out: 'TypeError' })
  })

  it('a simulator of a trace that was refused', () => {
    const { columns, cluster } = scenario(1)
    const bad = new native.Trace({ ...columns, promptTokens: columns.promptTokens.map(() => 0) })
    assert.notEqual(bad.status, 0)
    assert.throws(() => new native.Simulator(bad, cluster), { code: 'ERR_LAXITY_NATIVE' })
    assert.equal(simulator(scenario(1)).run(runOptions(), {}).status, 0)
  })
})
