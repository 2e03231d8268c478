import { LaxityError } from '../errors.ts'
import type { Lease } from '../scheduler/lease.ts'
import { type OutcomeClass, retryAfterMs } from '../scheduler/outcome.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import type { CallOptions, Workflow } from '../scheduler/workflow.ts'

/** Where an agent's calls belong: one workflow for all of them, or one found for each. */
export interface AgentOptions {
  /** Its workflow; left out, each call is a workflow of its own. */
  workflow?: Workflow | undefined
  /** What kind of call it is; left out, the model's id. */
  stage?: string | undefined
  /** Further facts: overrides what is read from the call. */
  describe?: ((call: unknown) => Partial<CallOptions>) | undefined
}

/** What a call that has begun is told and asked. */
export interface Begun {
  readonly lease: Lease
  firstToken(): void
  done(outputTokens: number | undefined): void
  /** True where it goes on with another lease, which `lease` is then. */
  failed(error: unknown, clientBytes: number): Promise<boolean>
  cancel(): void
}

/** Leases a call for code that sends the request itself. `over` ends what was opened for it. */
export async function begin(
  scheduler: Scheduler,
  options: AgentOptions,
  call: CallOptions,
  raw: unknown,
): Promise<Begun> {
  if (scheduler.paired)
    throw new LaxityError(
      'ERR_LAXITY_STATE',
      'This adapter serves unified clusters: use `laxity/fetch` for pairs',
    )
  const own = options.workflow === undefined
  const workflow = options.workflow ?? scheduler.workflow()
  const over = () => {
    if (own) workflow.end()
  }
  let lease: Lease
  try {
    lease = await workflow.call({
      ...call,
      ...(options.stage !== undefined && { stage: options.stage }),
      ...options.describe?.(raw),
    })
  } catch (error) {
    over()
    throw error
  }
  return {
    get lease() {
      return lease
    },
    firstToken: () => lease.firstToken(),
    done: (outputTokens) => {
      lease.done(outputTokens === undefined ? {} : { outputTokens })
      over()
    },
    failed: async (error, clientBytes) => {
      const next = await lease.failed(outcomeOf(error, clientBytes))
      if (next === null) {
        over()
        return false
      }
      lease = next
      return true
    },
    cancel: () => {
      lease.cancel()
      over()
    },
  }
}

/** Errors of HTTP clients: `status` (openai, LangChain) or `statusCode` (AI SDK), headers in several shapes. */
function outcomeOf(error: unknown, clientBytes: number) {
  const e = (error ?? {}) as {
    status?: unknown
    statusCode?: unknown
    headers?: unknown
    responseHeaders?: unknown
  }
  const status = [e.status, e.statusCode].find(
    (n): n is number => Number.isInteger(n) && (n as number) >= 100,
  )
  const wait = retryAfterMs(header(e.headers ?? e.responseHeaders, 'retry-after'), Date.now())
  return {
    error,
    clientBytes,
    ...(status !== undefined && status <= 999 && { status }),
    ...(wait !== undefined && { retryAfterMs: wait }),
  } satisfies { class?: OutcomeClass; [name: string]: unknown }
}

function header(headers: unknown, name: string): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  const get = (headers as { get?: unknown }).get
  const value =
    typeof get === 'function' ? get.call(headers, name) : (headers as Record<string, unknown>)[name]
  return typeof value === 'string' ? value : undefined
}

/** Tokens of a prompt that nobody has counted: bytes / 4. */
export function roughTokens(prompt: unknown): number {
  const text = typeof prompt === 'string' ? prompt : (JSON.stringify(prompt) ?? '')
  return Math.max(1, Math.ceil(text.length / 4))
}

/** A whole number of tokens, or nothing. */
export function tokens(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= 100_000_000
    ? (value as number)
    : undefined
}
