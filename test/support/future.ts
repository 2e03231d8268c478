import { decodeRecord, type EventObject, RECORD_BYTES } from '../../lib/scheduler/records.ts'
import { random, type Scenario } from './runs.ts'

/** The events and decisions of a log. */
export function objects(records: Uint8Array): EventObject[] {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength)
  return Array.from(
    { length: records.length / RECORD_BYTES },
    (_, i) => decodeRecord(view, i * RECORD_BYTES)!,
  )
}

/** How many events and decisions two logs have in common from their beginning on. */
export function inCommon(a: readonly EventObject[], b: readonly EventObject[]): number {
  let i = 0
  while (i < a.length && i < b.length && same(a[i]!, b[i]!)) i += 1
  return i
}

function same(a: EventObject, b: EventObject): boolean {
  return JSON.stringify(a, bigints) === JSON.stringify(b, bigints)
}

function bigints(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

/**
 * From a random workflow on: other true lengths, and other stages, prompts, predictions and gaps of the calls that are
 * not revealed with their workflow. So some runs differ from the start and some only near their end.
 */
export function scramble({ columns, cluster }: Scenario, seed: number, lengthsOnly: boolean): Scenario {
  const next = random(seed + 1_000_003)
  const changed = structuredClone(columns)
  const from = Math.floor(next() * (columns.firstCall.length - 1))
  for (let w = from; w + 1 < columns.firstCall.length; w += 1) {
    const first = columns.firstCall[w]!
    for (let row = first; row < columns.firstCall[w + 1]!; row += 1) {
      changed.outputTokens[row] = 1 + Math.floor(next() * 60)
      const source = columns.parentOffset[row] === columns.parentOffset[row + 1]
      if (lengthsOnly || source) continue
      changed.stage[row] = Math.floor(next() * 4)
      changed.promptTokens[row] = 1 + Math.floor(next() * 400)
      if (changed.cachedTokens) changed.cachedTokens[row] = Math.floor(next() * changed.promptTokens[row]!)
      changed.predictedTokens![row] = 1 + Math.floor(next() * 90)
      changed.toolGapMs![row] = Math.floor(next() * 3) * 100
    }
  }
  return { columns: changed, cluster }
}
