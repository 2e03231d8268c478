import { describe } from '../errors.ts'
import { hint } from '../report/near.ts'
import type { Column } from '../simulator/chunk.ts'
import type { OptionReader } from '../simulator/validate.ts'

/** What a sweep minimises; `attainment` (the share of workflows within scale × base) is maximised. */
export type Objective = 'p95' | 'p99' | 'mean' | 'sloScale95' | { attainment: number }

const COLUMN = {
  p95: 'p95Ms',
  p99: 'p99Ms',
  mean: 'meanMs',
  sloScale95: 'sloScale95',
} as const satisfies Record<string, Column>

const NAMES = [...Object.keys(COLUMN), 'attainment@SCALE']

/** The result column an objective reads; undefined for attainment. */
export function objectiveColumn(objective: Objective): Column | undefined {
  return typeof objective === 'string' ? COLUMN[objective] : undefined
}

/** `p95`, …, `attainment@5`. */
export function objectiveName(objective: Objective): string {
  return typeof objective === 'string' ? objective : `attainment@${objective.attainment}`
}

/** Also accepts the name of an attainment objective, as on the command line. */
export function readObjective(reader: OptionReader): Objective {
  const value = reader.raw('objective')
  if (value === undefined) return 'p95'
  if (typeof value === 'string') {
    if (Object.hasOwn(COLUMN, value)) return value as Objective
    const at = /^attainment@(\d+(?:\.\d+)?)$/.exec(value)?.[1]
    if (at !== undefined && isScale(Number(at))) return { attainment: Number(at) }
  } else if (typeof value === 'object' && value !== null) {
    const { attainment, ...rest } = value as Record<string, unknown>
    if (isScale(attainment) && Object.keys(rest).length === 0) return { attainment }
  }
  reader.add(
    `Expected an objective for \`objective\`, got ${describe(value)}${hint(value, NAMES)}`,
    'objective',
  )
  return 'p95'
}

function isScale(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value <= 1e6
}
