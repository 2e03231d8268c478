import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { laxity, start } from './shared.ts'

interface Tune {
  command: string
  objective: string
  knowledge: string
  trace: { workflows: number; calls: number }
  cluster: string
  points: { alpha: number; p95Ms: number; ci95Ms: [number, number] | null; attainment: [number, number][] }[]
  best: { alpha: number; indistinguishable: number[] }
  timing: Record<string, number>
}

describe('the command line', () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-cli-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  it('has help with examples for every command', async () => {
    const commands = ['tune', 'simulate', 'convert', 'replay', 'demo', 'estimate', 'calibrate']
    const outcomes = await Promise.all(commands.map((command) => laxity(command, '--help')))
    for (const [i, { status, stdout, stderr }] of outcomes.entries()) {
      assert.equal(status, 0)
      assert.equal(stderr, '')
      assert.match(
        stdout,
        new RegExp(`Usage: laxity ${commands[i]}.*Examples:\\n  \\$ laxity ${commands[i]}`, 's'),
      )
    }
    const bare = await laxity()
    assert.equal(bare.status, 0)
    for (const command of commands) assert.match(bare.stdout, new RegExp(`^  ${command} `, 'm'))
  })

  it('tune --json prints one document of the documented shape, the same for any number of workers', async () => {
    const args = ['tune', 'chess:3:12', '--alpha', '0:1:0.5', '--replications', '3', '--json']
    const documents = []
    for (const workers of ['0', '2']) {
      const { status, stdout, stderr } = await laxity(...args, '--workers', workers)
      assert.deepEqual([status, stderr], [0, ''])
      documents.push(JSON.parse(stdout) as Tune)
    }
    const [document, pooled] = documents as [Tune, Tune]
    assert.deepEqual(Object.keys(document), [
      'command',
      'objective',
      'knowledge',
      'trace',
      'cluster',
      'points',
      'best',
      'timing',
    ])
    assert.deepEqual(
      [document.command, document.objective, document.knowledge, document.cluster],
      ['tune', 'p95', 'template', 'hexgen-hetero-2'],
    )
    assert.deepEqual(Object.keys(document.trace), ['workflows', 'calls'])
    assert.equal(document.trace.workflows, 12)
    assert.deepEqual(
      document.points.map(({ alpha }) => alpha),
      [0, 0.5, 1],
    )
    for (const point of document.points) {
      assert.deepEqual(Object.keys(point), [
        'alpha',
        'p95Ms',
        'p99Ms',
        'meanMs',
        'sloScale95',
        'throughputPerS',
        'ci95Ms',
        'attainment',
      ])
      const [low, high] = point.ci95Ms!
      assert(low <= point.p95Ms && point.p95Ms <= high)
      const shares = point.attainment.map(([, share]) => share)
      assert.deepEqual(shares, shares.toSorted((a, b) => a - b)) // biome-ignore format: one line
    }
    assert.deepEqual(Object.keys(document.best), ['alpha', 'indistinguishable'])
    assert.deepEqual(Object.keys(document.timing), ['sweepMs', 'simulatedCalls', 'workers', 'perRunMs'])
    assert.equal(document.timing.simulatedCalls, 9 * document.trace.calls)
    assert.deepEqual([document.timing.workers, pooled.timing.workers], [0, 2])
    assert.deepEqual({ ...pooled, timing: 0 }, { ...document, timing: 0 })
  })

  it('tune prints a table, the curve and the best alpha', async () => {
    const { status, stdout, stderr } = await laxity(
      'tune',
      'chess:1:10',
      '--replications',
      '2',
      '--workers',
      '0',
    )
    assert.deepEqual([status, stderr], [0, ''])
    assert.match(stdout, /alpha +P95/)
    assert.match(stdout, /●/)
    assert.match(stdout, /Best alpha: (0|1|0\.\d) \(/)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: no escape sequence may reach a pipe
    assert.doesNotMatch(stdout, /\u001b/)
  })

  it('simulate --json holds rows and the stage mix when asked', async () => {
    const { status, stdout } = await laxity(
      'simulate',
      'chess:1:5',
      '--policy',
      'vllm',
      '--json',
      '--per-workflow',
      '--mix',
    )
    assert.equal(status, 0)
    const document = JSON.parse(stdout) as {
      command: string
      policy: object
      metrics: { p95Ms: number }
      perWorkflow: { id: string; latencyMs: number }[]
      mix: { instances: { shares: number[]; calls: number }[] }
    }
    assert.equal(document.command, 'simulate')
    assert.deepEqual(document.policy, { order: 'fcfs', placement: 'round-robin', binding: 'at-reveal' })
    assert.equal(document.perWorkflow.length, 5)
    assert.equal(document.metrics.p95Ms, Math.max(...document.perWorkflow.map(({ latencyMs }) => latencyMs)))
    for (const { shares } of document.mix.instances) {
      assert(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100) < 1e-9)
    }
  })

  it('simulate writes a log that replay confirms', async () => {
    const log = join(folder, 'run.log')
    const simulated = await laxity('simulate', 'chess:1:5', '--log', log, '--json')
    assert.equal(simulated.status, 0, simulated.stderr)
    const replayed = await laxity('replay', log, '--json')
    assert.equal(replayed.status, 0, replayed.stderr)
    const { decisions, matched } = JSON.parse(replayed.stdout) as { decisions: number; matched: number }
    assert(decisions > 0)
    assert.equal(matched, decisions)
    writeFileSync(log, readFileSync(log).subarray(0, -30))
    const damaged = await laxity('replay', log)
    assert.deepEqual([damaged.status, damaged.stdout], [2, ''])
    assert.match(damaged.stderr, /^laxity: [^\n]+ \[ERR_LAXITY_[A-Z]+\]\n$/)
  })

  it('convert writes JSONL that reads back, to a file or a pipe', async () => {
    const file = join(folder, 'chess.jsonl')
    const written = await laxity('convert', 'chess:2:4', file)
    assert.deepEqual([written.status, written.stderr], [0, ''])
    const piped = await laxity('convert', file, '-')
    assert.equal(piped.stdout, readFileSync(file, 'utf8'))
    const again = await start(['convert', '-', '-'], piped.stdout).outcome
    assert.equal(again.stdout, piped.stdout)
  })

  it('is quiet when its reader stops reading', async () => {
    const { child, outcome } = start(['convert', 'chess:3:3000', '-'])
    child.stdout!.once('data', () => child.stdout!.destroy())
    const { status, stderr } = await outcome
    assert.equal(stderr, '')
    assert.equal(status, 0)
  })

  it('Ctrl-C stops workers at once and exits 130', async () => {
    const { child, outcome } = start(['tune', 'chess:3:20000', '--replications', '200', '--workers', '2'])
    await new Promise((resolve) => setTimeout(resolve, 8000))
    const pressed = performance.now()
    child.kill('SIGINT')
    const { status, stdout } = await outcome
    assert.deepEqual([status, stdout], [130, ''])
    assert(performance.now() - pressed < 2000)
  })
})
