import assert from 'node:assert/strict'
import { type CallTable, isFinished } from '../../../lib/report/result/call-table.ts'
import { criticalPath, workflowAt } from '../../../lib/report/result/critical-path.ts'
import { attainment, distribution } from '../../../lib/report/result/distribution.ts'
import { assignLanes } from '../../../lib/report/result/lanes.ts'
import { loadSeries } from '../../../lib/report/result/load-series.ts'
import { random, randomTable } from './shared.ts'

const CASES = 2000

function shapeOf(seed: number) {
  const below = random(seed + 1)
  return {
    instances: 1 + below(4),
    workflows: 1 + below(6),
    calls: 1 + below(8),
    times: [3, 50, 10_000_000][below(3)]!,
    unfinished: [0, 0, 20][below(3)]!,
  }
}

function finished(table: CallTable): number[] {
  return [...table.stage.keys()].filter((call) => isFinished(table, call))
}

describe('lanes', () => {
  it('are the lowest free ones, as in the naive version', () => {
    for (let seed = 0; seed < CASES; seed++) {
      const table = randomTable(seed, shapeOf(seed))
      const { instance, leasedNs, finishedNs } = table
      const { order, firstOf, lane, lanes } = assignLanes(table)
      const expected = finished(table).toSorted(
        (a, b) => instance[a]! - instance[b]! || leasedNs[a]! - leasedNs[b]! || a - b,
      )
      assert.deepEqual([...order], expected)
      for (let i = 0; i < table.instances.length; i++) {
        const own = expected.filter((call) => instance[call] === i)
        assert.deepEqual([...order.subarray(firstOf[i], firstOf[i + 1])], own)
        const taken = new Map<number, number>()
        for (const [at, call] of own.entries()) {
          const busy = own
            .slice(0, at)
            .filter((other) => finishedNs[other]! > leasedNs[call]!)
            .map((other) => taken.get(other)!)
          let free = 0
          while (busy.includes(free)) free++
          taken.set(call, free)
          assert.equal(lane[firstOf[i]! + at], free)
        }
        assert.equal(lanes[i], Math.max(-1, ...taken.values()) + 1)
      }
    }
  })
})

describe('load over time', () => {
  it('is what counting at every instant gives', () => {
    const parts = 7
    for (let seed = 0; seed < CASES / 4; seed++) {
      const table = randomTable(seed, { ...shapeOf(seed), times: [5, 40][seed % 2]! })
      const calls = finished(table)
      if (calls.length === 0) continue
      const { readyNs, leasedNs, firstTokenNs, finishedNs, instance, promptTokens, outputTokens } = table
      const from = Math.min(...calls.map((call) => readyNs[call]!))
      const to = Math.max(...calls.map((call) => finishedNs[call]!))
      const width = (to - from) / parts
      const { atNs, waiting, mostWaiting, kvTokens } = loadSeries(table, parts)
      for (let i = 0; i < table.instances.length; i++) {
        const own = calls.filter((call) => instance[call] === i)
        for (let k = 0; k < parts; k++) {
          const [a, b] = [from + k * width, from + (k + 1) * width]
          let area = 0
          const edges = new Set([a, b])
          for (const call of own) {
            area += Math.max(0, Math.min(b, leasedNs[call]!) - Math.max(a, readyNs[call]!))
            for (const t of [readyNs[call]!, leasedNs[call]!]) if (t > a && t < b) edges.add(t)
          }
          assert(Math.abs(waiting[i]![k]! - area / width) < 1e-9)
          const sorted = [...edges].sort((x, y) => x - y)
          let most = 0
          for (let e = 0; e + 1 < sorted.length; e++) {
            // Parts end at fractions: what rounding leaves between an edge and a boundary is no time.
            if (sorted[e + 1]! - sorted[e]! < 1e-9) continue
            const middle = (sorted[e]! + sorted[e + 1]!) / 2
            most = Math.max(most, own.filter((c) => readyNs[c]! <= middle && middle < leasedNs[c]!).length)
          }
          assert(mostWaiting[i]![k]! >= most)

          const t = atNs[k]!
          let tokens = 0
          for (const call of own) {
            if (leasedNs[call]! > t || finishedNs[call]! <= t) continue
            tokens += promptTokens[call]!
            const grown = (t - firstTokenNs[call]!) / (finishedNs[call]! - firstTokenNs[call]!)
            if (grown > 0) tokens += outputTokens[call]! * grown
          }
          assert(Math.abs(kvTokens[i]![k]! - tokens) < 1e-6 * (1 + tokens), `${kvTokens[i]![k]} ${tokens}`)
        }
        const total = own.reduce((sum, call) => sum + leasedNs[call]! - readyNs[call]!, 0)
        const sum = waiting[i]!.reduce((all, mean) => all + mean * width, 0)
        assert(Math.abs(sum - total) < 1e-6 * (1 + total))
        // At whole times nobody can wait in larger number than at some ready time.
        const peak = Math.max(
          0,
          ...own.map(
            (c) => own.filter((o) => readyNs[o]! <= readyNs[c]! && readyNs[c]! < leasedNs[o]!).length,
          ),
        )
        assert.equal(Math.max(...mostWaiting[i]!), peak)
      }
    }
  })
})

describe('the critical path', () => {
  it('leads from the last finish to a root, and its parts are the latency', () => {
    for (let seed = 0; seed < CASES; seed++) {
      const table = randomTable(seed, shapeOf(seed))
      for (let w = 0; w < table.workflows.latencyNs.length; w++) {
        const first = table.firstCall[w]!
        const calls = Array.from({ length: table.firstCall[w + 1]! - first }, (_, i) => first + i)
        const path = criticalPath(table, w)
        if (!calls.every((call) => isFinished(table, call))) {
          assert.equal(path, undefined)
          continue
        }
        const parentsOf = (call: number) =>
          [...table.parents.subarray(table.parentOffset[call], table.parentOffset[call + 1])].map(
            (p) => first + p,
          )
        const lastOf = (among: number[]) => {
          const latest = Math.max(...among.map((call) => table.finishedNs[call]!))
          return among.find((call) => table.finishedNs[call] === latest)!
        }
        const expected: number[] = []
        for (let among = calls; among.length > 0; among = parentsOf(expected[0]!))
          expected.unshift(lastOf(among))
        assert.deepEqual(
          path!.map(({ call }) => call),
          expected,
        )
        const sum = path!.reduce((all, c) => all + c.gapNs + c.waitNs + c.prefillNs + c.decodeNs, 0)
        assert.equal(sum, table.workflows.latencyNs[w])
      }
    }
  })

  it('is asked of the ceil(q n)-th smallest latency, or the nearest below that completed', () => {
    const table = randomTable(1, { instances: 1, workflows: 5, calls: 1, times: 1000 })
    const latencyNs = Float64Array.of(30, 10, Number.POSITIVE_INFINITY, 20, 40)
    const changed = { ...table, workflows: { ...table.workflows, latencyNs } }
    assert.equal(workflowAt(changed, 0.2), 1)
    assert.equal(workflowAt(changed, 0.5), 0)
    assert.equal(workflowAt(changed, 0.95), 4)
    const none = {
      ...table,
      workflows: { ...table.workflows, latencyNs: latencyNs.fill(Number.POSITIVE_INFINITY) },
    }
    assert.equal(workflowAt(none, 0.95), undefined)
  })
})

describe('distributions', () => {
  it('step at every value where there are few, infinite ones never', () => {
    assert.deepEqual(distribution([3, 1, Number.POSITIVE_INFINITY, 1], 10), { x: [1, 3], y: [0.5, 0.75] })
    assert.deepEqual(distribution([], 10), { x: [], y: [] })
  })

  it('are true at every point they keep', () => {
    for (let seed = 0; seed < 200; seed++) {
      const below = random(seed)
      const values = Array.from({ length: 1 + below(300) }, () => below(40))
      const { x, y } = distribution(values, 2 + below(20))
      for (const [k, at] of x.entries()) {
        const ratio = values.filter((value) => value <= at).length / values.length
        // A thinned curve may stop within equal values, at a rank below the last of them.
        assert(y[k]! <= ratio + 1e-12 && y[k]! >= values.filter((value) => value < at).length / values.length)
      }
      assert.equal(x.at(-1), Math.max(...values))
      assert.equal(y.at(-1), 1)
      assert.equal(x[0], Math.min(...values))
    }
  })

  it('count attainment with equality, as the simulator does', () => {
    assert.deepEqual(
      attainment([10, 20, 30, Number.POSITIVE_INFINITY], [10, 10, 10, 10], [0.5, 1, 2, 3, 4]),
      [0, 0.25, 0.5, 0.75, 0.75],
    )
  })
})
