// The least that has to move for a piece of work, for its limit (limits.js). Sizes of records are those of the addon.
import { native } from '../../dist/native.js'

const { event, decision, call, workflow, instance, queueEntry } = native.recordBytes

/**
 * A call's whole life in the scheduler: its record and its workflow's are written when it is revealed (where another has just
 * ended, so in the nearest cache), found again among all that wait when it is leased, and among the eight leases of each instance
 * when it ends. `lookedAt` instances give what a score needs.
 */
export function dispatchTraffic(instances, waiting, lookedAt = 0) {
  const record = call + workflow
  return [
    { bytes: record },
    { jumps: 1, bytes: record, reach: waiting * record },
    { jumps: 1, bytes: record, reach: 8 * instances * record },
    { bytes: lookedAt * 64, reach: instances * instance },
    { bytes: 5 * event + decision },
  ]
}

/** A choice of an instance: the ledgers of the queues that change read and written. */
export const placementTraffic = (instances, queues) => [
  { bytes: queues * 2 * 64, reach: instances * instance },
]

/** Down a 4-ary heap, the first out and another in: every level is known when the one above is. */
export function heapTraffic(entries) {
  const parts = []
  for (let size = 4; ; size *= 4) {
    parts.push({ jumps: 1, bytes: 5 * queueEntry, reach: Math.min(size, entries) * queueEntry })
    if (size >= entries) return parts
  }
}

/** A leaf and the winner above it, read and written. */
export const tournamentTraffic = (leaves) => [{ bytes: 2 * 24, reach: leaves * 16 }]

/** Of a waiting call: arrival, rank, slope, KV and output; three prefill and nine transfer times. */
const PLANNED_CALL = 5 * 8 + (3 + 9) * 8
/** Call, pair, revisions, three times, ratio. */
const PLAN_ENTRY = 64
/** Ready time of a prefill instance; KV, context, batch and time per token of a decode instance. */
const PLANNED_PAIR = 8 + 4 * 8

/** A plan: every call and every pair of instances is read once, every entry written once. */
export function planTraffic(calls, instances, entries = calls) {
  const bytes = calls * PLANNED_CALL + entries * PLAN_ENTRY + 2 * instances * PLANNED_PAIR
  return [{ bytes, reach: bytes }]
}

/** Columns of a call in a trace: stage, prompt, output, gap, parent offset, about one parent. */
const TRACE_CALL = 2 + 4 + 4 + 8 + 4 + 4

/**
 * `simulated` calls of a trace of `calls`: its columns once, and per call its records when it is revealed, leased and finished, found
 * among the calls that are under way, some ten per instance.
 */
export function simulationTraffic(calls, instances, simulated = calls) {
  return [
    { bytes: simulated * TRACE_CALL, reach: calls * TRACE_CALL },
    {
      jumps: 3 * simulated,
      bytes: 3 * simulated * (call + workflow),
      reach: 10 * instances * (call + workflow),
    },
  ]
}

/** `events` through the ring: written in JavaScript, read by the scheduler. */
export const ringTraffic = (events) => [{ sixes: events, bytes: events * event }]

export const times = (count, traffic) =>
  traffic.map((part) =>
    Object.fromEntries(
      Object.entries(part).map(([key, value]) => [key, key === 'reach' ? value : count * value]),
    ),
  )
