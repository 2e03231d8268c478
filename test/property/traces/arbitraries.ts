import fc from 'fast-check'
import type { Call, Header, Workflow } from '../../../lib/traces/jsonl-lines.ts'

// Valid traces. Names are drawn from few and odd ones, so that they collide, need escapes and look like default ids.

const name = fc.oneof(
  fc.constantFrom(
    's',
    't',
    'default',
    'c0',
    'c1',
    'w0',
    'w1',
    '7',
    '12',
    'toString',
    'ä€😀',
    '"\\\n\u0000',
    '\ud800',
  ),
  fc.string({ minLength: 1, maxLength: 8 }).filter((text) => text !== '__proto__'),
)
const tokens = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(1, 99_999_999, 100_000_000))
const duration = fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.double({ min: 0, max: 1e9, noNaN: true }))

/** The record without the fields that are undefined. */
function present<T extends object>(record: T): T {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as T
}

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

const callFields = fc.record({
  stage: name,
  model: optional(name),
  toolGapMs: optional(duration),
  promptTokens: tokens,
  cachedTokens: optional(fc.integer({ min: 0, max: 60 })),
  outputTokens: tokens,
  predictedTokens: optional(tokens),
})

/** Parents point to earlier calls in `order`, a permutation of the calls, so that the file may list them in any order. */
const calls: fc.Arbitrary<Call[]> = fc
  .oneof(
    fc.uniqueArray(name, { minLength: 1, maxLength: 6 }),
    fc.integer({ min: 1, max: 6 }).map((n) => Array.from({ length: n }, (_, i) => `c${i}`)),
  )
  .chain((ids) =>
    fc.record({
      ids: fc.constant(ids),
      order: fc.oneof(fc.constant(ids), fc.shuffledSubarray(ids, { minLength: ids.length })),
      fields: fc.array(callFields, { minLength: ids.length, maxLength: ids.length }),
      parents: fc.array(optional(fc.subarray(ids)), { minLength: ids.length, maxLength: ids.length }),
    }),
  )
  .map(({ ids, order, fields, parents }) =>
    ids.map((id, i) => {
      const call = fields[i]!
      const earlier = parents[i]?.filter((parent) => order.indexOf(parent) < order.indexOf(id))
      const cached =
        call.cachedTokens === undefined ? undefined : Math.min(call.cachedTokens, call.promptTokens - 1)
      return present({ ...call, id, parents: earlier, cachedTokens: cached }) as unknown as Call
    }),
  )

const arrival = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.double({ min: 0, max: 4e12, noNaN: true }))

export const workflows: fc.Arbitrary<Workflow[]> = fc
  .record({
    ids: fc.oneof(
      fc.uniqueArray(name, { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 6 }).map((n) => Array.from({ length: n }, (_, i) => `w${i}`)),
    ),
    hasArrivals: fc.boolean(),
    rows: fc.array(
      fc.record({
        tenant: optional(name),
        sloMs: optional(duration.map((value) => value + 0.5).filter((value) => value <= 1e9)),
        arrivedAtMs: arrival,
        calls,
      }),
      { minLength: 6, maxLength: 6 },
    ),
  })
  .map(({ ids, hasArrivals, rows }) =>
    ids.map((id, i) => {
      const row = rows[i]!
      return present({
        ...row,
        id,
        arrivedAtMs: hasArrivals ? row.arrivedAtMs : undefined,
      }) as unknown as Workflow
    }),
  )

export const header: fc.Arbitrary<Header | undefined> = optional(
  fc
    .record({
      template: optional(
        fc.array(fc.record({ stage: name, promptTokens: tokens, outputTokens: tokens }), {
          minLength: 1,
          maxLength: 5,
        }),
      ),
      pessimisticTemplate: optional(
        fc.array(fc.record({ stage: name, promptTokens: tokens, outputTokens: tokens }), {
          minLength: 1,
          maxLength: 5,
        }),
      ),
      stageGroups: optional(fc.dictionary(name, name)),
      context: optional(fc.constantFrom('new' as const, 'full' as const)),
    })
    .map((fields) => present({ laxity: 'trace', version: 1, ...fields }) as unknown as Header),
)

export function toJsonl(lines: readonly unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}
