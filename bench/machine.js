// What this machine charges for memory and for the boundary: what the limits of all other rows are made of.
// Memory: thread CPU time of the native side; JavaScript: CPU time of this process. Medians of 15 rounds.
import { native } from '../dist/native.js'
import { cpuNs, spread } from './measure.js'

const KIB = 1024
const REACHES = [16 * KIB, 128 * KIB, 1024 * KIB, 8 * KIB * KIB, 64 * KIB * KIB, 256 * KIB * KIB]

const size = (bytes) => (bytes < KIB * KIB ? `${bytes / KIB} KiB` : `${bytes / KIB / KIB} MiB`)

/** ns of one of `count` turns of `work`, in rounds. */
function rounds(work, count, repeats) {
  const turn = () => {
    for (let i = 0; i < count; i += 1) work(i)
  }
  turn()
  return Array.from({ length: repeats }, () => cpuNs(turn) / count)
}

async function awaits(count, repeats) {
  const samples = []
  for (let i = 0; i <= repeats; i += 1) {
    const before = process.cpuUsage()
    for (let k = 0; k < count; k += 1) await new Promise((resolve) => resolve(k))
    const { user, system } = process.cpuUsage(before)
    if (i > 0) samples.push(((user + system) * 1000) / count)
  }
  return samples
}

export async function run(say, { quick }) {
  const repeats = quick ? 7 : 15
  const rows = []
  const row = (name, unit, samples, cost) => rows.push({ name, unit, ...spread(samples), cost })
  for (const bytes of REACHES) {
    say(size(bytes))
    const memory = (kind, operations) =>
      native.memoryBench({ kind, bytes, operations: Math.ceil(operations), repeats, seed: 1 })
    const loads = (bytes > 2 ** 22 ? 1 : 8) * (quick ? 100_000 : 400_000)
    row(`a load that waits for the one before, ${size(bytes)}`, 'ns', memory(0, loads), {
      kind: 'jump',
      reach: bytes,
    })
    row(`a byte read or written by a copy, ${size(bytes)}`, 'ns', memory(1, (quick ? 1e8 : 4e8) / bytes), {
      kind: 'byte',
      reach: bytes,
    })
  }
  const turns = quick ? 20_000 : 200_000
  const { empty } = native.crossings
  row(
    'an empty call into native code',
    'ns',
    rounds(() => empty(), turns, repeats),
    {
      kind: 'crossing',
    },
  )
  const column = new Float64Array(6 * 4096)
  row(
    'six numbers written into a shared column',
    'ns',
    rounds(
      (i) => {
        const at = 6 * (i & 4095)
        for (let k = 0; k < 6; k += 1) column[at + k] = i + k
      },
      turns,
      repeats,
    ),
    { kind: 'six' },
  )
  row('a promise, resolved and awaited', 'ns', await awaits(turns, repeats), { kind: 'promise' })
  row(
    'an AbortController',
    'ns',
    rounds(() => new AbortController().signal, turns / 20, repeats),
    {
      kind: 'signal',
    },
  )
  return rows
}
