import { expected, LaxityError } from '../errors.ts'
import type { TraceColumns } from '../native.ts'
import { sharedColumn } from './columns.ts'
import { CONTEXT_PRESETS, type ContextPreset, readContext } from './context.ts'
import { checkWhole, emptyColumns } from './generated.ts'
import { MAX_CALLS } from './limits.ts'
import { Names } from './names.ts'
import { DEFAULT_NAME, type TraceTable } from './table.ts'

/** Names by the kinds of the native generator. */
export const AGENTIC_WORKLOADS = ['sharegpt', 'bfcl', 'lats', 'mixed', 'chains', 'agents'] as const

export type AgenticWorkload = (typeof AGENTIC_WORKLOADS)[number]

/** Stage names by the ids that the native generator writes. Imported sessions of the same kinds use them too. */
export const AGENTIC_STAGES = ['chat', 'tool', 'answer', 'expand', 'value', 'step', 'sub-agent'] as const

export const DEFAULT_CHAIN_CALLS = 8
const MAX_CHAIN_CALLS = 1000
const MAX_WORKFLOWS = 250_000

export interface AgenticOptions {
  /**
   * `sharegpt`: chat chains; `bfcl`: tool chains (BFCL v3 multi-turn); `lats`: tree searches; `mixed`: equal thirds of
   * the three; `chains`: chains of equally many calls; `agents`: coding sessions with tool gaps and sub-agents.
   */
  workload: AgenticWorkload
  workflows: number
  seed: number
  /** Default `new`. */
  context?: ContextPreset | undefined
  /** Calls of a workflow of `chains`; default 8. */
  chainCalls?: number | undefined
}

/**
 * A generated workload of agents with published statistics: same options, same table. It has no arrivals; those are
 * drawn per run. Workflow i is the same whatever `workflows` is.
 *
 * @throws LaxityError ERR_LAXITY_OPTION
 */
export async function agenticTrace(options: AgenticOptions): Promise<TraceTable> {
  const { workload, workflows, seed, context = 'new', chainCalls = DEFAULT_CHAIN_CALLS } = options
  const kind = AGENTIC_WORKLOADS.indexOf(workload)
  if (kind < 0) {
    const what = `one of ${AGENTIC_WORKLOADS.join(', ')}`
    throw new LaxityError('ERR_LAXITY_OPTION', expected(what, 'workload', workload), 'workload')
  }
  checkWhole(workflows, 1, MAX_WORKFLOWS, 'workflows')
  checkWhole(seed, 0, Number.MAX_SAFE_INTEGER, 'seed')
  readContext(context)
  checkWhole(chainCalls, 1, MAX_CHAIN_CALLS, 'chainCalls')
  if (options.chainCalls !== undefined && workload !== 'chains') {
    throw new LaxityError('ERR_LAXITY_OPTION', '`chainCalls` needs the workload "chains"', 'chainCalls')
  }
  if (workload === 'chains' && workflows * chainCalls > MAX_CALLS) throw tooManyCalls(workflows * chainCalls)

  // Loaded here so that reading and writing traces work without the addon.
  const { native } = await import('../native.ts')
  const spec = { kind, context: CONTEXT_PRESETS.indexOf(context), workflows, seed, chainCalls }
  const size = native.agenticSize(spec)
  if (size.calls > MAX_CALLS) throw tooManyCalls(size.calls)
  const columns = {
    ...emptyColumns(size),
    cachedTokens: sharedColumn(Uint32Array, size.calls),
    toolGapMs: sharedColumn(Float64Array, size.calls),
  }
  native.agenticFill(spec, columns)
  const stages = renumberStages(columns.stage)
  return {
    source: workload,
    workflows: size.workflows,
    calls: size.calls,
    columns: withoutZeros(columns),
    stages,
    models: [DEFAULT_NAME],
    tenants: [DEFAULT_NAME],
    context,
  }
}

function tooManyCalls(calls: number): LaxityError {
  const message = `Fewer \`workflows\`: ${calls} calls are more than the ${MAX_CALLS} of one trace`
  return new LaxityError('ERR_LAXITY_OPTION', message, 'workflows')
}

/** Ids in the order of their first rows, as every table has them. Gives the names by id. */
function renumberStages(stage: Uint16Array): readonly string[] {
  const names = new Names()
  const ids = new Map<number, number>()
  for (let row = 0; row < stage.length; row++) {
    const before = stage[row]!
    let id = ids.get(before)
    if (id === undefined) {
      id = names.id(AGENTIC_STAGES[before]!)
      ids.set(before, id)
    }
    stage[row] = id
  }
  return names.list
}

/** Without the optional columns that say nothing, as the readers leave them out. */
function withoutZeros(
  columns: TraceColumns & Required<Pick<TraceColumns, 'cachedTokens' | 'toolGapMs'>>,
): TraceColumns {
  const { cachedTokens, toolGapMs, ...always } = columns
  const says = (column: Uint32Array | Float64Array) => column.some((value) => value !== 0)
  return {
    ...always,
    ...(says(cachedTokens) && { cachedTokens }),
    ...(says(toolGapMs) && { toolGapMs }),
  }
}
