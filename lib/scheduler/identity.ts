import { createHash } from 'node:crypto'
import { expected, LaxityError } from '../errors.ts'

/** Who asks, as far as a request says it. Levels fill what higher ones leave open. */
export interface Identity {
  /** Workflow, session or program. Undefined: its own workflow of one call. */
  workflow: string | undefined
  parentWorkflow: string | undefined
  tenant: string | undefined
  stage: string | undefined
  /** End-to-end, from arrival. */
  sloMs: number | undefined
  expectedOutputTokens: number | undefined
  /** Which level named the workflow: `argument`, `agentic-context`, `program-id`, a header's name, `metadata`, …; `none`. */
  source: string
}

export interface IdentityOptions {
  /** What the caller knows himself: the first level. */
  argument?: Partial<Omit<Identity, 'source'>> | undefined
  /**
   * `deadline_seconds` of the agentic context bounds the queue wait of a program where it was defined, not its end-to-end
   * time; only with this option it is taken for a deadline. Default false.
   */
  deadlineSeconds?: boolean | undefined
}

type Headers = Headers_ | Readonly<Record<string, string | readonly string[] | undefined>>
interface Headers_ {
  get(name: string): string | null
}

/** Longest component and longest agentic context that are looked at (vllm-project/router's limits). */
const MOST_BYTES = 256
const MOST_CONTEXT_BYTES = 16 * 1024

/** Workflow headers after the body fields, by precedence (live-scheduling 9). */
const SESSION_HEADERS = [
  'x-dynamo-session-id',
  'x-claude-code-session-id',
  'session-id',
  'session_id',
  'thread-id',
  'x-session-id',
  'x-session-affinity',
  'x-smg-routing-key',
  'x-llm-d-inference-fairness-id',
  'x-gateway-inference-fairness-id',
] as const
const PARENT_HEADERS = ['x-dynamo-parent-session-id', 'x-parent-session-id'] as const
const TENANT_HEADERS = ['x-tenant-id', 'x-smg-tenant-id', 'x-user-id'] as const
const SLO_HEADERS = ['x-slo-ms', 'x-laxity-slo-ms', 'x-llm-d-slo-ms'] as const

/**
 * Reads workflow, tenant, stage and deadline from a request's headers and JSON body. A pure function: nothing is kept,
 * nothing is rewritten; what is too long or of the wrong type is passed over.
 *
 * @throws LaxityError ERR_LAXITY_FIELD where headers or options are no objects
 */
export function identify(headers: Headers, body: unknown, options: IdentityOptions = {}): Identity {
  for (const [field, value] of Object.entries({ headers, options }))
    if (typeof value !== 'object' || value === null)
      throw new LaxityError('ERR_LAXITY_FIELD', expected('an object', field, value), field)
  const header = reader(headers)
  const root = record(body)
  const context = agenticContext(root)
  const metadata = record(root?.metadata)
  const argument = (record(options.argument) ?? {}) as NonNullable<IdentityOptions['argument']>
  const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(header('traceparent') ?? '')?.[1]

  const levels: [source: string, value: string | undefined][] = [
    ['argument', text(argument.workflow)],
    ['agentic-context', text(context?.root_program_id) ?? text(context?.program_id)],
    ['program-id', text(root?.program_id)],
    ...SESSION_HEADERS.map((name): [string, string | undefined] => [name, header(name)]),
    [
      'metadata',
      text(metadata?.session_id) ?? text(metadata?.conversation_id) ?? text(metadata?.workflow_id),
    ],
    ['prompt-cache-key', text(root?.prompt_cache_key)],
    ['metadata-user', text(metadata?.user_id)],
    ['session-params', text(record(root?.session_params)?.session_id)],
    ['traceparent', traceparent === '0'.repeat(32) ? undefined : traceparent],
  ]
  const named = levels.find(([, value]) => value !== undefined)
  const first = (names: readonly string[]) => names.map(header).find((value) => value !== undefined)
  return {
    workflow: named?.[1],
    parentWorkflow:
      text(argument.parentWorkflow) ?? text(context?.parent_program_id) ?? first(PARENT_HEADERS),
    tenant: text(argument.tenant) ?? first(TENANT_HEADERS) ?? text(root?.user),
    stage:
      text(argument.stage) ??
      text(context?.step_id) ??
      text(context?.agent_role) ??
      header('x-laxity-stage') ??
      baggage(header('baggage'), 'langgraph_node') ??
      promptStage(root),
    sloMs:
      positive(argument.sloMs) ??
      positive(Number(first(SLO_HEADERS) ?? Number.NaN)) ??
      (options.deadlineSeconds === true ? seconds(context?.deadline_seconds) : undefined),
    expectedOutputTokens:
      positive(argument.expectedOutputTokens) ?? positive(context?.expected_output_length),
    source: named?.[0] ?? 'none',
  }
}

/** The stage of last resort: calls with one model, one system text and one set of tools are of one kind. */
function promptStage(body: Record<string, unknown> | undefined): string | undefined {
  if (body === undefined) return undefined
  const messages = Array.isArray(body.messages) ? (body.messages as unknown[]) : []
  const system = messages
    .map(record)
    .find((message) => message?.role === 'system' || message?.role === 'developer')
  const words = typeof body.system === 'string' ? body.system : system?.content
  const tools = Array.isArray(body.tools) ? (body.tools as unknown[]) : []
  const names = tools.map((tool) => record(record(tool)?.function)?.name ?? record(tool)?.name)
  if (words === undefined && names.length === 0) return undefined
  const key = JSON.stringify([body.model, typeof words === 'string' ? words.slice(0, 4096) : words, names])
  return createHash('sha256').update(key.slice(0, MOST_CONTEXT_BYTES)).digest('hex').slice(0, 16)
}

function agenticContext(body: Record<string, unknown> | undefined): Record<string, unknown> | undefined {
  const context = record(record(body?.vllm_xargs)?.agentic_context)
  if (context === undefined) return undefined
  let bytes = 0
  for (const value of Object.values(context)) if (typeof value === 'string') bytes += Buffer.byteLength(value)
  return bytes <= MOST_CONTEXT_BYTES ? context : undefined
}

function reader(headers: Headers): (name: string) => string | undefined {
  if (typeof (headers as Headers_).get === 'function')
    return (name) => text((headers as Headers_).get(name) ?? undefined)
  const plain = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    const one = Array.isArray(value) ? value[0] : value
    if (typeof one === 'string') plain.set(name.toLowerCase(), one)
  }
  return (name) => text(plain.get(name))
}

function baggage(value: string | undefined, key: string): string | undefined {
  for (const part of value?.split(',') ?? []) {
    const [name, rest] = part.split('=')
    if (name?.trim() !== key || rest === undefined) continue
    try {
      return text(decodeURIComponent(rest.split(';')[0]!.trim()))
    } catch {
      return undefined
    }
  }
  return undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && Buffer.byteLength(value) <= MOST_BYTES
    ? value
    : undefined
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 && value <= 1e9 ? value : undefined
}

function seconds(value: unknown): number | undefined {
  const given = positive(value)
  return given === undefined ? undefined : given * 1000
}

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined
}
