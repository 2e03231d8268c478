import assert from 'node:assert/strict'
import { ManualClock } from '../../lib/scheduler/clock.ts'
import type { LiveInstance } from '../../lib/scheduler/instances.ts'
import type { Lease } from '../../lib/scheduler/lease.ts'
import type { SchedulerOptions } from '../../lib/scheduler/options.ts'
import { Scheduler } from '../../lib/scheduler/scheduler.ts'

/** A latency that is easy to reckon with: 1 ms per 10 prompt tokens, 10 ms per output token. */
export const LATENCY = { kind: 'constants', prefillPerTokenMs: 0.1, decodeBaseMs: 10 } as const

export function instances(count: number, more: Partial<LiveInstance> = {}): LiveInstance[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `m${i}`,
    latency: LATENCY,
    kvTokens: 100_000,
    maxSequences: 8,
    ...more,
  }))
}

export function virtual(options: Partial<SchedulerOptions> = {}): {
  clock: ManualClock
  scheduler: Scheduler
} {
  const clock = new ManualClock()
  // Time stands still: a back-off would wait for ever.
  const parameters = { retryBackoffMs: 0, ...options.parameters }
  return { clock, scheduler: new Scheduler({ cluster: instances(2), clock, ...options, parameters }) }
}

export async function code(promise: Promise<unknown> | (() => unknown)): Promise<string | undefined> {
  try {
    await (typeof promise === 'function' ? promise() : promise)
  } catch (error) {
    return (error as { code?: string }).code
  }
  return undefined
}

/** Nothing is left: every ledger, queue and counter is zero, and the core's own check agrees. */
export function assertEmpty(scheduler: Scheduler): void {
  const snapshot = scheduler.snapshot()
  assert.equal(snapshot.activeCalls, 0, 'active calls')
  assert.equal(snapshot.queued, 0, 'queued')
  for (const i of snapshot.instances) {
    const { id, assigned, leased, reservedKv, unprefilled, unprefilledMs, waiting, workMs, correctionMs } = i
    assert.deepEqual(
      {
        id,
        assigned,
        leased,
        reservedKv,
        unprefilled,
        unprefilledMs,
        waiting,
        workMs: workMs - correctionMs,
      },
      { id, assigned: 0, leased: 0, reservedKv: 0, unprefilled: 0, unprefilledMs: 0, waiting: 0, workMs: 0 },
    )
  }
  assert.ok(scheduler.audit(), 'audit')
}

/** A promise's lease, or undefined while it is pending. */
export function watch<T>(promise: Promise<T>): { value: T | undefined; error: unknown; settled: boolean } {
  const seen: { value: T | undefined; error: unknown; settled: boolean } = {
    value: undefined,
    error: undefined,
    settled: false,
  }
  promise.then(
    (value) => Object.assign(seen, { value, settled: true }),
    (error) => Object.assign(seen, { error, settled: true }),
  )
  return seen
}

/** Runs a lease like a healthy engine would. */
export async function serve(clock: ManualClock, lease: Lease, outputTokens = 10): Promise<void> {
  lease.firstToken()
  await clock.advance(outputTokens * 10)
  lease.done({ outputTokens })
}
