import { LaxityError } from '../errors.ts'
import { CallRecord } from './call.ts'
import type { Core } from './core.ts'
import type { EventObject } from './records.ts'
import { CALL, FIRST_LEASED, FIRST_TERMINAL } from './snapshot.ts'
import { Workflow } from './workflow.ts'

/** Gives what a log holds back to a scheduler: names and promises; the core gets the events themselves. */

type Line = EventObject & Record<string, unknown>

export function adoptWorkflow(core: Core, line: Line): void {
  dense(line.workflow as number, core.workflows.table.size)
  const tenant = String(line.tenantName)
  core.tenants.id(tenant)
  core.workflows.adopt(
    new Workflow(
      core,
      String(line.id),
      line.named === true,
      tenant,
      line.workflow as number,
      line.workflowGeneration as number,
      Number(line.t) / 1e6,
      line.deadlineMs === null ? Number.POSITIVE_INFINITY : (line.deadlineMs as number),
      undefined,
    ),
  )
}

export function adoptEnd(core: Core, slot: number): void {
  const workflow = core.workflows.table.at(slot)
  if (workflow === undefined) return
  workflow.ended = true
  if (workflow.named) core.workflows.byId.delete(workflow.id)
}

export function adoptCall(core: Core, line: Line): void {
  const stage = String(line.stageName ?? 'default')
  core.stages.id(stage)
  const id = typeof line.id === 'string' ? line.id : undefined
  const workflow = core.workflows.table.at(line.workflow as number)
  if (workflow === undefined)
    throw new LaxityError('ERR_LAXITY_LOG', 'The log reveals a call of a workflow that it did not open')
  dense(line.call as number, core.calls.size)
  const call = new CallRecord(
    line.call as number,
    line.callGeneration as number,
    workflow,
    workflow.calls.length,
    id,
    stage,
    Number(line.t) / 1e6,
  )
  call.phase = 'ended'
  core.calls.put(call)
  workflow.calls.push(call)
  if (id === undefined) return
  workflow.ids ??= new Map()
  workflow.ids.set(id, call)
}

/** A table with a hole is no log's, and could be as large as 2^32. */
function dense(slot: number, size: number): void {
  if (slot > size) throw new LaxityError('ERR_LAXITY_LOG', 'The log skips slots')
}

/**
 * Every record was replayed: leases of the core are leases again, waiting for `attach`; whatever waited for one is
 * cancelled, since its promise died with its process.
 */
export function settleAdopted(core: Core): CallRecord[] {
  const leases: CallRecord[] = []
  const waiting: { call: CallRecord; epoch: number }[] = []
  // Slots are handed out again from the lists of free ones, which replaying has only added to.
  core.workflows.table.recount()
  core.calls.recount()
  for (const call of core.calls) {
    const state = core.stateOf(call)
    if (state < 0 || state >= FIRST_TERMINAL) continue
    call.phase = 'leased'
    core.link(call)
    if (state >= FIRST_LEASED) leases.push(call)
    else waiting.push({ call, epoch: core.callColumns[CALL.epoch]! })
  }
  for (const { call, epoch } of waiting) {
    core.writer.cancel(core.begin(), call.slot, call.generation, epoch)
    core.wrote(undefined)
    core.end(call, 'cancelled')
    // It may be submitted again under its id, unless that would repeat the number of an attempt that was handed out.
    if (epoch === 0 && call.givenId !== undefined) call.workflow.ids?.delete(call.givenId)
  }
  // Their TTL counts from here.
  for (const call of leases) core.attempts.progress(call, call.lease!, 0)
  core.flush()
  return leases
}
