import type { Scheduler } from '../scheduler/scheduler.ts'
import type { Workflow } from '../scheduler/workflow.ts'
import { schedulingFetch } from './fetch.ts'
import type { HandlerOptions } from './handler.ts'

export interface LangChainOptions extends HandlerOptions {
  /** Longest idle time of a thread's workflow is the scheduler's `workflowIdleMs`; its deadline, from its first call. */
  sloMs?: number | undefined
  tenant?: string | undefined
}

/** Carries what LangGraph knows of a run to `fetch`, which it does not: as headers. */
const STAGE = 'x-laxity-stage'
const SESSION = 'x-session-id'

/**
 * For `ChatOpenAI` of LangChain and LangGraph:
 *
 *     const { configuration, callbacks, callOptions } = schedulingLangChain(scheduler)
 *     const model = new ChatOpenAI({ model: 'm', maxRetries: 0, configuration })
 *     await graph.invoke(input, { callbacks, configurable: { thread_id: 'w1' } })
 *     … inside a node: await model.invoke(messages, callOptions(config))
 *
 * `callOptions` copies node and thread of a run to headers: LangGraph sends neither. The workflow of a thread is ended by
 * the callback when its outermost run ends.
 */
export function schedulingLangChain(scheduler: Scheduler, options: LangChainOptions = {}) {
  const { sloMs, tenant, ...handler } = options
  const workflows = new Map<string, Workflow>()
  const outermost = new Map<string, string>()
  const workflowOf = (thread: string) => {
    const known = workflows.get(thread)
    if (known !== undefined && !known.closed) return known
    const made = scheduler.workflow({
      id: thread,
      ...(sloMs !== undefined && { sloMs }),
      ...(tenant !== undefined && { tenant }),
    })
    workflows.set(thread, made)
    return made
  }
  const end = (runId: string) => {
    const thread = outermost.get(runId)
    if (thread === undefined) return
    outermost.delete(runId)
    workflows.get(thread)?.end()
    workflows.delete(thread)
  }
  return {
    configuration: { baseURL: 'http://scheduler/v1', fetch: schedulingFetch(scheduler, handler) },
    /** A handler in LangChain's plain form (`CallbackHandlerMethods`). */
    callbacks: [
      {
        handleChainStart(
          _chain: unknown,
          _inputs: unknown,
          runId: string,
          _type?: string,
          _tags?: string[],
          metadata?: Record<string, unknown>,
          _name?: string,
          parentRunId?: string,
        ) {
          const thread = threadOf(metadata)
          // LangChain's own order of the last arguments differs between versions: a nested run has a node.
          if (thread === undefined || metadata?.langgraph_node !== undefined || isRunId(parentRunId)) return
          workflowOf(thread)
          outermost.set(runId, thread)
        },
        handleChainEnd(_outputs: unknown, runId: string) {
          end(runId)
        },
        handleChainError(_error: unknown, runId: string) {
          end(runId)
        },
      },
    ],
    callOptions(
      config:
        | {
            metadata?: Record<string, unknown> | undefined
            configurable?: Record<string, unknown> | undefined
            signal?: AbortSignal | undefined
          }
        | undefined,
    ) {
      const thread = threadOf({ ...config?.configurable, ...config?.metadata })
      const node = config?.metadata?.langgraph_node
      if (thread !== undefined) workflowOf(thread)
      const headers = {
        ...(thread !== undefined && { [SESSION]: thread }),
        ...(typeof node === 'string' && node !== '' && { [STAGE]: node }),
      }
      // Streams take their headers from the options themselves, other calls from `options.options`.
      return { ...(config?.signal !== undefined && { signal: config.signal }), headers, options: { headers } }
    },
  }
}

function threadOf(metadata: Record<string, unknown> | undefined): string | undefined {
  const thread = metadata?.thread_id
  return typeof thread === 'string' && thread !== '' && thread.length <= 256 ? thread : undefined
}

function isRunId(value: unknown): boolean {
  return typeof value === 'string' && /^[0-9a-f]{8}-/.test(value)
}
