/**
 * Watches a stream of server-sent events in OpenAI's form as its bytes pass: when the first token comes, how it ends, what
 * was used. Every byte is looked at once; only events that carry usage or an error are parsed; nothing accumulates but the
 * line that is not complete yet.
 */
export class StreamWatch {
  /** A chunk with content, reasoning or tool arguments was seen: the role alone is no token (wire-protocols 1). */
  firstToken = false
  /** `[DONE]`, a finish reason or a final event was seen. */
  finished = false
  /** An error event inside the stream. */
  error: { status: number | undefined; message: string } | undefined
  /** From the usage event, else the number of content events. */
  outputTokens = 0
  cachedTokens: number | undefined
  #usage = false
  #rest = ''
  #skipping = false
  readonly #decoder = new TextDecoder()

  /** Bytes as they came; events may span or share chunks. */
  push(chunk: Uint8Array): void {
    const text = this.#decoder.decode(chunk, { stream: true })
    let from = 0
    for (;;) {
      const to = text.indexOf('\n', from)
      if (to < 0) break
      if (!this.#skipping) this.#line(this.#rest + text.slice(from, to))
      this.#rest = ''
      this.#skipping = false
      from = to + 1
    }
    if (this.#skipping) return
    this.#rest += text.slice(from)
    // A line without end is not buffered for ever; what it says is lost, the bytes have passed.
    if (this.#rest.length > MOST_LINE) {
      this.#rest = ''
      this.#skipping = true
    }
  }

  /** The stream has ended. */
  end(): void {
    if (this.#rest !== '') this.#line(this.#rest)
    this.#rest = ''
  }

  #line(line: string): void {
    if (!line.startsWith('data:')) return
    if (line.startsWith('data: [DONE]') || line.startsWith('data:[DONE]')) {
      this.finished = true
      return
    }
    if (TOKEN.test(line)) {
      this.firstToken = true
      if (!this.#usage) this.outputTokens += 1
    }
    if (!this.finished && FINISH.test(line)) this.finished = true
    if (USAGE.test(line) || ERROR.test(line)) this.#parse(line.slice(5))
  }

  #parse(json: string): void {
    let event: Record<string, unknown>
    try {
      event = JSON.parse(json) as Record<string, unknown>
    } catch {
      return
    }
    if (typeof event !== 'object' || event === null) return
    if (typeof event.error === 'object' && event.error !== null) {
      const { message, code } = event.error as Record<string, unknown>
      const status = Number(code)
      this.error = {
        status: Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined,
        message: String(message ?? 'error'),
      }
    }
    const usage = usageOf(event)
    if (usage === undefined) return
    this.#usage = true
    this.outputTokens = usage.outputTokens
    this.cachedTokens = usage.cachedTokens
  }
}

const MOST_LINE = 1 << 20
/** Content, reasoning, tool arguments or a plain completion's text, not empty. */
const TOKEN = /"(?:content|reasoning_content|reasoning|arguments|text|delta)"\s*:\s*"[^"]/
const FINISH = /"finish_reason"\s*:\s*"|"type"\s*:\s*"(?:response\.completed|message_stop)"/
const USAGE = /"usage"\s*:\s*\{/
const ERROR = /"error"\s*:\s*\{/

/** Usage of a response or of an event, in OpenAI's or Anthropic's form. */
export function usageOf(
  body: Record<string, unknown>,
): { outputTokens: number; cachedTokens: number | undefined } | undefined {
  const holder = (body.usage ?? (body.response as Record<string, unknown> | undefined)?.usage) as
    | Record<string, unknown>
    | undefined
  if (typeof holder !== 'object' || holder === null) return undefined
  const output = holder.completion_tokens ?? holder.output_tokens
  if (!Number.isSafeInteger(output) || (output as number) < 0) return undefined
  const details = holder.prompt_tokens_details as Record<string, unknown> | undefined
  const cached = details?.cached_tokens
  return {
    outputTokens: output as number,
    cachedTokens: Number.isSafeInteger(cached) && (cached as number) >= 0 ? (cached as number) : undefined,
  }
}
