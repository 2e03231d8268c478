import assert from 'node:assert/strict'
import fc from 'fast-check'
import { LaxityError } from '../../../lib/errors.ts'
import { isObject } from '../../../lib/traces/check.ts'
import { checkHeader, checkWorkflow } from '../../../lib/traces/jsonl-lines.ts'
import { Place } from '../../../lib/traces/place.ts'
import { headerLine, workflowLine } from '../../../lib/traces/schema.ts'
import { header, workflows } from './arbitraries.ts'

type Path = string[]

/** Values at and beyond the edges of what fields accept. */
const replacement = fc.oneof(
  fc.constantFrom<unknown>(
    ...[0, -0, 1, -1, 0.5, 1e8, 1e8 + 1, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 53, 1e9, 1e9 + 1, 4e12, 4.1e12],
    ...[
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Number.MIN_VALUE,
      true,
      null,
      '',
      'x',
      'x'.repeat(256),
      'x'.repeat(257),
    ],
    ...[[], {}, [[]], [{}], ['x'], ['']],
  ),
  fc.jsonValue() as fc.Arbitrary<unknown>,
)

const change = fc.record({
  kind: fc.constantFrom('replace', 'delete', 'add', 'rename'),
  at: fc.nat(),
  name: fc.constantFrom(
    'x',
    'model',
    'cachedTokens',
    'parents',
    'laxity',
    'sloMs',
    'toString',
    'constructor',
  ),
  value: replacement,
})
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  const inner = Object.entries(value).flatMap(([key, part]) => {
    return pathsOf(part, [...path, key])
  })
  return [path, ...inner]
}

function mutated(line: unknown, { kind, at, name, value }: Change): unknown {
  const paths = pathsOf(line)
  const path = paths[at % paths.length]!
  if (path.length === 0) return kind === 'add' && isObject(line) ? { ...line, [name]: value } : value
  const copy = structuredClone(line)
  let parent = copy as Record<string, unknown>
  for (const key of path.slice(0, -1)) parent = parent[key] as typeof parent
  const key = path.at(-1)!
  if (kind === 'replace') parent[key] = value
  else if (kind === 'add' && isObject(parent[key])) (parent[key] as typeof parent)[name] = value
  else if (Array.isArray(parent)) parent.splice(Number(key), 1)
  else {
    if (kind === 'rename') parent[name] = parent[key]
    delete parent[key]
  }
  return copy
}

function accepts(check: () => unknown): boolean {
  try {
    check()
    return true
  } catch (error) {
    assert.ok(error instanceof LaxityError, `not a LaxityError: ${error}`)
    assert.match(error.message, /^t:1(: .+)?: [A-Z]/)
    return false
  }
}

let [accepted, rejected] = [0, 0]

function assertAgreement(
  isAccepted: boolean,
  result: { success: boolean; error?: unknown },
  line: unknown,
): void {
  if (isAccepted) accepted++
  else rejected++
  assert.equal(isAccepted, result.success, `${JSON.stringify(line)}\nzod: ${result.error}`)
}

describe('the reader and the published schema agree', () => {
  const changes = fc.array(change, { maxLength: 2 })
  const place = new Place('t')

  it('on workflows', () => {
    fc.assert(
      fc.property(workflows, changes, ([first], edits) => {
        const line = edits.reduce(mutated, first as unknown)
        const isAccepted = accepts(() => checkWorkflow(line, place))
        assertAgreement(isAccepted, workflowLine.safeParse(line), line)
      }),
      { numRuns: 10_000 },
    )
    assert.ok(accepted > 2000 && rejected > 2000, `one-sided: ${accepted} accepted, ${rejected} rejected`)
  })

  it('on headers', () => {
    fc.assert(
      fc.property(header, changes, (first, edits) => {
        const line = edits.reduce(mutated, (first ?? { laxity: 'trace', version: 1 }) as unknown)
        if (!isObject(line)) return
        assertAgreement(
          accepts(() => checkHeader(line, place)),
          headerLine.safeParse(line),
          line,
        )
      }),
      { numRuns: 5000 },
    )
  })
})
