import { expected, LaxityError, suggestion } from '../errors.ts'
import { AGENTIC_WORKLOADS, type AgenticWorkload, agenticTrace } from './agentic.ts'
import { chessTrace } from './chess.ts'
import type { ContextPreset } from './context.ts'
import { macSqlTrace } from './mac-sql.ts'
import type { TraceTable } from './table.ts'

/** Workflows where none are given: those of the published traces and evaluations, 100 for the last two. */
const USUAL_WORKFLOWS = {
  'chess:1': 90,
  'chess:2': 96,
  'chess:3': 110,
  'mac-sql': 150,
  sharegpt: 100,
  bfcl: 400,
  lats: 100,
  mixed: 100,
  chains: 100,
  agents: 100,
} as const

export type WorkloadName = keyof typeof USUAL_WORKFLOWS

export const WORKLOADS = Object.keys(USUAL_WORKFLOWS) as readonly WorkloadName[]

export interface WorkloadOptions {
  /** Default: those of the published trace or evaluation. */
  workflows?: number | undefined
  /** Default 1. */
  seed?: number | undefined
  /** What prompts hold, for the workloads of agents; default `new`. The others have no history. */
  context?: ContextPreset | undefined
  /** Calls of a workflow of `chains`; default 8. */
  chainCalls?: number | undefined
}

/**
 * A generated workload by name: same name and options, same table. It has no arrivals; those are drawn per run.
 *
 * @throws LaxityError ERR_LAXITY_OPTION
 */
export async function generateWorkload(
  name: WorkloadName,
  options: WorkloadOptions = {},
): Promise<TraceTable> {
  if (!WORKLOADS.includes(name)) {
    const hint = typeof name === 'string' ? suggestion(name, WORKLOADS) : ''
    const message = `${expected(`one of ${WORKLOADS.join(', ')}`, 'workload', name)}${hint}`
    throw new LaxityError('ERR_LAXITY_OPTION', message, 'workload')
  }
  const { workflows = USUAL_WORKFLOWS[name], seed = 1, context, chainCalls } = options
  if (AGENTIC_WORKLOADS.includes(name as AgenticWorkload)) {
    return agenticTrace({ workload: name as AgenticWorkload, workflows, seed, context, chainCalls })
  }
  for (const [field, value] of Object.entries({ context, chainCalls })) {
    if (value === undefined) continue
    throw new LaxityError(
      'ERR_LAXITY_OPTION',
      `\`${field}\` has no meaning for the workload "${name}"`,
      field,
    )
  }
  if (name === 'mac-sql') return macSqlTrace({ workflows, seed })
  return chessTrace({ workflows, preset: Number(name.slice(-1)) as 1 | 2 | 3, seed })
}
