import { describe, expected, LaxityError, quote } from '../errors.ts'
import { hint } from '../report/near.ts'
import { abortError, duration, isSignal, text } from './checks.ts'
import type { Core } from './core.ts'
import { NEVER } from './events.ts'
import { readRemaining } from './remaining.ts'
import { SlotTable } from './slots.ts'
import { Workflow, type WorkflowChange, type WorkflowOptions } from './workflow.ts'

/** 0 = none; one below 1 ns is 1 ns. */
function predictedNs(ms: number | undefined): number {
  return ms === undefined ? 0 : Math.max(1, Math.round(ms * 1e6))
}

/** Workflows that are open, or closed with calls that have not ended. */
export class Workflows {
  readonly #core: Core
  readonly table = new SlotTable<Workflow>()
  readonly byId = new Map<string, Workflow>()
  /** When to look for named ones that nobody uses, ms. */
  sweepAt = Number.POSITIVE_INFINITY
  #sequence = 0

  constructor(core: Core) {
    this.#core = core
  }

  open(options: WorkflowOptions = {}): Workflow {
    const core = this.#core
    core.checkOpen()
    if (typeof options !== 'object' || options === null)
      throw new LaxityError('ERR_LAXITY_FIELD', `Expected an object, got ${describe(options)}`, 'workflow')
    const { id, tenant = 'default', sloMs, template, predictedMs, signal } = options
    if (id !== undefined) {
      text(id, 'id')
      const known = this.byId.get(id)
      if (known !== undefined) {
        known.lastActiveMs = core.nowMs()
        return known
      }
    }
    text(tenant, 'tenant')
    if (sloMs !== undefined) duration(sloMs, 'sloMs')
    const told = readRemaining(options.remaining)
    if (predictedMs !== undefined) duration(predictedMs, 'predictedMs')
    if (signal !== undefined && !isSignal(signal))
      throw new LaxityError('ERR_LAXITY_FIELD', expected('an AbortSignal', 'signal', signal), 'signal')
    const templateId = template === undefined ? -1 : this.#template(template)
    if (signal?.aborted) throw abortError(signal.reason)
    const t = core.begin()
    const slot = this.table.take()
    this.#sequence += 1
    const deadline = sloMs === undefined ? NEVER : t + sloMs * 1e6
    const workflow = new Workflow(
      core,
      id ?? `w${this.#sequence}`,
      id !== undefined,
      tenant,
      slot,
      this.table.generationOf(slot),
      t / 1e6,
      sloMs === undefined ? Number.POSITIVE_INFINITY : t / 1e6 + sloMs,
      signal,
    )
    this.table.put(workflow)
    core.writer.openWorkflow(
      t,
      slot,
      workflow.generation,
      core.tenants.id(tenant),
      templateId,
      Math.round(deadline),
      told,
      predictedNs(predictedMs),
      core.options.weights.get(tenant) ?? 0,
    )
    core.wrote(workflow)
    core.metrics.workflows += 1
    if (id !== undefined) {
      this.byId.set(id, workflow)
      const { workflowIdleMs } = core.options
      if (workflowIdleMs > 0 && this.sweepAt === Number.POSITIVE_INFINITY)
        this.sweepAt = t / 1e6 + workflowIdleMs
    }
    return workflow
  }

  #template(name: unknown): number {
    const { names } = this.#core.options.templates
    const found = typeof name === 'string' ? names.get(name) : undefined
    if (found !== undefined) return found
    const message = `Unknown template ${describe(name)}${hint(name as string, names.keys())}`
    throw new LaxityError('ERR_LAXITY_UNKNOWN', message, 'template')
  }

  update(workflow: Workflow, change: WorkflowChange): void {
    const core = this.#core
    if (typeof change !== 'object' || change === null)
      throw new LaxityError(
        'ERR_LAXITY_FIELD',
        expected('{ sloMs, remaining, predictedMs }', 'change', change),
        'change',
      )
    const { sloMs, remaining, predictedMs } = change
    if (sloMs !== undefined && sloMs !== null) duration(sloMs, 'sloMs')
    const told = readRemaining(remaining)
    if (predictedMs !== undefined) duration(predictedMs, 'predictedMs')
    this.checkOpen(workflow)
    if (sloMs === undefined && remaining === undefined && predictedMs === undefined) return
    const t = core.begin()
    const deadline = sloMs === undefined ? -1 : sloMs === null ? NEVER : Math.round(t + sloMs * 1e6)
    core.writer.updateWorkflow(
      t,
      workflow.slot,
      workflow.generation,
      deadline,
      told,
      predictedNs(predictedMs),
    )
    core.wrote(workflow)
    if (sloMs === null) workflow.deadlineMs = Number.POSITIVE_INFINITY
    else if (sloMs !== undefined) workflow.deadlineMs = t / 1e6 + sloMs
  }

  end(workflow: Workflow): void {
    const core = this.#core
    if (workflow.ended) return
    const t = core.begin()
    workflow.ended = true
    workflow.forgetSignal()
    if (workflow.named && this.byId.get(workflow.id) === workflow) {
      this.byId.delete(workflow.id)
      if (this.byId.size === 0) this.sweepAt = Number.POSITIVE_INFINITY
    }
    this.#observe(workflow, t / 1e6)
    core.writer.closeWorkflow(t, workflow.slot, workflow.generation)
    core.wrote(workflow)
    // The core cancels what is not leased.
    for (let call = workflow.first; call !== undefined; ) {
      const next = call.next
      if (call.phase === 'waiting') {
        core.end(call, 'cancelled')
        if (call.retrying) call.resolve?.(null)
        else call.reject?.(new LaxityError('ERR_LAXITY_CLOSED', `Workflow ${quote(workflow.id)} has ended`))
      }
      call = next
    }
  }

  /** Cancels every call, then ends the workflow. */
  abort(workflow: Workflow, reason: unknown): void {
    if (workflow.ended) return
    for (let call = workflow.first; call !== undefined; ) {
      const next = call.next
      this.#core.abort(call, reason)
      call = next
    }
    this.end(workflow)
  }

  endAll(): void {
    for (const workflow of this.table) this.end(workflow)
  }

  /** Named workflows that nobody uses any more. */
  sweep(now: number): void {
    const { workflowIdleMs } = this.#core.options
    this.sweepAt = this.byId.size > 0 ? now + workflowIdleMs / 4 : Number.POSITIVE_INFINITY
    for (const workflow of this.byId.values()) {
      if (workflow.first === undefined && now - workflow.lastActiveMs >= workflowIdleMs) this.end(workflow)
    }
  }

  /** One that a log opened: the core knows it already. */
  adopt(workflow: Workflow): void {
    this.table.put(workflow)
    this.#sequence += 1
    if (workflow.named) this.byId.set(workflow.id, workflow)
  }

  checkOpen(workflow: Workflow): void {
    if (workflow.ended) throw new LaxityError('ERR_LAXITY_CLOSED', `Workflow ${quote(workflow.id)} has ended`)
  }

  #observe(workflow: Workflow, nowMs: number): void {
    const { metrics, native } = this.#core
    if (workflow.calls.length === 0) return
    const took = nowMs - workflow.arrivedAtMs
    metrics.workflowTime.observe(took / 1000)
    if (nowMs > workflow.deadlineMs) metrics.deadlineMisses += 1
    const horizon = native.horizonMs(workflow.slot)
    if (horizon > 0) metrics.ratio.observe(took / horizon)
  }
}
