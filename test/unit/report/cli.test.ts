import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { laxity } from '../cli/shared.ts'

describe('reports on the command line', () => {
  let folder: string
  let run: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-report-'))
    run = join(folder, 'run.json')
    const { stdout, status } = await laxity('simulate', 'chess:3:6', '--json', '--per-call')
    assert.equal(status, 0)
    writeFileSync(run, stdout)
  })
  after(() => rmSync(folder, { recursive: true }))

  async function refused(args: string[], code: string, message: RegExp): Promise<void> {
    const before = readdirSync(folder)
    const { status, stdout, stderr } = await laxity(...args)
    assert.equal(stdout, '')
    assert.match(stderr, /^laxity: [^\n]+ \[ERR_LAXITY_[A-Z0-9_]+\]\n$/)
    assert(stderr.endsWith(`[${code}]\n`), stderr)
    assert.match(stderr, message)
    assert.equal(status, 2)
    assert.deepEqual(readdirSync(folder), before)
  }

  it('has help with examples', async () => {
    for (const command of ['report', 'trace-events']) {
      const { stdout, status } = await laxity(command, '--help')
      assert.equal(status, 0)
      assert.match(stdout, new RegExp(`Usage: laxity ${command}.*Examples:\\n  \\$ laxity ${command}`, 's'))
    }
  })

  it('turns result files into one page, by default beside the first', async () => {
    const tuned = join(folder, 'tune.json')
    const { stdout } = await laxity(
      'tune',
      'chess:3:6',
      '--alpha',
      '0:1:0.5',
      '--replications',
      '2',
      '--json',
    )
    writeFileSync(tuned, stdout)
    const written = await laxity('report', tuned, run)
    assert.deepEqual([written.status, written.stderr], [0, ''])
    const page = join(folder, 'tune.html')
    assert.equal(written.stdout, `Report: ${page}\n`)
    assert.match(readFileSync(page, 'utf8'), /P95 latency against the dispatch weight α.*Critical path/s)
    const named = join(folder, 'named.html')
    assert.equal((await laxity('report', run, '-o', named)).status, 0)
    assert.match(readFileSync(named, 'utf8'), /^<!doctype html>/)
  })

  it('writes a report with --report, beside the usual output', async () => {
    const page = join(folder, 'tune-report.html')
    const args = ['tune', 'chess:3:6', '--alpha', '0:1:0.5', '--replications', '2', '--report', page]
    const text = await laxity(...args)
    assert.equal(text.status, 0)
    assert.match(text.stdout, /Best alpha: .*\nReport: \/.*tune-report\.html\n$/s)
    const html = readFileSync(page, 'utf8')
    assert.match(html, /One run of the best α/)
    assert.match(html, /class="timeline"/)
    const json = await laxity(...args, '--json')
    assert.equal(JSON.parse(json.stdout).command, 'tune')
    const own = join(folder, 'simulate-report.html')
    const simulated = await laxity('simulate', 'chess:3:6', '--json', '--report', own)
    assert(!('perCall' in JSON.parse(simulated.stdout)))
    assert.match(readFileSync(own, 'utf8'), /class="timeline"/)
  })

  it('writes trace events that are JSON', async () => {
    const events = join(folder, 'events.json')
    const { status, stdout } = await laxity('trace-events', run, '-o', events)
    assert.equal(status, 0)
    const document = JSON.parse(readFileSync(run, 'utf8'))
    assert.match(stdout, new RegExp(`events\\.json: ${document.trace.calls} calls`))
    const { traceEvents } = JSON.parse(readFileSync(events, 'utf8')) as { traceEvents: { cat?: string }[] }
    assert.equal(traceEvents.filter(({ cat }) => cat === 'call').length, document.trace.calls)
  })

  it('refuses what it cannot read or write, and leaves nothing behind', async () => {
    const bad = join(folder, 'bad.json')
    writeFileSync(bad, '{"command":"tune",\n"points":[')
    const { perCall: _, ...bare } = JSON.parse(readFileSync(run, 'utf8'))
    const plain = join(folder, 'plain.json')
    writeFileSync(plain, JSON.stringify(bare))
    await refused(['report', bad], 'ERR_LAXITY_SYNTAX', /bad\.json:\d: Not valid JSON/)
    await refused(['report', join(folder, 'absent.json')], 'ERR_LAXITY_FILE', /absent\.json: Cannot be read/)
    await refused(['report'], 'ERR_LAXITY_OPTION', /missing required argument/)
    await refused(['report', run, '-o', ''], 'ERR_LAXITY_OPTION', /file name for `--output`/)
    await refused(
      ['report', run, '-o', join(folder, 'no', 'r.html')],
      'ERR_LAXITY_FILE',
      /Cannot be written: ENOENT/,
    )
    await refused(['trace-events', plain], 'ERR_LAXITY_FIELD', /plain\.json: Holds no calls/)
    await refused(['simulate', 'chess:3:3', '--per-call'], 'ERR_LAXITY_OPTION', /`--per-call`/)
    await refused(['tune', 'chess:3:3', '--report', ''], 'ERR_LAXITY_OPTION', /file name for `--report`/)
    const truncated = structuredClone(bare)
    truncated.perCall = JSON.parse(readFileSync(run, 'utf8')).perCall
    truncated.perCall.calls.waitNs.data = truncated.perCall.calls.waitNs.data.slice(0, 40)
    writeFileSync(plain, JSON.stringify(truncated))
    await refused(['report', plain], 'ERR_LAXITY_FIELD', /perCall\.calls\.waitNs/)
    assert(!existsSync(join(folder, 'plain.html')))
  })
})
