import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import type { ErrorCode } from '../../../lib/errors.ts'
import { readTrace, TRACE_FORMATS } from '../../../lib/traces/read.ts'
import { assertFails, call, readText, workflow } from './shared.ts'

type Case = [title: string, content: string | Buffer, code: ErrorCode, place: string, message: RegExp]

const good = workflow('good')
const withCall = (fields: Record<string, unknown>) => good + workflow('w', [call('a'), call('b', fields)])
const raw = (field: string) =>
  `${good}{"id":"w","calls":[{"id":"a","stage":"s","promptTokens":5,"outputTokens":1,${field}}]}`
const token = (field: string, value: unknown, message: RegExp): Case => [
  `${field} ${value}`,
  withCall({ [field]: value }),
  'ERR_LAXITY_FIELD',
  `t:2: calls[1].${field}`,
  message,
]

const jsonl: Case[] = [
  ['an empty file', '', 'ERR_LAXITY_EMPTY', 't', /empty/],
  ['a blank file', ' \n\n', 'ERR_LAXITY_EMPTY', 't', /empty/],
  ['a header alone', '{"laxity":"trace","version":1}\n', 'ERR_LAXITY_EMPTY', 't', /no workflows/],
  ['another kind of file', '\n# Readme\n', 'ERR_LAXITY_SYNTAX', 't:2', /start with "\{" .*got "#"/],
  ['a truncated line', good + good.slice(0, 20), 'ERR_LAXITY_SYNTAX', 't:2', /Not valid JSON/],
  ['a stray character', `${good}{"id":x}`, 'ERR_LAXITY_SYNTAX', 't:2', /unexpected "x"/],
  ['JSON over several lines', '{\n"id":"w"}', 'ERR_LAXITY_SYNTAX', 't:1', /Not valid JSON/],
  ['a line that is no object', `${good}[1]`, 'ERR_LAXITY_SYNTAX', 't:2', /one JSON object per line/],
  [
    'bytes that are not UTF-8',
    Buffer.from(`${good}{"id":"\xe9"}\n`, 'latin1'),
    'ERR_LAXITY_UTF8',
    't:2',
    /UTF-8/,
  ],
  ['UTF-16', Buffer.from('\ufeff{}', 'utf16le'), 'ERR_LAXITY_UTF8', 't:1', /UTF-8/],
  ['a cut UTF-8 character', Buffer.from('{"id":"€').subarray(0, -1), 'ERR_LAXITY_UTF8', 't:1', /UTF-8/],
  ['an overlong line', `${good}{"${'x'.repeat(2 ** 24)}`, 'ERR_LAXITY_LIMIT', 't:2', /16 MiB/],

  ['a missing workflow id', '{"calls":[]}', 'ERR_LAXITY_FIELD', 't:1: id', /Missing field `id`/],
  ['an empty workflow id', workflow(''), 'ERR_LAXITY_FIELD', 't:1: id', /1 to 256 characters/],
  ['a long workflow id', workflow('x'.repeat(257)), 'ERR_LAXITY_FIELD', 't:1: id', /"x{60}…" \(string\)/],
  ['no calls', workflow('w', []), 'ERR_LAXITY_FIELD', 't:1: calls', /at least one call/],
  ['calls that are no list', '{"id":"w","calls":{}}', 'ERR_LAXITY_FIELD', 't:1: calls', /got an object/],
  [
    'a call that is no object',
    workflow('w', [7]),
    'ERR_LAXITY_FIELD',
    't:1: calls[0]',
    /an object .*got 7 \(number\)/,
  ],
  ['a call that is a list', workflow('w', [[]]), 'ERR_LAXITY_FIELD', 't:1: calls[0]', /got an array/],
  ['a workflow id used twice', good + workflow('x') + good, 'ERR_LAXITY_DUPLICATE', 't:3: id', /"good"/],
  ['a default id used twice', workflow('w0') + workflow('w0'), 'ERR_LAXITY_DUPLICATE', 't:2: id', /"w0"/],
  [
    'a call id used twice',
    workflow('w', [call('a'), call('b'), call('a')]),
    'ERR_LAXITY_DUPLICATE',
    't:1: calls[2].id',
    /"a" was used before, by calls\[0\]/,
  ],
  [
    'a negative arrival',
    workflow('w', [call('a')], { arrivedAtMs: -1 }),
    'ERR_LAXITY_FIELD',
    't:1: arrivedAtMs',
    /-1/,
  ],
  [
    'a huge arrival',
    workflow('w', [call('a')], { arrivedAtMs: 1e13 }),
    'ERR_LAXITY_FIELD',
    't:1: arrivedAtMs',
    /1000/,
  ],
  ['an SLO of zero', workflow('w', [call('a')], { sloMs: 0 }), 'ERR_LAXITY_FIELD', 't:1: sloMs', /above 0/],
  [
    'a tenant that is no text',
    workflow('w', [call('a')], { tenant: 3 }),
    'ERR_LAXITY_FIELD',
    't:1: tenant',
    /3 \(num/,
  ],
  [
    'an arrival missing later',
    workflow('a', [call('a')], { arrivedAtMs: 1 }) + good,
    'ERR_LAXITY_FIELD',
    't:2: arrivedAtMs',
    /so all must/,
  ],
  [
    'an arrival missing earlier',
    good + workflow('a', [call('a')], { arrivedAtMs: 1 }),
    'ERR_LAXITY_FIELD',
    't:2: arrivedAtMs',
    /so none may/,
  ],

  token(
    'promptTokens',
    -1,
    /Expected a whole number from 1 to 100000000 for `promptTokens`, got -1 \(number\)/,
  ),
  token('promptTokens', 0, /got 0/),
  token('promptTokens', 1.5, /got 1.5/),
  token('promptTokens', 100_000_001, /got 100000001/),
  token('promptTokens', 1e300, /got 1e\+300/),
  token('promptTokens', '5', /got "5" \(string\)/),
  token('outputTokens', null, /got null/),
  token('outputTokens', 2 ** 32 + 1, /got 4294967297/),
  token('cachedTokens', 10, /Expected less than promptTokens \(10\)/),
  token('cachedTokens', -3, /from 0 to/),
  token('predictedTokens', 0.25, /got 0.25/),
  token('toolGapMs', -0.5, /got -0.5/),
  token('toolGapMs', 1e10, /1000000000 ms/),
  token('model', '', /1 to 256/),
  token('stage', 4, /got 4/),
  token('parents', 'a', /a list of call ids/),
  ['NaN', raw('"cachedTokens": NaN'), 'ERR_LAXITY_FIELD', 't:2: calls[0].cachedTokens', /got NaN \(number\)/],
  ['Infinity', raw('"toolGapMs":-Infinity'), 'ERR_LAXITY_FIELD', 't:2: calls[0].toolGapMs', /got -Infinity/],
  [
    'an overflowing number',
    raw('"toolGapMs":1e999'),
    'ERR_LAXITY_FIELD',
    't:2: calls[0].toolGapMs',
    /got Infinity/,
  ],
  [
    'NaN in a repeated field',
    raw('"toolGapMs":NaN,"toolGapMs":1'),
    'ERR_LAXITY_SYNTAX',
    't:2',
    /Not valid JSON/,
  ],
  ['an unknown field', withCall({ foo: 1 }), 'ERR_LAXITY_FIELD', 't:2: calls[1].foo', /Unknown field "foo"$/],
  [
    'a near-match of a field',
    '{"id":"w","calls":[{"id":"a","stage":"s","prompt_tokens":1,"outputTokens":1}]}',
    'ERR_LAXITY_FIELD',
    't:1: calls[0].prompt_tokens',
    /did you mean "promptTokens"\?/,
  ],
  [
    'an unknown workflow field',
    workflow('w', [call('a')], { slo: 1 }),
    'ERR_LAXITY_FIELD',
    't:1: slo',
    /"sloMs"/,
  ],
  [
    'a strange field name',
    withCall({ 'a\u001bb': 1 }),
    'ERR_LAXITY_FIELD',
    't:2: calls[1]["a\\u001bb"]',
    /Unknown/,
  ],
  ['__proto__', raw('"__proto__":{"model":"m"}'), 'ERR_LAXITY_FIELD', 't:2: calls[0].__proto__', /Unknown/],
  [
    'an unknown parent',
    workflow('w', [call('plan'), call('b', { parents: ['plan', 'plam'] })]),
    'ERR_LAXITY_PARENT',
    't:1: calls[1].parents[1]',
    /Unknown parent "plam".*did you mean "plan"\?/,
  ],
  [
    'a parent that is no text',
    withCall({ parents: [0] }),
    'ERR_LAXITY_FIELD',
    't:2: calls[1].parents[0]',
    /got 0/,
  ],
  [
    'a parent named twice',
    withCall({ parents: ['a', 'a'] }),
    'ERR_LAXITY_DUPLICATE',
    't:2: calls[1].parents[1]',
    /"a"/,
  ],
  [
    'one of many parents named twice',
    workflow('w', [
      ...Array.from({ length: 12 }, (_, i) => call(`p${i}`)),
      call('x', { parents: [...Array.from({ length: 12 }, (_, i) => `p${i}`), 'p3'] }),
    ]),
    'ERR_LAXITY_DUPLICATE',
    't:1: calls[12].parents[12]',
    /"p3" is named twice/,
  ],
  [
    'a call that is its own parent',
    withCall({ parents: ['b'] }),
    'ERR_LAXITY_CYCLE',
    't:2: calls[1].parents',
    /"b" waits/,
  ],
  [
    'cyclic parents',
    workflow('w', [
      call('r'),
      call('a', { parents: ['r', 'b'] }),
      call('b', { parents: ['c'] }),
      call('c', { parents: ['a'] }),
    ]),
    'ERR_LAXITY_CYCLE',
    't:1: calls[1].parents',
    /"a" waits for "b" waits for "c" waits for "a"/,
  ],
  [
    'a long cycle',
    workflow(
      'w',
      Array.from({ length: 50 }, (_, i) => call(`n${i}`, { parents: [`n${(i + 1) % 50}`] })),
    ),
    'ERR_LAXITY_CYCLE',
    't:1: calls[0].parents',
    /… \(50 calls\)/,
  ],
  [
    'too many calls',
    workflow(
      'w',
      Array.from({ length: 65_537 }, (_, i) => call(`c${i}`)),
    ),
    'ERR_LAXITY_LIMIT',
    't:1: calls',
    /65536 calls/,
  ],
  [
    'too many stages',
    Array.from({ length: 2 ** 16 }, (_, i) => workflow(`w${i}`, [call('c0', { stage: `s${i}` })])).join(''),
    'ERR_LAXITY_LIMIT',
    't:65536: calls[0].stage',
    /65535 different stages/,
  ],
  [
    'too many tenants',
    Array.from({ length: 2 ** 16 }, (_, i) => workflow(`w${i}`, [call('c0')], { tenant: `t${i}` })).join(''),
    'ERR_LAXITY_LIMIT',
    't:65536: tenant',
    /65535 different tenants/,
  ],

  ['another kind of header', '{"laxity":"log","version":1}', 'ERR_LAXITY_FIELD', 't:1: laxity', /"trace"/],
  ['a later version', '{"laxity":"trace","version":2}', 'ERR_LAXITY_FIELD', 't:1: version', /got 2/],
  [
    'a second header',
    `${good}{"laxity":"trace","version":1}`,
    'ERR_LAXITY_FIELD',
    't:2: laxity',
    /first line/,
  ],
  [
    'an unknown header field',
    '{"laxity":"trace","version":1,"stages":1}',
    'ERR_LAXITY_FIELD',
    't:1: stages',
    /Unknown/,
  ],
  [
    'an empty template',
    '{"laxity":"trace","version":1,"template":[]}',
    'ERR_LAXITY_FIELD',
    't:1: template',
    /at least one/,
  ],
  [
    'too many template entries',
    `{"laxity":"trace","version":1,"template":[${Array(65_537).fill('{}').join()}]}`,
    'ERR_LAXITY_LIMIT',
    't:1: template',
    /65536 entries/,
  ],
  [
    'a bad template entry',
    '{"laxity":"trace","version":1,"template":[{"stage":"s","promptTokens":1,"outputTokens":-1}]}',
    'ERR_LAXITY_FIELD',
    't:1: template[0].outputTokens',
    /-1/,
  ],
  [
    'an unknown template field',
    '{"laxity":"trace","version":1,"template":[{"stage":"s","promptTokens":1,"outputTokens":1,"x":1}]}',
    'ERR_LAXITY_FIELD',
    't:1: template[0].x',
    /Unknown/,
  ],
  [
    'a bad stage group',
    '{"laxity":"trace","version":1,"stageGroups":{"s":1}}',
    'ERR_LAXITY_FIELD',
    't:1: stageGroups.s',
    /got 1/,
  ],
]

const steps = (fields: string) =>
  `[\n{"Text2SQLRequest": [\n{"step": "evaluate",\n"input_length": 5,\n"output_length": 1},\n{${fields}}]}]`

const hexgen: Case[] = [
  ['an empty array', '[]', 'ERR_LAXITY_EMPTY', 't', /no workflows/],
  ['a truncated file', steps('"step":"a"').slice(0, 60), 'ERR_LAXITY_SYNTAX', 't:4', /truncated/],
  [
    'a truncated file of whole workflows',
    steps('').slice(0, -1),
    'ERR_LAXITY_FIELD',
    't:6: [0].Text2SQLRequest[1].step',
    /Missing/,
  ],
  ['text after the end', '[]\n x', 'ERR_LAXITY_SYNTAX', 't:2: [0]', /unexpected "x"/],
  ['a stray comma', '[,]', 'ERR_LAXITY_SYNTAX', 't:1: [0]', /unexpected ","/],
  ['deep nesting', '['.repeat(100_000), 'ERR_LAXITY_SYNTAX', 't:1', /deeply nested/],
  ['bytes that are not UTF-8', Buffer.from('[\n\n{"\xe9":1}]', 'latin1'), 'ERR_LAXITY_UTF8', 't:3', /UTF-8/],
  ['a cut UTF-8 character', Buffer.from('[{"€').subarray(0, -1), 'ERR_LAXITY_UTF8', 't:1', /UTF-8/],
  ['an overlong workflow', `[{"${'x'.repeat(2 ** 24)}"`, 'ERR_LAXITY_LIMIT', 't:1: [0]', /16 MiB/],
  [
    'too many steps',
    `[{"Text2SQLRequest":[${Array(65_537).fill('{"step":"a","input_length":1,"output_length":1}').join()}]}]`,
    'ERR_LAXITY_LIMIT',
    't:1: [0].Text2SQLRequest',
    /65536 steps/,
  ],
  ['an element that is no object', '[\n5]', 'ERR_LAXITY_FIELD', 't:2: [0]', /an object/],
  [
    'another list',
    '[\n{"Text2SqlRequests":[]}]',
    'ERR_LAXITY_FIELD',
    't:2: [0].Text2SqlRequests',
    /"Text2SQLRequest"/,
  ],
  [
    'an empty workflow',
    '[{"Text2SQLRequest":[]}]',
    'ERR_LAXITY_FIELD',
    't:1: [0].Text2SQLRequest',
    /at least one/,
  ],
  [
    'an unknown field',
    '[{"Text2SQLRequest":[{"step":"a","input_length":1,"output_length":1}],"x":1}]',
    'ERR_LAXITY_FIELD',
    't:1: [0].x',
    /Unknown/,
  ],
  [
    'a step that is no object',
    '[{"Text2SQLRequest":[1]}]',
    'ERR_LAXITY_FIELD',
    't:1: [0].Text2SQLRequest[0]',
    /an object/,
  ],
  [
    'a negative length, at its own line',
    steps('"step":"a",\n"input_length":\n-5,"output_length":1'),
    'ERR_LAXITY_FIELD',
    't:7: [0].Text2SQLRequest[1].input_length',
    /got -5/,
  ],
  [
    'a fractional length',
    steps('"step":"a","input_length":1,"output_length":1.5'),
    'ERR_LAXITY_FIELD',
    't:6: [0].Text2SQLRequest[1].output_length',
    /got 1.5/,
  ],
  [
    'a huge length',
    steps('"step":"a","input_length":100000001,"output_length":1'),
    'ERR_LAXITY_FIELD',
    't:6: [0].Text2SQLRequest[1].input_length',
    /got 100000001/,
  ],
  [
    'NaN',
    steps('"step":"a",\n"input_length": NaN,"output_length":1'),
    'ERR_LAXITY_FIELD',
    't:7: [0].Text2SQLRequest[1].input_length',
    /got NaN/,
  ],
  [
    'an unknown step field',
    steps('"step":"a","input_lenght":1,"output_length":1'),
    'ERR_LAXITY_FIELD',
    't:6: [0].Text2SQLRequest[1].input_lenght',
    /did you mean "input_length"/,
  ],
  [
    'parallel stages with too many edges',
    JSON.stringify([
      {
        Text2SQLRequest: ['generate_candidate_llama-agent', 'evaluate'].flatMap((step) =>
          Array.from({ length: 2100 }, () => ({ step, input_length: 1, output_length: 1 })),
        ),
      },
    ]),
    'ERR_LAXITY_LIMIT',
    't:1: [0].Text2SQLRequest',
    /parents/,
  ],
]

describe('bad traces', () => {
  for (const [kind, cases] of Object.entries({ JSONL: jsonl, 'HexGen-Flow': hexgen })) {
    describe(kind, () => {
      for (const [title, content, code, place, message] of cases) {
        it(title, () => assertFails(readText(content), code, place, message))
      }
    })
  }

  describe('files and streams', () => {
    let folder = ''
    before(() => {
      folder = mkdtempSync(join(tmpdir(), 'laxity-'))
    })
    after(() => rmSync(folder, { recursive: true }))

    it('a missing file, a folder', async () => {
      await assertFails(readTrace(join(folder, 'none')), 'ERR_LAXITY_FILE', join(folder, 'none'), /ENOENT/)
      await assertFails(readTrace(folder), 'ERR_LAXITY_FILE', folder, /EISDIR/)
    })

    it('a place with the name of the file', async () => {
      const file = join(folder, 'bad.jsonl')
      writeFileSync(file, `${good}{}`)
      await assertFails(readTrace(file), 'ERR_LAXITY_FIELD', `${file}:2: id`)
    })

    it('a stream that fails, gives no bytes, or is none', async () => {
      const failing = Readable.from(
        (async function* () {
          yield Buffer.from(good)
          throw new Error('cable cut')
        })(),
      )
      await assertFails(readTrace(failing), 'ERR_LAXITY_FILE', '<stream>', /cable cut/)
      await assertFails(readTrace(Readable.from([{}])), 'ERR_LAXITY_OPTION', '<stream>', /bytes or text/)
      await assertFails(readTrace(7 as never), 'ERR_LAXITY_OPTION', 'input', /readable stream/)
      await assertFails(
        readText(good, { format: 'csv' as never }),
        'ERR_LAXITY_OPTION',
        'format',
        /auto, jsonl/,
      )
    })

    it('damaged and truncated gzip', async () => {
      const packed = gzipSync(good.repeat(1) + workflow('other'))
      await assertFails(readText(packed.subarray(0, -6)), 'ERR_LAXITY_GZIP', 't', /truncated/)
      await assertFails(readText(packed.subarray(0, 15)), 'ERR_LAXITY_GZIP', 't')
      await assertFails(readText(packed.subarray(0, 2)), 'ERR_LAXITY_GZIP', 't')
      const damaged = Buffer.from(packed)
      damaged[packed.length - 6]! ^= 0xff
      await assertFails(readText(damaged), 'ERR_LAXITY_GZIP', 't', /Damaged/)
    })

    it('a forced format that is not the one of the file', async () => {
      await assertFails(readText(good, { format: 'hexgen' }), 'ERR_LAXITY_SYNTAX', 't:1')
      await assertFails(readText('[]', { format: 'jsonl' }), 'ERR_LAXITY_SYNTAX', 't:1')
    })

    it('a forced format of a file without anything in it', async () => {
      for (const format of TRACE_FORMATS)
        for (const text of ['', ' \n\n'])
          await assertFails(readText(text, { format }), 'ERR_LAXITY_EMPTY', 't')
    })

    it('an abort, before and while reading', async () => {
      await assertFails(readText(good, { signal: AbortSignal.abort() }), 'ERR_LAXITY_ABORTED', 't')
      const controller = new AbortController()
      const endless = new Readable({ read() {} })
      endless.push(good)
      const reading = readTrace(endless, { signal: controller.signal })
      setTimeout(() => controller.abort(), 5)
      await assertFails(reading, 'ERR_LAXITY_ABORTED', '<stream>')
      assert.equal(endless.destroyed, true)
    })
  })
})
