import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { GPUS } from '../../lib/cluster/gpus.ts'
import { simulate } from '../../lib/simulator/simulate.ts'
import { random } from '../support/runs.ts'

const bench = (name: string) => fileURLToPath(new URL(`../../bench/proxy/${name}`, import.meta.url))

interface Run {
  latencyMs: number[]
  calls: number
  served: number[]
}

/** The parts of `npm run proxy`, from the built package: `npm test` builds it. */
describe('the proxy benchmark', function () {
  this.timeout(120_000)

  it('has engines that keep the simulator’s times', async () => {
    const { Batch } = await import(bench('batch.js'))
    const { latency, maxSequences, kvTokens } = GPUS.a6000!
    const calls = 300
    const next = random(5)
    const words = (length: number) => new Uint32Array(new SharedArrayBuffer(4 * length))
    const arrivalMs = new Float64Array(new SharedArrayBuffer(8 * calls))
    const promptTokens = words(calls)
    const outputTokens = words(calls)
    for (let c = 0; c < calls; c += 1) {
      arrivalMs[c] = (c === 0 ? 0 : arrivalMs[c - 1]!) + next() * 1000
      promptTokens[c] = 1 + Math.floor(next() * 6000)
      outputTokens[c] = 1 + Math.floor(next() * 200)
    }
    const columns = {
      firstCall: words(calls + 1).map((_, c) => c),
      arrivalMs,
      stage: new Uint16Array(new SharedArrayBuffer(2 * calls)),
      promptTokens,
      outputTokens,
      parentOffset: words(calls + 1),
      parents: words(0),
    }
    const names = { stages: ['s'], models: ['default'], tenants: ['default'] }
    const { perCall } = await simulate({
      trace: { source: 'random', workflows: calls, calls, columns, ...names },
      cluster: { instances: [{ gpu: 'a6000' }] },
      policy: { order: 'fcfs', placement: 'round-robin' },
      feedback: 'lease',
      lookahead: 1000,
      arrivals: 'trace',
      perCall: true,
    })

    // The same calls in virtual time.
    let now = 0
    const due: { ms: number; sequence: number; go(): void }[] = []
    let sequence = 0
    const at = (ms: number, go: () => void) => due.push({ ms, sequence: sequence++, go })
    const batch = new Batch(
      { latency, kvTokens, maxSequences },
      () => now,
      (go: () => void, ms: number) => at(now + Math.max(0, ms), go),
    )
    const finishedMs = new Float64Array(calls)
    for (let c = 0; c < calls; c += 1) {
      at(arrivalMs[c]!, () => {
        batch.add(promptTokens[c]!, outputTokens[c]!, (_: number, ms: number) => {
          finishedMs[c] = ms
        })
      })
    }
    while (due.length > 0) {
      due.sort((a, b) => b.ms - a.ms || b.sequence - a.sequence)
      const { ms, go } = due.pop()!
      now = Math.max(now, ms)
      go()
    }
    for (const [call, ms] of finishedMs.entries())
      assert.ok(
        Math.abs(ms - perCall!.finishedMs[call]!) < 0.01,
        `call ${call}: ${ms}, ${perCall!.finishedMs[call]}`,
      )
  })

  it('has engines that keep their KV capacity', async () => {
    const options = {
      latency: { prefillPerTokenMs: 0.1, decodeBaseMs: 10 },
      kvTokens: 300,
      maxSequences: 8,
      compression: 10,
      streamInterval: 8,
    }
    const engine: ChildProcess = spawn(process.execPath, [bench('engine.js'), JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    try {
      const port = await new Promise<string>((resolve) =>
        engine.stdout!.once('data', (data) => resolve(String(data).trim())),
      )
      const url = `http://127.0.0.1:${port}`
      const ask = async (bytes: number, tokens: number) => {
        const content = `${tokens} tokens `.padEnd(bytes, 'x')
        const body = JSON.stringify({ stream: true, messages: [{ role: 'user', content }] })
        const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body })
        return { status: response.status, text: await response.text() }
      }
      // 3 × 90 fit with their prompts, not with what they generate: the last is evicted, and all of them end.
      const answers = await Promise.all([1, 2, 3].map(() => ask(320, 60)))
      for (const { text } of answers) {
        assert.equal(text.match(/word /g)!.length, 60)
        assert.match(text, /"completion_tokens":60/)
      }
      assert.equal((await ask(400, 250)).status, 400)
      const state = (await (await fetch(`${url}/state`)).json()) as Record<string, number>
      assert.ok(state.kvPeak! <= 300 && state.evicted! >= 1, JSON.stringify(state))
      assert.deepEqual([state.kv, state.running, state.waiting, state.served], [0, 0, 0, 3])
    } finally {
      engine.kill('SIGKILL')
    }
  })

  it('runs, keeps its runs and writes its page', () => {
    const folder = mkdtempSync(join(tmpdir(), 'laxity-proxy-'))
    try {
      const [runs, out] = [join(folder, 'runs.json'), join(folder, 'proxy.md')]
      const small = ['--workflows', '6', '--seeds', '1', '--compression', '40']
      const proxy = () => {
        const done = spawnSync(process.execPath, [bench('main.js'), ...small, '--runs', runs, '--out', out], {
          encoding: 'utf8',
        })
        assert.equal(done.status, 0, done.stderr)
        return done.stderr
      }
      assert.match(proxy(), /laxity, seed 1/)
      const kept = Object.values(JSON.parse(readFileSync(runs, 'utf8'))) as Run[]
      assert.equal(kept.length, 3)
      for (const { latencyMs, calls, served } of kept) {
        assert.ok(latencyMs.length === 6 && latencyMs.every((ms) => ms > 1000), `${latencyMs}`)
        assert.equal(calls, kept[0]!.calls)
        assert.equal(
          served.reduce((sum, n) => sum + n),
          calls,
        )
      }
      const page = readFileSync(out, 'utf8')
      for (const name of ['laxity', 'round-robin', 'least-connections'])
        assert.match(page, new RegExp(`\`${name}\``))
      assert.doesNotMatch(page, /NaN|undefined|\?/)
      assert.equal(proxy(), '')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
