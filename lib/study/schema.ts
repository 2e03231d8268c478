import { z } from 'zod'
import { MAX_NAME } from '../traces/limits.ts'

// Every message is the X of "Expected X for `field`".

const name = (what: string) => z.string(what).min(1, what).max(MAX_NAME, what)
const GRID = 'a list of numbers, or from:to:step'
const LONGEST = 10_001

const numbers = z
  .union(
    [z.array(z.number(GRID), GRID).min(1, GRID).max(LONGEST, GRID), z.string(GRID), z.number(GRID)],
    GRID,
  )
  .describe('Numbers in the order wanted, one number, or from:to:step.')

const workload = z.union(
  [
    name('a trace file, or chess:1, chess:2, chess:3, mac-sql with or without :workflows'),
    z.strictObject(
      {
        trace: name('a trace file or a generated trace').describe('As the argument of `laxity simulate`.'),
        format: name('the name of a trace format').optional(),
        name: name('a name').optional().describe('What rows call it; default: the trace.'),
      },
      'an object',
    ),
  ],
  'a trace, or { trace, format, name }',
)

const policy = z.union(
  [
    name('the name of a policy'),
    z.strictObject(
      {
        name: name('a name').optional().describe('What rows call it; default: from its parts.'),
        policy: name('the name of a policy').optional().describe('A preset; the other parts override it.'),
        order: name('the name of an order').optional(),
        placement: name('the name of a placement').optional(),
        binding: name('at-reveal or at-credit').optional(),
        migrate: z.boolean('true or false').optional(),
      },
      'an object',
    ),
  ],
  'the name of a policy, or { policy, order, placement, binding, migrate }',
)

const cluster = z
  .union(
    [name("a preset's name or a file"), z.record(z.string(), z.unknown(), 'an object')],
    "a preset's name, a file, or a cluster",
  )
  .describe('A preset, a file beside the study, or the cluster itself (cluster.schema.json).')

const list = <T extends z.ZodType>(item: T, what: string) =>
  z.array(item, what).min(1, what).max(LONGEST, what)

export const studySchema = z.strictObject(
  {
    $schema: z.string().optional(),
    name: name('a name').optional(),
    clusters: list(cluster, 'a list of at least one cluster'),
    workloads: list(workload, 'a list of at least one trace'),
    rates: numbers.optional().describe('Workflows per second; default: the arrivals of the trace, else 0.5.'),
    policies: list(policy, 'a list of at least one policy').optional().describe('Default: hexgen-flow.'),
    parameters: z
      .record(z.string(), numbers, 'an object of lists')
      .optional()
      .describe('alpha, beta and parameters of orders and placements, each with its values.'),
    seeds: numbers.optional().describe('Seeds of the arrivals, common to all other coordinates; default: 1.'),
    scales: numbers.optional().describe('SLO scales whose attainment is kept; default: sloScale.'),
    options: z
      .record(z.string(), z.unknown(), 'an object')
      .optional()
      .describe('Other options of `simulate`, the same for every run.'),
  },
  'an object',
)

/** A study as its file says it. */
export type StudyConfig = z.infer<typeof studySchema>

export function studyJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(studySchema) as Record<string, unknown>
  return { ...schema, title: 'laxity study' }
}
