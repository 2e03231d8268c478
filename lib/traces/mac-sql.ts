import type { MacSqlOptions } from '../native.ts'
import { checkWhole, emptyColumns } from './generated.ts'
import { MAX_CALLS } from './limits.ts'
import { DEFAULT_NAME, type TemplateEntry, type TraceTable } from './table.ts'

/** Stage names by the ids that the native generator writes. */
export const MAC_SQL_STAGES = ['Selector', 'Decomposer', 'Refiner'] as const

/** Selector, Decomposer, four Refiners. */
const MOST_CALLS = 6
const MAX_WORKFLOWS = Math.floor(MAX_CALLS / MOST_CALLS)

/** What every MAC-SQL workflow is expected to do: the authors' (input, output) per step, in tokens. */
function macSqlTemplate(): TemplateEntry[] {
  const entry = (stage: string, promptTokens: number, outputTokens: number) => ({
    stage,
    promptTokens,
    outputTokens,
  })
  const refiners = Array.from({ length: 4 }, () => entry('Refiner', 1729, 555))
  return [entry('Selector', 2962, 143), entry('Decomposer', 2310, 215), ...refiners]
}

/**
 * A generated workload with the statistics of HexGen-Flow's MAC-SQL workflows (Qwen3-30B on Spider): same options, same
 * table. It has no arrivals; those are drawn per run (the paper: Poisson, 2.5 and 5 workflows per second).
 *
 * @throws LaxityError ERR_LAXITY_OPTION
 */
export async function macSqlTrace(options: MacSqlOptions): Promise<TraceTable> {
  const { workflows, seed } = options
  checkWhole(workflows, 1, MAX_WORKFLOWS, 'workflows')
  checkWhole(seed, 0, Number.MAX_SAFE_INTEGER, 'seed')

  // Loaded here so that reading and writing traces work without the addon.
  const { native } = await import('../native.ts')
  const size = native.macSqlSize({ workflows, seed })
  const columns = emptyColumns(size)
  native.macSqlFill({ workflows, seed }, columns)
  return {
    source: 'mac-sql',
    workflows: size.workflows,
    calls: size.calls,
    columns,
    stages: MAC_SQL_STAGES,
    models: [DEFAULT_NAME],
    tenants: [DEFAULT_NAME],
    template: macSqlTemplate(),
  }
}
