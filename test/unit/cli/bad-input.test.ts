import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { laxity } from './shared.ts'

const HEADER = '{"laxity":"trace","version":1}\n'
const CALL = { id: 'a', stage: 's', promptTokens: 10, outputTokens: 2 }

function workflow(...calls: object[]): string {
  return `${HEADER}${JSON.stringify({ id: 'w', calls })}\n`
}

/** Each gives one line with a code and the place, status 2, and nothing on standard output or disk. */
describe('bad input on the command line', () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-cli-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  async function refused(args: string[], code: string, message: RegExp): Promise<void> {
    const { status, stdout, stderr } = await laxity(...args)
    assert.equal(stdout, '')
    assert.match(stderr, /^laxity: [^\n]+ \[ERR_LAXITY_[A-Z0-9_]+\]\n$/)
    assert(stderr.endsWith(`[${code}]\n`), stderr)
    assert.match(stderr, message)
    assert(!stderr.includes('    at '), 'a stack trace')
    assert.equal(status, 2)
  }

  const traces: [name: string, content: string | Uint8Array, code: string, message: RegExp][] = [
    ['truncated', workflow(CALL).slice(0, -20), 'ERR_LAXITY_SYNTAX', /truncated:2/],
    ['bad gzip', gzipSync(workflow(CALL)).subarray(0, 40), 'ERR_LAXITY_GZIP', /bad gzip/],
    ['not UTF-8', Buffer.from([...Buffer.from(HEADER), 0x7b, 0xff, 0x0a]), 'ERR_LAXITY_UTF8', /not UTF-8/],
    ['unknown field', workflow({ ...CALL, prompts: 1 }), 'ERR_LAXITY_FIELD', /:2: calls\[0\]\.prompts/],
    ['negative', workflow({ ...CALL, promptTokens: -1 }), 'ERR_LAXITY_FIELD', /calls\[0\]\.promptTokens.*-1/],
    ['NaN', workflow(CALL).replace('10', 'NaN'), 'ERR_LAXITY_FIELD', /promptTokens.*NaN/],
    ['huge', workflow({ ...CALL, outputTokens: 1e300 }), 'ERR_LAXITY_FIELD', /outputTokens.*1e\+300/],
    ['fractional', workflow({ ...CALL, outputTokens: 1.5 }), 'ERR_LAXITY_FIELD', /outputTokens.*1\.5/],
    [
      'cycle',
      workflow({ ...CALL, parents: ['b'] }, { ...CALL, id: 'b', parents: ['a'] }),
      'ERR_LAXITY_CYCLE',
      /:2/,
    ],
    ['unknown parent', workflow({ ...CALL, parents: ['x'] }), 'ERR_LAXITY_PARENT', /"x"/],
    ['duplicate', workflow(CALL, CALL), 'ERR_LAXITY_DUPLICATE', /"a"/],
    ['empty', '', 'ERR_LAXITY_EMPTY', /empty/],
    ['no workflows', HEADER, 'ERR_LAXITY_EMPTY', /no workflows/],
    [
      'a bad row of Azure',
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-03-01 12:00:03,-5,1\n',
      'ERR_LAXITY_FIELD',
      /:2: ContextTokens: .*"-5"/,
    ],
    [
      'a bad request of Mooncake',
      '{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[-1]}\n',
      'ERR_LAXITY_FIELD',
      /:1: hash_ids\[0\]: .*-1/,
    ],
  ]
  for (const [name, content, code, message] of traces) {
    it(`a trace: ${name}`, async () => {
      const path = join(folder, name)
      const output = join(folder, 'out.jsonl')
      writeFileSync(path, content)
      await refused(['convert', path, output], code, message)
      assert(!existsSync(output))
      assert(readdirSync(folder).every((file) => !file.endsWith('.tmp')))
    })
  }

  it('a trace: unreadable', () => refused(['tune', join(folder, 'absent')], 'ERR_LAXITY_FILE', /absent/))

  it('a call larger than every KV cache', async () => {
    const path = join(folder, 'large')
    writeFileSync(path, workflow({ ...CALL, id: 'big', promptTokens: 99_000_000 }))
    await refused(['tune', path], 'ERR_LAXITY_NEVER_FITS', /Call big of workflow w never fits/)
  })

  const cluster = (content: object) => {
    const path = join(folder, 'cluster.json')
    writeFileSync(path, JSON.stringify(content))
    return path
  }

  it('no instances', () =>
    refused(
      ['tune', 'chess:1:2', '--cluster', cluster({ instances: [] })],
      'ERR_LAXITY_EMPTY',
      /instances: No inst/,
    ))

  it('an unknown GPU, with other problems of the file', () =>
    refused(
      [
        'tune',
        'chess:1:2',
        '--cluster',
        cluster({ instances: [{ gpu: 'a60000' }, { gpu: 'l40s', count: 0 }] }),
      ],
      'ERR_LAXITY_FIELD',
      /2 problems: .*instances\[1\]\.count.*instances\[0\]\.gpu: Unknown GPU "a60000"; did you mean "A6000"\?/,
    ))

  it('prefix tiers without a first one, and of no size', () =>
    refused(
      [
        'simulate',
        'chess:1:2',
        '--cluster',
        cluster({
          instances: [
            { gpu: 'a100', prefixCacheTiers: [{ tokens: 5, msPerToken: 1 }] },
            { gpu: 'a100', prefixCacheTokens: 9, prefixCacheTiers: [{ tokens: 0, msPerToken: -1, ms: 3 }] },
            { gpu: 'a100', prefixCacheTokens: 1e11 },
          ],
        }),
      ],
      'ERR_LAXITY_FIELD',
      /5 problems: .*\[1\]\.prefixCacheTiers\[0\]\.tokens.*\.msPerToken.*Unknown field `ms`.*\[2\]\.prefixCacheTokens.*\[0\]\.prefixCacheTiers: Slower tiers need/,
    ))

  const options: [args: string[], message: RegExp][] = [
    [['tune', 'chess:1:2', '--alpha', '0:1.5:0.5'], /`--alpha`, got 1\.5/],
    [['simulate', 'chess:1:2', '--alpha', '-0.1'], /from 0 to 1 for `--alpha`, got -0\.1/],
    [['tune', 'chess:1:2', '--rate', '0'], /`--rate`, got 0 \(number\)/],
    [['simulate', 'chess:1:2', '--rate', 'fast'], /`--rate`, got "fast" \(string\)/],
    [
      ['tune', 'chess:1:2', '--order', 'urgenci', '--rate', '-1'],
      /2 problems: .*did you mean "urgency".*`--rate`/,
    ],
    [['tune', 'chess:1:2', '--arrivals', 'trace'], /needs a trace that records arrivals/],
    [['simulate', 'chess:1:2', '--chunk-tokens', '5'], /`--chunk-tokens` needs engine mode "chunked"/],
    [['simulate', 'chess:1:2', '--decode-share', '2'], /from 0\.001 to 0\.999 for `--decode-share`, got 2/],
    [['tune', 'chess:4'], /`trace`, got "chess:4"/],
    [['tune', 'chess:1:2', '--objective', 'p50'], /objective.*p95/],
    [['tune', 'chess:1:2', '--arrivals', 'fixed', '--replications', '3'], /Expected 1 for `--replications`/],
    [['tune'], /missing required argument 'trace'/],
    [['tune', 'chess:1:2', '--rat', '1'], /unknown option '--rat' \(Did you mean --rate\?\)/],
    [['tun'], /unknown command 'tun' \(Did you mean tune\?\)/],
    [['simulate', 'chess:1:2', 'chess:3'], /too many arguments/],
    [['tune', 'mac-sql:x'], /`trace`, got "mac-sql:x"/],
    [['tune', 'mac-sql:0'], /`--workflows`|`workflows`, got 0/],
    [['tune', 'chess'], /`trace`, got "chess"/],
    [['tune', '--workload', 'miked'], /one of chess:1, .*agents, .* for `--workload`, got "miked"/],
    [['simulate', 'mixed', '--workload', 'mixed'], /`--workload` stands in place of the trace/],
    [['simulate', 'mixed:3', '--workflows', '4'], /`--workflows` is given twice: "mixed:3"/],
    [['simulate', 'mixed', '--workflows', 'many'], /`--workflows`, got "many" \(string\)/],
    [['simulate', 'lats', '--context', 'old'], /new or full for `--context`, got "old"/],
    [['simulate', 'examples/trace.jsonl', '--context', 'old'], /new or full for `--context`, got "old"/],
    [['simulate', 'chess:1:2', '--context', 'new'], /`--context` has no meaning for the workload "chess:1"/],
    [
      ['simulate', 'examples/trace.jsonl', '--workflows', '3'],
      /`--workflows` has no meaning for a trace file/,
    ],
    [['tune', 'chains', '--chain-calls', '0'], /1 to 1000 for `--chain-calls`, got 0/],
    [['tune', 'lats', '--chain-calls', '3'], /`--chain-calls` needs the workload "chains"/],
    [['convert', 'mixed:5', '-', '--format', 'bfcl'], /`--format` has no meaning for a generated trace/],
    [['tune', 'chess:1:2', '--search', 'gold'], /Unknown search "gold"/],
    [['tune', 'chess:1:2', '--cv', '2'], /`--cv` needs arrivals "gamma"/],
    [['tune', 'chess:1:2', '--arrivals', 'gamma', '--cv', 'much'], /`--cv`, got "much" \(string\)/],
    [['simulate', 'chess:1:2', '--arrivals', 'bursts', '--burst-size', '0'], /`--burst-size`, got 0/],
    [['simulate', 'chess:1:2', '--arrivals', 'bursts', '--burst-gap-ms', '-1'], /`--burst-gap-ms`, got -1/],
    [['simulate', 'chess:1:2', '--rate-step', '1:2'], /`--rate-step`, got "1:2"/],
    [['simulate', 'chess:1:2', '--tenants', 'a=2,b=x'], /name=scale@share.*`--tenants`, got "a=2,b=x"/],
    [['simulate', 'chess:1:2', '--tenant-split', 'blocks'], /`--tenant-split` needs/],
    [['simulate', 'chess:1:2', '--tenants', 'a,b,c'], /would get none of 2 workflows/],
    [['convert', 'absent', '-', '--format', 'csv'], /`--format`, got "csv"/],
    [['convert', 'chess:1:2', '-', '--format', 'azure'], /`--format` has no meaning for a generated trace/],
    [['simulate', 'chess:1:2', '--prefix-cache', '-1'], /from 0 to 10000000000 for `--prefix-cache`, got -1/],
    [['tune', 'chess:1:2', '--prefix-cache', '1.5'], /`--prefix-cache`, got 1\.5 \(number\)/],
    [['simulate', 'chess:1:2', '--error', 'lenght=bias:1'], /"lenght" of `--error`; did you mean "length"\?/],
    [
      ['simulate', 'chess:1:2', '--error', 'length=normal:0.4'],
      /kind "normal" of length `--error` \(known: lognormal, /,
    ],
    [['tune', 'chess:1:2', '--error', 'length=uniform:2'], /0 to 0\.99 for `--error`, got "2".*uniform, X/],
    [['tune', 'chess:1:2', '--error', 'time=0.2'], /Expected gpu:SIGMA for `time` of `--error`, got "0\.2"/],
    [['simulate', 'chess:1:2', '--error', 'batch=NaN'], /`--error`, got "NaN"/],
    [['simulate', 'chess:1:2', '--error', ''], /Expected parts like length=.* for `--error`, got ""/],
    [['simulate', 'chess:1:2', '--error', 'batch=2,batch=3'], /gives `batch` twice/],
  ]
  for (const [args, message] of options) {
    it(`options: ${args.join(' ')}`, () => refused(args, 'ERR_LAXITY_OPTION', message))
  }
})
