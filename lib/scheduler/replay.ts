import { LaxityError } from '../errors.ts'
import { native } from '../native.ts'
import { type EventLog, readLog } from './log.ts'
import { JAVASCRIPT_PLACEMENT, type PlacementFunction } from './placement.ts'
import { kindAt, RECORD_BYTES } from './records.ts'
import { RingScheduler } from './ring.ts'

export interface ReplayResult {
  /** Decisions in the log. */
  decisions: number
  /** How many of them the scheduler made again, byte for byte, in the same place. */
  matched: number
  /** Line of the first that differs (the header is line 1). */
  firstMismatch?: number
}

export interface ReplayOptions {
  /** The function of a run whose placement was one. */
  placement?: PlacementFunction
}

/** Feeds a log's events through the ring, decides at every mark, and compares each decision byte for byte. */
export function replay(
  { header, records, truncated }: EventLog,
  place = 'log',
  options: ReplayOptions = {},
): ReplayResult {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  const decisionOffset = RECORD_BYTES - 112
  const decisionBytes = native.eventLayout.decisionBytes
  const scheduler = create({ header, records }, place, options)
  const result: ReplayResult = { decisions: 0, matched: 0 }
  let made = new Uint8Array(0)
  let next = 0
  const miss = (record: number) => {
    result.firstMismatch ??= record + 2
  }
  const count = records.length / RECORD_BYTES
  for (let i = 0; i < count; i += 1) {
    const at = i * RECORD_BYTES
    const kind = kindAt(view, at)
    if (kind === 'decision') {
      result.decisions += 1
      const logged = records.subarray(at + decisionOffset, at + decisionOffset + decisionBytes)
      const mine = made.subarray(next, next + decisionBytes)
      if (mine.length > 0 && Buffer.compare(mine, logged) === 0) result.matched += 1
      else miss(i)
      next += decisionBytes
      continue
    }
    if (next !== made.length) miss(i)
    made = new Uint8Array(0)
    next = 0
    if (kind === 'decide') {
      // A decide without events still stands for an instant: a timer event carries its t.
      if (scheduler.pending === 0) scheduler.push({ t: view.getBigInt64(at, true), kind: 'timer' })
      made = Uint8Array.from(scheduler.decide())
      if (scheduler.refusals.length > 0) {
        // After another decision the logged events need not fit any more.
        if (result.firstMismatch !== undefined) return result
        const reason = native.statusReasons[scheduler.refusals[1]!]
        throw new LaxityError(
          'ERR_LAXITY_LOG',
          `The scheduler refused an event before this line: ${reason}`,
          `${place}:${i + 2}`,
        )
      }
    } else {
      scheduler.pushRecord(records.subarray(at, at + RECORD_BYTES))
    }
  }
  // A log that was cut off may end between a decide and its decisions.
  if (next !== made.length && !truncated) miss(count - 1)
  return result
}

/** Replays a log file. */
export async function replayLog(path: string): Promise<ReplayResult> {
  return replay(await readLog(path), path)
}

/** The ring must hold the events of the largest batch between two decides. */
function create({ header, records }: EventLog, place: string, options: ReplayOptions): RingScheduler {
  const placement = options.placement ?? header.run.placement
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  let largest = 1
  let batch = 0
  for (let at = 0; at < records.length; at += RECORD_BYTES) {
    batch = kindAt(view, at) === 'decide' ? 0 : batch + 1
    if (batch > largest) largest = batch
  }
  const { run, cluster } = header
  if (placement === JAVASCRIPT_PLACEMENT) {
    const message = 'The run placed its calls by a JavaScript function: give it to `replay` again'
    throw new LaxityError('ERR_LAXITY_LOG', message, `${place}:1`)
  }
  try {
    const { latencies, templates } = cluster
    return new RingScheduler({ ...run, placement, latencies, templates }, largest)
  } catch (cause) {
    throw new LaxityError(
      'ERR_LAXITY_LOG',
      `The header does not describe a scheduler: ${(cause as Error).message}`,
      `${place}:1`,
      { cause },
    )
  }
}
