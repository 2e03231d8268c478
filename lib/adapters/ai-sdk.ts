import type { Lease } from '../scheduler/lease.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import { type AgentOptions, type Begun, begin, roughTokens, tokens } from './call.ts'

/** What is used of the AI SDK's language models (`LanguageModelV3`, `V2`): no dependency on its packages. */
interface Model {
  readonly modelId: string
  doGenerate(options: CallParams): PromiseLike<Generated>
  doStream(options: CallParams): PromiseLike<{ stream: ReadableStream<Part> }>
}
interface CallParams {
  prompt: unknown
  maxOutputTokens?: number | undefined
  abortSignal?: AbortSignal | undefined
}
interface Usage {
  outputTokens?: number | { total?: number | undefined } | undefined
}
interface Generated {
  usage?: Usage | undefined
}
interface Part {
  type: string
  usage?: Usage | undefined
  error?: unknown
}

export interface AiSdkOptions extends AgentOptions {
  /** The model at an instance's URL: `({ url }) => createOpenAICompatible({ baseURL: `${url}/v1`, … })(id)`. */
  model: (lease: Lease) => unknown
}

/**
 * Middleware for `wrapLanguageModel`: the wrapped model says what is asked, the leased instance's answers. Retries before
 * the first part only; set `maxRetries: 0` where it is called, since retries are the scheduler's.
 *
 *     const model = wrapLanguageModel({ model: provider('m'), middleware: schedulingModel(scheduler, { workflow, model }) })
 */
export function schedulingModel(scheduler: Scheduler, options: AiSdkOptions) {
  const open = async (model: Model, params: CallParams, stream: boolean): Promise<Begun> => {
    params.abortSignal?.throwIfAborted()
    const most = tokens(params.maxOutputTokens)
    return begin(
      scheduler,
      options,
      {
        promptTokens: roughTokens(params.prompt),
        stage: model.modelId,
        stream,
        ...(most !== undefined && { maxOutputTokens: most }),
        ...(params.abortSignal !== undefined && { signal: params.abortSignal }),
      },
      params,
    )
  }
  const at = (begun: Begun): Model => options.model(begun.lease) as Model
  const within = (params: CallParams, { lease }: Begun): CallParams => ({
    ...params,
    abortSignal:
      params.abortSignal === undefined ? lease.signal : AbortSignal.any([params.abortSignal, lease.signal]),
  })
  return {
    specificationVersion: 'v3' as const,
    wrapGenerate: async ({ params, model }: { params: CallParams; model: Model }): Promise<never> => {
      const begun = await open(model, params, false)
      for (;;) {
        try {
          const result = await at(begun).doGenerate(within(params, begun))
          begun.done(outputTokens(result.usage))
          return result as never
        } catch (error) {
          await goesOn(begun, params, error)
        }
      }
    },
    wrapStream: async ({ params, model }: { params: CallParams; model: Model }): Promise<never> => {
      const begun = await open(model, params, true)
      for (;;) {
        try {
          const result = await at(begun).doStream(within(params, begun))
          return { ...result, stream: tap(result.stream, begun) } as never
        } catch (error) {
          await goesOn(begun, params, error)
        }
      }
    },
  }
}

/** Returns where there is another attempt, and throws where there is none. */
async function goesOn(begun: Begun, params: CallParams, error: unknown): Promise<void> {
  if (params.abortSignal?.aborted) {
    begun.cancel()
    throw error
  }
  const lost = begun.lease.signal.aborted ? new Error('lost', { cause: error }) : error
  if (!(await begun.failed(lost, 0))) throw error
}

/** The stream as it is; the lease learns of its first token and its end. */
function tap(stream: ReadableStream<Part>, begun: Begun): ReadableStream<Part> {
  const reader = stream.getReader()
  let first = true
  let usage: number | undefined
  let failure: { error: unknown } | undefined
  return new ReadableStream<Part>({
    async pull(controller) {
      let part: Awaited<ReturnType<typeof reader.read>>
      try {
        part = await reader.read()
      } catch (error) {
        void begun.failed(error, 1)
        controller.error(error)
        return
      }
      if (part.done) {
        if (failure !== undefined) void begun.failed(failure.error, 1)
        else begun.done(usage)
        controller.close()
        return
      }
      const { type } = part.value
      if (first && /^(text|reasoning|tool-input)-delta$|^tool-call$/.test(type)) {
        first = false
        begun.firstToken()
      } else if (type === 'finish') usage = outputTokens(part.value.usage)
      else if (type === 'error') failure = { error: part.value.error }
      controller.enqueue(part.value)
    },
    async cancel(reason) {
      begun.cancel()
      await reader.cancel(reason)
    },
  })
}

function outputTokens(usage: Usage | undefined): number | undefined {
  const given = usage?.outputTokens
  return tokens(typeof given === 'object' ? given?.total : given)
}
