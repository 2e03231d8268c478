import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { native } from '../../../lib/native.ts'
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
    const commands = [
      'tune',
      'simulate',
      'compare',
      'bound',
      'convert',
      'replay',
      'report',
      'trace-events',
      'demo',
      'estimate',
      'calibrate',
    ]
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

  it('names every order and placement in the help of what runs them', async () => {
    for (const command of ['tune', 'simulate', 'compare']) {
      const { stdout } = await laxity(command, '--help')
      assert.ok(stdout.includes(`\nOrders: ${native.orders.join(', ')}\n`), stdout)
      assert.ok(stdout.includes(`\nPlacements: ${native.placements.join(', ')}\n`), stdout)
    }
  })

  it('simulates and tunes workloads of agents, and names what their prompts hold', async () => {
    interface Named {
      trace: { workflows: number; calls: number; context?: string }
    }
    const json = async (...args: string[]): Promise<Named['trace']> => {
      const { status, stdout, stderr } = await laxity(...args, '--json')
      assert.deepEqual([status, stderr], [0, ''])
      return (JSON.parse(stdout) as Named).trace
    }
    const [fresh, full, tuned, chess] = await Promise.all([
      json('simulate', 'bfcl:7'),
      json('simulate', '--workload', 'bfcl', '--workflows', '7', '--context', 'full'),
      json(
        'tune',
        'chains',
        '--workflows',
        '5',
        '--chain-calls',
        '3',
        '--alpha',
        '0,1',
        '--replications',
        '1',
      ),
      json('simulate', 'chess:1:2'),
    ])
    assert.deepEqual(fresh, { workflows: 7, calls: full!.calls, context: 'new' })
    assert.deepEqual(full, { ...fresh, context: 'full' })
    assert.deepEqual(tuned, { workflows: 5, calls: 15, context: 'new' })
    assert.deepEqual([chess!.workflows, chess!.context], [2, undefined])
    const text = await laxity('simulate', 'chains:5', '--context', 'full')
    assert.match(text.stdout, /^chains, full context: 5 workflows, 40 calls, on /)
  })

  it('takes the history out of a file’s prompts', async () => {
    const full = join(folder, 'full.jsonl')
    const fresh = join(folder, 'fresh.jsonl')
    for (const args of [
      ['convert', 'bfcl:9', full, '--context', 'full'],
      ['convert', full, fresh, '--context', 'new'],
    ]) {
      assert.equal((await laxity(...args)).status, 0)
    }
    const { stdout } = await laxity('convert', 'bfcl:9', '-')
    assert.equal(readFileSync(fresh, 'utf8'), stdout)
    const back = await laxity('convert', fresh, '-', '--context', 'full')
    assert.match(back.stderr, /`--context` "full" needs a trace with the history.*ERR_LAXITY_OPTION/)
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
      'setup',
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
    assert.deepEqual(document.policy, {
      order: 'fcfs',
      placement: 'round-robin',
      binding: 'at-reveal',
      migrate: false,
    })
    assert.equal(document.perWorkflow.length, 5)
    assert.equal(document.metrics.p95Ms, Math.max(...document.perWorkflow.map(({ latencyMs }) => latencyMs)))
    for (const { shares } of document.mix.instances) {
      assert(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100) < 1e-9)
    }
  })

  it('tune --search halving names what it eliminated, the same for any number of workers', async () => {
    const args = ['tune', 'mac-sql:40', '--rate', '5', '--search', 'halving', '--replications', '4', '--json']
    const [inline, pooled] = await Promise.all(
      ['0', '2'].map(async (workers) => {
        const { status, stdout, stderr } = await laxity(...args, '--arrivals', 'gamma', '--workers', workers)
        assert.deepEqual([status, stderr], [0, ''])
        return JSON.parse(stdout) as Tune & { eliminated: { alpha: number; round: number }[]; runs: number }
      }),
    )
    assert.deepEqual({ ...pooled, timing: 0 }, { ...inline, timing: 0 })
    const { points, eliminated, runs, trace, timing } = inline!
    assert(eliminated.length > 0 && eliminated.every(({ round }) => round === 1 || round === 2))
    assert.equal(points.length + eliminated.length, 11)
    assert.equal(timing.simulatedCalls, runs * trace.calls)
    const table = await laxity('tune', 'chess:3:20', '--search', 'halving', '--workers', '0')
    assert.match(table.stdout, /Eliminated in round 1, after 1 replication: 0\./)
    assert.match(table.stdout, /\d+ runs \(the grid: 176\) of/)
  })

  it('simulate shows what each tenant got', async () => {
    const args = ['simulate', 'chess:3:20', '--rate', '1', '--tenants', 'relaxed=2,strict=1']
    const { stdout } = await laxity(...args, '--json', '--per-workflow')
    const document = JSON.parse(stdout) as {
      tenants: { name: string; sloScale: number; workflows: number; attainment: number }[]
      fairness: { attainment: number; normalisedLatency: number }
      perWorkflow: { tenant: string; scale: number }[]
    }
    assert.deepEqual(
      document.tenants.map(({ name, sloScale, workflows }) => [name, sloScale, workflows]),
      [
        ['relaxed', 2, 10],
        ['strict', 1, 10],
      ],
    )
    for (const { name, sloScale, attainment } of document.tenants) {
      const own = document.perWorkflow.filter(({ tenant }) => tenant === name)
      assert.equal(attainment, own.filter(({ scale }) => scale <= sloScale).length / 10)
    }
    assert(document.fairness.normalisedLatency > 0.5 && document.fairness.normalisedLatency <= 1)
    const text = await laxity(...args, '--arrivals', 'bursts', '--rate-step', '0:1000:2')
    assert.match(
      text.stdout,
      /bursts arrivals \(mean size 20, gap 60 ms, rate × 2 from 0 ms for 1000 ms\) at 1\/s/,
    )
    assert.match(text.stdout, /^ relaxed +2\.00 +10 of 10/m)
    assert.match(text.stdout, /Jain index over tenants: attainment/)
  })

  it('convert reads the formats of others, and gives JSONL that means the same', async () => {
    const csv = join(folder, 'azure.csv')
    const rows = ['2024-03-01 12:00:03.5,48,10', '2024-03-01 12:00:04,31,8']
    writeFileSync(csv, ['TIMESTAMP,ContextTokens,GeneratedTokens', ...rows].join('\r\n'))
    const azure = await laxity('convert', csv, '-')
    assert.deepEqual([azure.status, azure.stderr], [0, ''])
    assert.equal(
      azure.stdout,
      [
        '{"laxity":"trace","version":1}',
        '{"id":"w0","arrivedAtMs":0,"calls":[{"id":"c0","stage":"request","promptTokens":48,"outputTokens":10}]}',
        '{"id":"w1","arrivedAtMs":500,"calls":[{"id":"c0","stage":"request","promptTokens":31,"outputTokens":8}]}',
        '',
      ].join('\n'),
    )
    const requests = [
      '{"timestamp":0,"input_length":1100,"output_length":3,"hash_ids":[0,1,2]}',
      '{"timestamp":20,"input_length":1600,"output_length":4,"hash_ids":[0,1,3,4]}',
    ].join('\n')
    const chain = await start(['convert', '-', '-', '--format', 'mooncake-chains'], requests).outcome
    assert.equal(
      chain.stdout.split('\n')[1],
      '{"id":"w0","arrivedAtMs":0,"calls":[{"id":"c0","stage":"request","promptTokens":1100,"outputTokens":3},{"id":"c1","stage":"request","parents":["c0"],"toolGapMs":20,"promptTokens":1600,"cachedTokens":1024,"outputTokens":4}]}',
    )
    const single = await start(['simulate', '-', '--json'], requests).outcome
    assert.deepEqual([single.status, JSON.parse(single.stdout).counts.workflows], [0, 2])
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
