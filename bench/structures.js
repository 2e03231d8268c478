// The queues of the core beside good priority queues for JavaScript, on the same work: n entries, take the first and put
// another in. Thread CPU time, medians of 21 rounds, all in one process; what counts is the ratio.
import { PriorityQueue } from '@datastructures-js/priority-queue'
import FlatQueue from 'flatqueue'
import { Heap } from 'heap-js'
import TinyQueue from 'tinyqueue'
import { native } from '../dist/native.js'
import { cpuNs, spread } from './measure.js'
import { heapTraffic, tournamentTraffic } from './performance/traffic.js'

const SIZES = [256, 4096, 65_536]
const OPERATIONS = 50_000
const KEYS = 1_000_000_000

/** Each takes (key, id) and returns how to take the first and put another key in its place. */
const RIVALS = {
  'flatqueue 3.1': (keys) => {
    const queue = new FlatQueue()
    for (const [id, key] of keys.entries()) queue.push(id, key)
    return (key) => queue.push(queue.pop(), key)
  },
  'tinyqueue 3.0': (keys) => {
    const queue = new TinyQueue(
      keys.map((key, id) => ({ key, id })),
      (a, b) => a.key - b.key,
    )
    return (key) => {
      const first = queue.pop()
      first.key = key
      queue.push(first)
    }
  },
  'heap-js 2.7': (keys) => {
    const heap = new Heap((a, b) => a.key - b.key)
    heap.init(keys.map((key, id) => ({ key, id })))
    return (key) => {
      const first = heap.pop()
      first.key = key
      heap.push(first)
    }
  },
  '@datastructures-js/priority-queue 6.4': (keys) => {
    const queue = new PriorityQueue((a, b) => a.key - b.key)
    for (const [id, key] of keys.entries()) queue.enqueue({ key, id })
    return (key) => {
      const first = queue.dequeue()
      first.key = key
      queue.enqueue(first)
    }
  },
}

/** The same keys every time: splitmix32 of i. */
function random(i) {
  let x = Math.imul(i + 1, 0x9e3779b9)
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad)
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97)
  return (x ^ (x >>> 15)) >>> 0
}

function rivalNs(make, size, repeats) {
  // The keys are drawn before: only the queue is measured.
  const keys = Float64Array.from({ length: size + OPERATIONS }, (_, i) => random(i) % KEYS)
  const replace = make(Array.from(keys.subarray(0, size)))
  const turn = () => {
    for (let i = size; i < keys.length; i += 1) replace(keys[i])
  }
  turn()
  return Array.from({ length: repeats }, () => cpuNs(turn) / OPERATIONS)
}

export async function run(say, { quick }) {
  const rows = []
  const repeats = quick ? 5 : 21
  const nativeNs = (structure, size) =>
    spread(native.structureBench({ structure, size, operations: OPERATIONS, repeats, seed: 1 }))
  for (const size of SIZES) {
    say(`${size} entries …`)
    const own = nativeNs(0, size)
    rows.push({
      name: `indexed heap, ${size} entries: first out, another in`,
      unit: 'ns',
      ...own,
      traffic: heapTraffic(size),
    })
    for (const [name, make] of Object.entries(RIVALS)) {
      const ns = spread(rivalNs(make, size, repeats))
      rows.push({
        name: `  ${name}`,
        unit: 'ns',
        ...ns,
        note: `${(ns.value / own.value).toFixed(1)} times the heap, without positions to look up`,
      })
    }
    rows.push({
      name: `tournament tree, ${size} leaves: change one, ask for the least`,
      unit: 'ns',
      ...nativeNs(1, size),
      traffic: tournamentTraffic(size),
    })
  }
  return rows
}
