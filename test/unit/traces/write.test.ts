import assert from 'node:assert/strict'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { readTrace } from '../../../lib/traces/read.ts'
import { writeTrace } from '../../../lib/traces/write.ts'
import { assertFails, call, contentOf, readText, repositoryFile, sharedFile, workflow } from './shared.ts'

/** Keeps what it is given; slow, so that writers meet backpressure. */
class Sink extends Writable {
  text = ''
  override _write(chunk: Buffer, _: string, done: () => void): void {
    this.text += chunk.toString()
    setImmediate(done)
  }
}

describe('writeTrace', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'laxity-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  it('writes the example back byte for byte', async () => {
    const file = repositoryFile('examples/trace.jsonl')
    const sink = new Sink()
    await writeTrace(await readTrace(file), sink)
    assert.equal(sink.text, readFileSync(file, 'utf8'))
    assert.equal(sink.writableEnded, false)
  })

  it('gives a real trace back through plain and gzipped files', async function () {
    const table = await readTrace(sharedFile(this, 'data/hexgen-flow/input_file_trace3.json'))
    for (const name of ['t.jsonl', 't.jsonl.gz']) {
      const file = join(folder, name)
      await writeTrace(table, file)
      assert.deepEqual(contentOf(await readTrace(file)), contentOf(table))
    }
    const [plain, packed] = ['t.jsonl', 't.jsonl.gz'].map((name) => readFileSync(join(folder, name)))
    assert.ok(packed!.length < plain!.length / 5)
    assert.deepEqual([packed![0], packed![1]], [0x1f, 0x8b])
  })

  it('waits for a slow stream', async () => {
    const rows = Array.from({ length: 5000 }, (_, i) =>
      workflow(`w${i}`, [call('c0'), call('c1', { parents: ['c0'] })]),
    )
    const table = await readText(rows.join(''))
    const sink = new Sink()
    await writeTrace(table, sink)
    assert.deepEqual(contentOf(await readText(sink.text)), contentOf(table))
  })

  it('replaces a file, also behind a link, and leaves nothing else', async () => {
    const table = await readText(workflow('w0'))
    writeFileSync(join(folder, 'real'), 'old')
    symlinkSync('real', join(folder, 'link'))
    await writeTrace(table, join(folder, 'link'))
    assert.equal((await readTrace(join(folder, 'real'))).workflows, 1)
    assert.deepEqual(readdirSync(folder).sort(), ['link', 'real'])
  })

  it('leaves the old file and no temporary one on failure', async () => {
    const table = await readText(workflow('w0'))
    const file = join(folder, 'out')
    writeFileSync(file, 'old')
    await assertFails(writeTrace(table, file, { signal: AbortSignal.abort() }), 'ERR_LAXITY_ABORTED', file)
    const broken = {
      ...table,
      stages: { map: () => [] } as never,
      columns: { ...table.columns, firstCall: null as never },
    }
    await assertFails(writeTrace(broken, file), 'ERR_LAXITY_FILE', file)
    assert.equal(readFileSync(file, 'utf8'), 'old')
    assert.deepEqual(readdirSync(folder), ['out'])
  })

  it('names a target that cannot be written', async () => {
    const table = await readText(workflow('w0'))
    const file = join(folder, 'none', 'out')
    await assertFails(writeTrace(table, file), 'ERR_LAXITY_FILE', file, /ENOENT/)
    await assertFails(writeTrace(table, folder), 'ERR_LAXITY_FILE', folder)
    assert.equal(existsSync(file), false)
  })

  it('reports a stream that fails or closes, and stops on abort while it blocks', async () => {
    const table = await readText(
      Array.from({ length: 5000 }, (_, i) => workflow(`w${i}`, [call('c0'), call('c1')])).join(''),
    )
    const failing = new Writable({ write: (_chunk, _encoding, done) => done(new Error('disk full')) })
    await assertFails(writeTrace(table, failing), 'ERR_LAXITY_FILE', '<stream>', /disk full/)
    const closing = new Writable({ write: () => setImmediate(() => closing.destroy()) })
    await assertFails(writeTrace(table, closing), 'ERR_LAXITY_FILE', '<stream>')
    const blocked = new Writable({ write: () => {} })
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 5)
    const writing = writeTrace(table, blocked, { signal: controller.signal })
    await assertFails(writing, 'ERR_LAXITY_ABORTED', '<stream>')
  })
})
