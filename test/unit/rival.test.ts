import assert from 'node:assert/strict'
import { native } from '../../lib/native.ts'

interface PlannerState {
  readonly plan: Record<'call' | 'prefill' | 'decode' | 'finish', Float64Array>
}
/** Only benchmarks know it: it is not among the addon's types. */
const { plannerState } = native as unknown as {
  plannerState(options: Record<string, number>): PlannerState
}

describe('the planner in JavaScript that benchmarks compare with', () => {
  it('finds the native plans', async () => {
    const { GreedyPlanner } = await import('../../bench/rival/greedy.js')
    for (const instances of [1, 2, 3, 4, 8, 16])
      for (const tight of [0, 1])
        for (let seed = 1; seed <= 6; seed++) {
          const state = plannerState({
            calls: 96,
            instances,
            tight,
            onePass: 0,
            scalar: 0,
            perInstance: -1,
            plans: 4,
            repeats: 1,
            seed,
          })
          const planner = new GreedyPlanner(state)
          // Twice: the state must come back as it was.
          for (let round = 0; round < 2; round++) {
            planner.reset()
            const length = planner.plan()
            for (const column of ['call', 'prefill', 'decode', 'finish'] as const)
              assert.deepEqual([...planner.out[column].subarray(0, length)], [...state.plan[column]], column)
          }
        }
  })
})
