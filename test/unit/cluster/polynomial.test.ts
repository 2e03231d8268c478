import assert from 'node:assert/strict'
import { checkCluster } from '../../../lib/cluster/check.ts'
import type { ClusterConfig, PolynomialLatency } from '../../../lib/cluster/config.ts'
import { resolveCluster } from '../../../lib/cluster/resolve.ts'
import type { LaxityError } from '../../../lib/errors.ts'
import { Problems } from '../../../lib/report/problems.ts'

const LATENCY: PolynomialLatency = {
  kind: 'polynomial',
  prefill: [
    { baseMs: 60, perTokenMs: -0.05 },
    { fromTokens: 256, baseMs: 40, perTokenMs: 0.1, perTokenSquaredMs: 1e-6 },
  ],
  decode: [{ baseMs: 20 }, { fromSequences: 95, baseMs: 7, perSequenceMs: 0.16, perContextMs: 6e-4 }],
}

function cluster(latency: unknown): ClusterConfig {
  return {
    latencies: { fitted: latency as PolynomialLatency },
    instances: [{ latency: 'fitted', kvTokens: 1000 }],
  }
}

function problemsOf(latency: unknown): string[] {
  const problems = new Problems()
  checkCluster(cluster(latency), '', problems)
  const errors: LaxityError[] = []
  try {
    problems.throwIfAny()
  } catch (error) {
    const { cause } = error as LaxityError
    errors.push(...(cause instanceof AggregateError ? cause.errors : [error as LaxityError]))
  }
  return errors.map(({ message, place }) => `${place}: ${message}`)
}

describe('polynomial latencies in cluster files', () => {
  it('get their defaults', () => {
    assert.deepEqual(problemsOf(LATENCY), [])
    assert.deepEqual(resolveCluster(cluster(LATENCY), 'test').latencies, [
      {
        kind: 'polynomial',
        prefill: [
          { fromTokens: 1, baseMs: 60, perTokenMs: -0.05, perTokenSquaredMs: 0 },
          { fromTokens: 256, baseMs: 40, perTokenMs: 0.1, perTokenSquaredMs: 1e-6 },
        ],
        decode: [
          { fromSequences: 1, baseMs: 20, perSequenceMs: 0, perContextMs: 0 },
          { fromSequences: 95, baseMs: 7, perSequenceMs: 0.16, perContextMs: 6e-4 },
        ],
      },
    ])
  })

  const wrong: [string, unknown, RegExp][] = [
    ['no regime', { ...LATENCY, decode: [] }, /decode: .*at least one regime/],
    [
      'a late first regime',
      { ...LATENCY, decode: [{ fromSequences: 2, baseMs: 1 }] },
      /decode\[0\]: .*begins/,
    ],
    [
      'regimes that do not ascend',
      { ...LATENCY, decode: [{ baseMs: 1 }, { baseMs: 2 }] },
      /decode\[1\]: .*ascending/,
    ],
    ['an iteration of no time', { ...LATENCY, decode: [{ baseMs: 0 }] }, /decode\[0\]: .*more than 0 ms/],
    [
      'a prefill that falls for ever',
      { ...LATENCY, prefill: [{ baseMs: 1, perTokenMs: -1e-3 }] },
      /prefill\[0\]: .*above 0/,
    ],
    [
      'a prefill that reaches 0',
      {
        ...LATENCY,
        prefill: [
          { baseMs: 1, perTokenMs: -0.01 },
          { fromTokens: 200, baseMs: 1, perTokenMs: 0 },
        ],
      },
      /prefill\[0\]: .*above 0/,
    ],
    ['an unknown field', { ...LATENCY, prefill: [{ baseMs: 1, perTokenM: 1 }] }, /perTokenMs/],
  ]
  for (const [what, latency, expected] of wrong) {
    it(`refuse ${what}`, () => {
      assert.match(problemsOf(latency).join('\n'), expected)
    })
  }
})
