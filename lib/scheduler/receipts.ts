import type { NativeScheduler } from '../native.ts'
import type { CallRecord } from './call.ts'
import { type EventWriter, NO_SLOT, type RevealFields } from './events.ts'
import type { Instances } from './instances.ts'
import type { Lease } from './lease.ts'
import type { Candidate, Receipt } from './receipt.ts'
import { CALL } from './snapshot.ts'

/** First tokens of leases with a receipt, ms. */
const firstTokens = new WeakMap<Lease, number>()

export function noteFirstToken(lease: Lease, nowMs: number): void {
  if (lease.receipt !== undefined) firstTokens.set(lease, nowMs)
}

/** What the core would say of a reveal that is taken back at once: status, chosen instance, candidates. */
export function preview(
  writer: EventWriter,
  native: NativeScheduler,
  t: number,
  fields: RevealFields,
): Float64Array {
  const { parents, workflow } = fields
  fields.parents = undefined
  writer.reveal(t, fields)
  let answer = native.preview(writer.takeBack())
  if (answer[0] !== 0) {
    // Its workflow is opened in this very instant.
    fields.workflow = NO_SLOT
    writer.reveal(t, fields)
    answer = native.preview(writer.takeBack())
  }
  fields.workflow = workflow
  fields.parents = parents
  return answer
}

export function candidatesOf(answer: Float64Array, instances: Instances): Candidate[] {
  const candidates: Candidate[] = []
  for (let i = 2; i + 3 < answer.length; i += 4) {
    candidates.push({
      instance: instances.list[answer[i]!]!.id,
      prefillMs: answer[i + 1]!,
      execMs: answer[i + 2]!,
      projectedMs: answer[i + 3]!,
    })
  }
  return candidates
}

/** `columns`: the call's, as the core has them at its lease. */
export function openReceipt(
  call: CallRecord,
  lease: Lease,
  columns: Float64Array,
  context: { policy: string; tieSeed: number; instances: Instances },
): Receipt {
  const column = (name: keyof typeof CALL) => columns[CALL[name]]!
  return {
    call: call.id,
    workflow: call.workflow.id,
    epoch: lease.epoch,
    instance: lease.instance,
    ...(lease.decode !== lease.instance && { decode: lease.decode }),
    reason: lease.reason,
    policy: context.policy,
    tieSeed: context.tieSeed,
    candidates: candidatesOf(call.preview!, context.instances),
    queueMs: lease.grantedAtMs - column('readyMs'),
    budgetMs: column('budgetMs'),
    deadlineMs: column('deadlineMs'),
    horizonMs: column('horizonMs'),
    predictedTokens: column('predicted'),
    predicted: { ttftMs: column('prefillsEndMs'), finishMs: column('deltaMs') },
  }
}

export function closeReceipt(lease: Lease, receipt: Receipt, nowMs: number, outcome: string): void {
  const first = firstTokens.get(lease)
  const finishMs = nowMs - lease.grantedAtMs
  receipt.actual = {
    ttftMs: first === undefined ? undefined : first - lease.grantedAtMs,
    finishMs,
    errorMs: finishMs - receipt.predicted.finishMs,
    outcome,
  }
}
