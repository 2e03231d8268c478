import assert from 'node:assert/strict'
import { simulate, sweep } from '../../lib/index.ts'
import type { PlacementFunction } from '../../lib/scheduler/placement.ts'
import { chessTrace } from '../../lib/traces/chess.ts'
import { policy, recorded, runOptions, scenario, simulator } from '../support/runs.ts'

/** Everything that a callback can do instead of answering. */
const MISDEEDS: Record<string, () => unknown> = {
  'throws an error': () => {
    throw new Error('no')
  },
  'throws undefined': () => {
    throw undefined
  },
  'throws a symbol': () => {
    throw Symbol('s')
  },
  'throws an object whose message throws': () => {
    throw Object.defineProperty(new Error(), 'message', {
      get() {
        throw new Error('again')
      },
    })
  },
  'throws a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    throw proxy
  },
  'overflows the stack': function deeper(): unknown {
    return [deeper()]
  },
  'returns nothing': () => undefined,
  'returns NaN': () => Number.NaN,
  'returns -1': () => -1,
  'returns 0.5': () => 0.5,
  'returns 2^31': () => 2 ** 31,
  'returns 2^32': () => 2 ** 32,
  'returns 2^53': () => 2 ** 53,
  'returns a string': () => '0',
  'returns a BigInt': () => 0n,
  'returns an object that is a number': () => Object(0),
  'returns a promise that rejects': () => Promise.reject(new Error('late')),
  'returns a thenable that throws': () =>
    Object.defineProperty({}, 'then', {
      get() {
        throw new Error('then')
      },
    }),
}

describe('hazard: a callback that throws', () => {
  it('in the core: the run ends with its failure, and the simulator runs again', () => {
    for (const [name, misdeed] of Object.entries(MISDEEDS)) {
      if (name.includes('promise')) continue // the facade's part
      const built = simulator(scenario(5))
      let asked = 0
      const placement: PlacementFunction = ({ candidates }) => {
        asked += 1
        return asked === 6 ? (misdeed() as number) : candidates[0]!.instance
      }
      const { status, placementFailure } = built.run({ ...runOptions(policy(5)), placement }, {})
      assert.notEqual(status, 0, name)
      assert.equal(placementFailure?.threw, name.startsWith('throws') || name.startsWith('overflows'), name)
      assert.equal(asked, 6, `${name}: asked no more`)
      const run = runOptions(policy(5))
      assert.deepEqual(built.record(run, {}).log, recorded(scenario(5), run).log.records, name)
    }
  })

  it('through the API: one coded error, from the first to the last call', async () => {
    const trace = await chessTrace({ workflows: 4, preset: 1, seed: 2 })
    for (const [name, misdeed] of Object.entries(MISDEEDS))
      for (const when of [1, 2, 20]) {
        let asked = 0
        const placement: PlacementFunction = ({ candidates }) => {
          asked += 1
          return asked === when ? (misdeed() as number) : candidates[0]!.instance
        }
        const options = { trace, cluster: 'hexgen-homo', placement } as const
        await assert.rejects(simulate(options), { code: 'ERR_LAXITY_PLACEMENT' }, name)
        asked = 0
        await assert.rejects(sweep(options), { code: 'ERR_LAXITY_PLACEMENT' }, name)
      }
    const rejections: unknown[] = []
    const note = (reason: unknown) => rejections.push(reason)
    process.on('unhandledRejection', note)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', note)
    assert.deepEqual(rejections, [])
  })
})
