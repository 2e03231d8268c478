import { expected, LaxityError } from '../errors.ts'
import type { ChessOptions } from '../native.ts'
import { chessStageGroups, chessTemplate, pessimisticChessTemplate } from './chess-template.ts'
import { checkWhole, emptyColumns } from './generated.ts'
import { MAX_CALLS } from './limits.ts'
import { DEFAULT_NAME, type TraceTable } from './table.ts'

/** Stage names by the ids that the native generator writes. */
export const CHESS_STAGES = [
  'Information Retriever',
  'extract_keywords',
  'generate_candidate',
  'revise',
  'unit_tester',
  'generate_unit_test',
  'evaluate',
] as const

/** 4 lookups, 1 for keywords, 2 candidates, 10 revisions, 3 testers, 1 for tests, 11 evaluations. */
const MOST_CALLS = 32
const MAX_WORKFLOWS = Math.floor(MAX_CALLS / MOST_CALLS)

/**
 * A generated workload with the statistics of HexGen-Flow's trace 1, 2 or 3 (CHESS on BIRD): same options, same table.
 * It has no arrivals; those are drawn per run.
 *
 * @throws LaxityError ERR_LAXITY_OPTION
 */
export async function chessTrace(options: ChessOptions): Promise<TraceTable> {
  const { workflows, preset, seed } = options
  checkWhole(workflows, 1, MAX_WORKFLOWS, 'workflows')
  if (![1, 2, 3].includes(preset)) {
    throw new LaxityError('ERR_LAXITY_OPTION', expected('1, 2 or 3', 'preset', preset), 'preset')
  }
  checkWhole(seed, 0, Number.MAX_SAFE_INTEGER, 'seed')

  // Loaded here so that reading and writing traces work without the addon.
  const { native } = await import('../native.ts')
  const size = native.chessSize({ workflows, preset, seed })
  const columns = emptyColumns(size)
  native.chessFill({ workflows, preset, seed }, columns)

  const candidate = CHESS_STAGES[2]
  const groups = chessStageGroups(candidate)
  return {
    source: `chess-${preset}`,
    workflows: size.workflows,
    calls: size.calls,
    columns,
    stages: CHESS_STAGES,
    models: [DEFAULT_NAME],
    tenants: [DEFAULT_NAME],
    template: chessTemplate(candidate),
    pessimisticTemplate: pessimisticChessTemplate(candidate),
    stageGroups: CHESS_STAGES.map((stage) => groups.get(stage)!),
  }
}
