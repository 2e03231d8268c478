import { z } from 'zod'
import { COLUMN_TYPES } from './columns.ts'
import { CALL_COLUMNS, WORKFLOW_COLUMNS } from './per-call.ts'

// As in cluster/schema.ts, every message is the X of "Expected X for `field`". Objects are loose: what a report does not
// show may be there. Numbers may be null: JSON has no infinity.

/** Columns beyond this are the wrong file. */
const MOST_VALUES = 100_000_000
const MOST_NAMES = 65_535

const text = z.string('a text')
const texts = z.array(text, 'texts')
const names = texts.max(MOST_NAMES, `at most ${MOST_NAMES} names`)
const real = z.number('a number')
const measured = z.union([real, z.null()], 'a number or null')
const count = z.int('a whole number').min(0, 'a whole number >= 0')
const pairs = z.array(z.tuple([real, real], 'a pair of numbers'), 'pairs of numbers')

const policy = z.looseObject(
  { order: text, placement: text, binding: text, migrate: z.boolean('true or false').optional() },
  'an object',
)

const shape = z.looseObject(
  {
    cv: real.optional(),
    burstSize: real.optional(),
    burstGapMs: real.optional(),
    rateStep: z.looseObject({ fromMs: real, lengthMs: real, factor: real }, 'an object').optional(),
  },
  'an object',
)

const setup = z.looseObject(
  {
    policy,
    parameters: z.record(z.string(), real, 'an object of numbers').optional(),
    knowledge: text,
    feedback: text,
    lookahead: real.optional(),
    arrivals: text,
    rate: real.optional(),
    arrivalShape: shape.optional(),
    sloScale: real,
    sloBase: text,
    seeds: z.looseObject({ arrivals: real, ties: real, placement: real }, 'an object'),
    compat: text.optional(),
    error: text.optional(),
    trace: z.looseObject({ source: text, workflows: count, calls: count }, 'an object'),
    cluster: z.looseObject(
      {
        name: text,
        instances: z.array(
          z.looseObject({ label: text, count, mode: text, kvTokens: real, maxSequences: real }, 'an object'),
          'a list',
        ),
      },
      'an object',
    ),
    alpha: real.optional(),
    replication: real.optional(),
    replications: real.optional(),
  },
  'an object',
)

const tenants = z.array(
  z.looseObject(
    {
      name: text,
      sloScale: measured,
      workflows: real,
      completed: real,
      p50Ms: measured,
      p95Ms: measured,
      p99Ms: measured,
      meanMs: measured,
      sloScale95: measured,
      attainment: real,
      normalisedMean: measured,
    },
    'an object',
  ),
  'a list',
)
const fairness = z.looseObject({ attainment: measured, normalisedLatency: measured }, 'an object')

const column = z.strictObject(
  {
    type: z.enum(COLUMN_TYPES, COLUMN_TYPES.map((type) => `"${type}"`).join(', ')),
    length: z.int('a whole number').min(0, 'a whole number >= 0').max(MOST_VALUES, `at most ${MOST_VALUES}`),
    data: text,
  },
  'a column',
)
const columnsOf = <T extends object>(types: T) =>
  z.strictObject(
    Object.fromEntries(Object.keys(types).map((name) => [name, column])) as Record<keyof T, typeof column>,
    'an object of columns',
  )

const perCall = z.strictObject(
  {
    version: z.literal(1, '1'),
    stages: names,
    tenants: names,
    instances: z
      .array(z.looseObject({ label: text, kvTokens: real, maxSequences: real }, 'an object'), 'a list')
      .max(MOST_NAMES, `at most ${MOST_NAMES} instances`),
    workflowIds: texts.optional(),
    callIds: texts.optional(),
    workflows: columnsOf(WORKFLOW_COLUMNS),
    calls: columnsOf(CALL_COLUMNS),
    parents: column,
  },
  'an object',
)

const metrics = z.looseObject(
  {
    meanMs: measured,
    p50Ms: measured,
    p95Ms: measured,
    p99Ms: measured,
    sloScale95: measured,
    throughputPerS: measured,
    makespanMs: measured,
  },
  'an object',
)

export const simulateSchema = z.looseObject(
  {
    command: z.literal('simulate'),
    setup: setup.optional(),
    policy,
    knowledge: text,
    feedback: text,
    arrivals: text,
    trace: z.looseObject({ workflows: count, calls: count }, 'an object'),
    cluster: text,
    metrics,
    counts: z.looseObject(
      {
        workflows: real,
        completed: real,
        calls: real,
        rejected: real,
        evictions: real,
        hiddenEvictions: real,
      },
      'an object',
    ),
    cache: z.looseObject({ hitRate: real }, 'an object').optional(),
    tenants: tenants.optional(),
    fairness: fairness.optional(),
    perCall: perCall.optional(),
  },
  'an object',
)

const bound = z.looseObject(
  {
    bound95: measured,
    bound99: measured,
    bound100: measured,
    over95: measured,
    over99: measured,
    over100: measured,
    reference95: measured.optional(),
    reference99: measured.optional(),
    reference100: measured.optional(),
  },
  'an object',
)

const sweepPoint = z.looseObject(
  {
    alpha: real,
    p95Ms: measured,
    p99Ms: measured,
    meanMs: measured,
    sloScale95: measured,
    throughputPerS: measured,
    ci95Ms: z.union([z.tuple([real, real]), z.null()], 'a pair of numbers or null'),
    attainment: pairs,
    tenants: tenants.optional(),
    fairness: fairness.optional(),
    bound: bound.optional(),
  },
  'an object',
)

export const tuneSchema = z.looseObject(
  {
    command: z.literal('tune'),
    objective: text,
    knowledge: text,
    setup: setup.optional(),
    trace: z.looseObject({ workflows: count, calls: count }, 'an object'),
    cluster: text,
    points: z.array(sweepPoint, 'a list').min(1, 'at least one point'),
    best: z.looseObject({ alpha: real, indistinguishable: z.array(real, 'numbers') }, 'an object'),
    run: simulateSchema.optional(),
  },
  'an object',
)

const percentiles = z.union([z.looseObject({ p50: measured, p99: measured }), z.null()], 'p50 and p99')

export const compareSchema = z.looseObject(
  {
    command: z.literal('compare'),
    rows: z
      .array(
        z.looseObject(
          {
            policy: text,
            workload: text,
            cluster: text,
            load: real,
            knowledge: text,
            feedback: text,
            req95: measured.optional(),
            req99: measured.optional(),
            p95Ms: measured.optional(),
            p99Ms: measured.optional(),
            meanMs: measured.optional(),
            throughputPerS: measured.optional(),
            evictions: measured.optional(),
            planUs: percentiles.optional(),
            attainment: pairs.optional(),
            bound: bound.optional(),
          },
          'an object',
        ),
        'a list',
      )
      .min(1, 'at least one row'),
  },
  'an object',
)

const seedMean = {
  mean: measured,
  ci95: z.union([z.tuple([real, real]), z.null()], 'a pair of numbers or null'),
}
const mean = z.looseObject(seedMean, 'an object')

export const studyDocumentSchema = z.looseObject(
  {
    command: z.literal('study'),
    id: text,
    name: text,
    version: text,
    runs: count,
    doneRuns: count,
    seeds: z.array(real, 'numbers').min(1, 'at least one seed'),
    options: z.record(z.string(), z.unknown(), 'an object'),
    cells: z
      .array(
        z.looseObject(
          {
            cluster: text,
            workload: text,
            rate: measured,
            policy: text,
            parameters: z.record(z.string(), real, 'an object of numbers'),
            seeds: count,
            meanMs: mean,
            p95Ms: mean,
            sloScale95: mean,
            attainment: z.array(z.looseObject({ scale: real, ...seedMean }, 'an object'), 'a list'),
          },
          'an object',
        ),
        'a list (studies of more cells have none)',
      )
      .min(1, 'at least one cell'),
  },
  'an object',
)

export const SCHEMAS = {
  simulate: simulateSchema,
  tune: tuneSchema,
  compare: compareSchema,
  study: studyDocumentSchema,
} as const

export type Command = keyof typeof SCHEMAS
export type BoundDocument = z.infer<typeof bound>
export type SetupDocument = z.infer<typeof setup>
export type SimulateDocument = z.infer<typeof simulateSchema>
export type TuneDocument = z.infer<typeof tuneSchema>
export type CompareDocument = z.infer<typeof compareSchema>
export type StudyDocument = z.infer<typeof studyDocumentSchema>
export type ResultDocument = SimulateDocument | TuneDocument | CompareDocument | StudyDocument
