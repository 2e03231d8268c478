import { z } from 'zod'
import type { ClusterConfig, InstanceConfig } from '../cluster/config.ts'
import { expected } from '../errors.ts'
import { hint } from '../report/near.ts'
import { Problems } from '../report/problems.ts'
import { type Positioned, readPositioned } from '../study/positions.ts'

/** Prices count in millionths, so that sums and comparisons are exact. */
const UNITS = 1e6
const MOST_PRICE = 1e6
const MOST_COUNT = 1000
const DEFAULT_MOST = 8

const price = `a number from 0 to ${MOST_PRICE}`
const whole = (low: number, what: string) => z.int(what).min(low, what).max(MOST_COUNT, what)

/** Every message is the X of "Expected X for `field`". */
export const pricesSchema = z.strictObject(
  {
    $schema: z.string().optional(),
    currency: z
      .string('a name')
      .min(1, 'a name')
      .max(16, 'a name')
      .optional()
      .describe('For tables; default: none.'),
    offers: z
      .array(
        z.strictObject(
          {
            name: z.string('a name').min(1, 'a name').max(256, 'a name'),
            pricePerHour: z.number(price).min(0, price).max(MOST_PRICE, price).describe('Of one instance.'),
            most: whole(1, `a whole number from 1 to ${MOST_COUNT}`)
              .optional()
              .describe(`How many may be taken; default ${DEFAULT_MOST}.`),
            least: whole(0, `a whole number from 0 to ${MOST_COUNT}`).optional().describe('Default 0.'),
            instance: z
              .record(z.string(), z.unknown(), 'an object')
              .describe('An entry of `instances` of cluster.schema.json, without `count`.'),
          },
          'an object',
        ),
        'a list of at least one offer',
      )
      .min(1, 'a list of at least one offer')
      .max(64, 'a list of at most 64 offers'),
    mostInstances: whole(1, `a whole number from 1 to ${MOST_COUNT}`)
      .optional()
      .describe('In all; default: no limit.'),
    cluster: z
      .record(z.string(), z.unknown(), 'an object')
      .optional()
      .describe('What else a cluster needs: latencies, gpus, models of cluster.schema.json.'),
  },
  'an object',
)

export function pricesJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(pricesSchema) as Record<string, unknown>
  return { ...schema, title: 'laxity price list' }
}

export interface Offer {
  name: string
  /** Millionths. */
  price: number
  least: number
  most: number
  instance: InstanceConfig
}

export interface Prices {
  currency: string
  offers: Offer[]
  mostInstances: number
  cluster: Partial<ClusterConfig>
}

/** @throws LaxityError with the places of all problems. */
export async function readPrices(file: string): Promise<Prices> {
  return parsePrices(await readPositioned(file, 'a price list'))
}

export function parsePrices(source: Positioned): Prices {
  const problems = new Problems()
  const add = (path: readonly PropertyKey[], message: string) =>
    problems.add('ERR_LAXITY_FIELD', message, source.place(path))
  const parsed = pricesSchema.safeParse(source.value)
  for (const issue of parsed.error?.issues ?? []) {
    const got = issue.path.reduce<unknown>(
      (value, part) => (value as Record<PropertyKey, unknown> | undefined)?.[part],
      source.value,
    )
    if (issue.code === 'unrecognized_keys') {
      const known =
        issue.path.length === 0
          ? Object.keys(pricesSchema.shape)
          : ['name', 'pricePerHour', 'most', 'least', 'instance']
      for (const key of issue.keys) add([...issue.path, key], `Unknown field \`${key}\`${hint(key, known)}`)
    } else {
      const field = String(issue.path.findLast((part) => typeof part !== 'number') ?? 'prices')
      add(issue.path, expected(issue.message, field, got))
    }
  }
  problems.throwIfAny()
  const { currency = '', offers, mostInstances = Number.POSITIVE_INFINITY, cluster = {} } = parsed.data!
  for (const [i, { name, least = 0, most = DEFAULT_MOST, instance }] of offers.entries()) {
    if (offers.findIndex((other) => other.name === name) < i)
      add(['offers', i, 'name'], `"${name}" is there twice`)
    if (least > most) add(['offers', i, 'least'], `More than \`most\`, which is ${most}`)
    if ('count' in instance) add(['offers', i, 'instance', 'count'], '`most` says how many there may be')
  }
  if ('instances' in cluster) add(['cluster', 'instances'], '`offers` say which instances there may be')
  problems.throwIfAny()
  return {
    currency,
    mostInstances,
    cluster: cluster as Partial<ClusterConfig>,
    offers: offers.map(({ name, pricePerHour, least = 0, most = DEFAULT_MOST, instance }) => ({
      name,
      price: Math.round(pricePerHour * UNITS),
      least,
      most,
      instance: instance as unknown as InstanceConfig,
    })),
  }
}

export function perHour(price: number): number {
  return price / UNITS
}
