import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { LaxityError } from '../../../lib/errors.ts'
import { Journal } from '../../../lib/study/journal.ts'
import type { ChunkResult } from '../../../lib/study/store.ts'
import type { Study } from '../../../lib/study/study.ts'
import { temporaryFolder } from '../../support/study.ts'

const WIDTH = 2
const ten = { length: 10 }

function study(id = 'one'): Study {
  const one = [{}]
  return {
    id,
    name: 'n',
    version: '0',
    clusters: one,
    workloads: one,
    rates: [null],
    policies: one,
    parameters: [],
    seeds: Array.from(ten, (_, i) => i),
    scales: [5],
    options: {},
  } as unknown as Study
}

function chunk(from: number, to: number): ChunkResult {
  const rows = Float64Array.from({ length: (to - from) * WIDTH }, (_, i) => (from * WIDTH + i) / 3)
  return { from, to, cpuMs: to - from, rows }
}

async function all(journal: Journal): Promise<ChunkResult[]> {
  const chunks = []
  for await (const one of journal.chunks()) chunks.push(one)
  return chunks
}

describe('the results file of a study', () => {
  const folder = temporaryFolder()
  let count = 0
  const fresh = () => join(folder(), `j${count++}`)
  const refused = (code: string) => (error: unknown) => error instanceof LaxityError && error.code === code

  it('keeps chunks once, and plans that are open', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    for (const range of [chunk(0, 3), chunk(3, 5), chunk(5, 9)]) await journal.plan(range)
    assert.equal(await journal.append(chunk(5, 9)), true)
    assert.equal(await journal.append(chunk(5, 9)), false)
    assert.equal(await journal.append(chunk(0, 3)), true)
    await journal.close()
    const again = await Journal.open(out, study(), { width: WIDTH })
    assert.deepEqual(await all(again), [chunk(0, 3), chunk(5, 9)])
    assert.deepEqual(again.open, [{ from: 3, to: 5 }])
    assert.deepEqual([again.planned, again.doneRuns, again.cpuMs, again.damaged, again.torn], [9, 7, 7, 0, 0])
    await again.close()
  })

  it('holds halves of a chunk as the chunk', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    for (const [from, to] of [
      [0, 8],
      [0, 4],
      [4, 8],
    ] as const)
      await journal.plan({ from, to })
    await journal.append(chunk(4, 8))
    await journal.close()
    const again = await Journal.open(out, study(), { width: WIDTH })
    assert.deepEqual(again.open, [{ from: 0, to: 4 }])
    await again.append(chunk(0, 4))
    assert.deepEqual(again.open, [])
    await again.close()
  })

  it('loses nothing but a torn last line, wherever the file is cut', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    for (const range of [chunk(0, 2), chunk(2, 6)]) {
      await journal.plan(range)
      await journal.append(range)
    }
    await journal.close()
    const whole = readFileSync(journal.path)
    const ends: number[] = []
    for (const [at, byte] of whole.entries()) if (byte === 10) ends.push(at + 1)
    // Lines: header, plan, done, plan, done.
    for (let cut = 0; cut <= whole.length; cut++) {
      if (cut % 9 !== 0 && !ends.some((end) => Math.abs(end - cut) <= 1)) continue
      writeFileSync(journal.path, whole.subarray(0, cut))
      const again = await Journal.open(out, study(), { width: WIDTH })
      const lines = ends.filter((end) => end <= cut).length
      const done = [chunk(0, 2), chunk(2, 6)].slice(0, Math.floor(Math.max(0, lines - 1) / 2))
      assert.deepEqual(await all(again), done, `cut at ${cut}`)
      // What follows is readable again.
      await again.append(chunk(6, 10))
      await again.close()
      const last = await Journal.open(out, study(), { width: WIDTH })
      assert.deepEqual(await all(last), [...done, chunk(6, 10)], `appended after a cut at ${cut}`)
      assert.equal(last.damaged, 0)
      await last.close()
    }
  })

  it('counts a changed byte as never written, and the rest stays', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    await journal.append(chunk(0, 2))
    await journal.append(chunk(2, 6))
    await journal.close()
    const bytes = readFileSync(journal.path)
    const lines = bytes.toString().split('\n')
    const second = lines[0]!.length + 1
    for (const at of [second + 2, second + 12, second + 40, second + lines[1]!.length - 2]) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      writeFileSync(journal.path, changed)
      const again = await Journal.open(out, study(), { width: WIDTH })
      assert.deepEqual(await all(again), [chunk(2, 6)])
      assert.equal(again.damaged, 1)
      await again.close()
    }
  })

  it('refuses the results of another study, other files, and a second process', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    await assert.rejects(Journal.open(out, study(), { width: WIDTH }), refused('ERR_LAXITY_STATE'))
    await journal.close()
    await assert.rejects(Journal.open(out, study('two'), { width: WIDTH }), refused('ERR_LAXITY_STATE'))
    writeFileSync(journal.path, 'my shopping list\n')
    await assert.rejects(Journal.open(out, study(), { width: WIDTH }), refused('ERR_LAXITY_STATE'))
    assert.equal(readFileSync(journal.path, 'utf8'), 'my shopping list\n')
  })

  it('takes over the lock of a process that is gone', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    const lock = readFileSync(join(out, '.lock'), 'utf8')
    await journal.close()
    // No process has the largest id.
    writeFileSync(join(out, '.lock'), JSON.stringify({ ...JSON.parse(lock), pid: 2 ** 22 }))
    const again = await Journal.open(out, study(), { width: WIDTH })
    await again.close()
  })

  it('says that the disk is full, and goes on from there later', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), {
      width: WIDTH,
      openFile: (path) => fullAfter(path, 300),
    })
    await journal.append(chunk(0, 2))
    const full = (error: unknown) => refused('ERR_LAXITY_FILE')(error) && /disk is full/.test(String(error))
    await assert.rejects(journal.append(chunk(2, 6)), full)
    // Nothing is written behind the gap.
    await assert.rejects(journal.append(chunk(6, 7)), full)
    await journal.close()
    assert.equal(readFileSync(journal.path).length, 300)
    const again = await Journal.open(out, study(), { width: WIDTH })
    assert.deepEqual(await all(again), [chunk(0, 2)])
    assert(again.torn > 0)
    await again.close()
  })

  it('reads what was appended by hand as damaged', async () => {
    const out = fresh()
    const journal = await Journal.open(out, study(), { width: WIDTH })
    await journal.append(chunk(0, 2))
    await journal.close()
    appendFileSync(journal.path, '{"sum":"0000000000000000","record":{"done":[2,4],"rows":""}}\n')
    const again = await Journal.open(out, study(), { width: WIDTH })
    assert.deepEqual([again.damaged, again.doneRuns], [1, 2])
    await again.close()
  })
})

/** A file on a disk with room for so many bytes. */
async function fullAfter(path: string, room: number): Promise<FileHandle> {
  const file = await open(path, 'wx+')
  const write = file.write.bind(file) as (...args: unknown[]) => Promise<{ bytesWritten: number }>
  const limited = async (buffer: Buffer, offset: number, length: number, position: number) => {
    const fits = Math.min(length, room - position)
    if (fits <= 0) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    return write(buffer, offset, fits, position)
  }
  return Object.assign(file, { write: limited }) as unknown as FileHandle
}
