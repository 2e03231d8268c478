import assert from 'node:assert/strict'
import { InstanceModel } from '../../../lib/report/html/client/timeline/instance.ts'
import { random } from './shared.ts'

describe('the timeline of an instance', () => {
  it('knows what runs, and how many on average, at any zoom', () => {
    for (let seed = 0; seed < 1500; seed++) {
      const below = random(seed)
      const times = [6, 1000, 2 ** 30][below(3)]!
      const calls = Array.from({ length: below(40) }, () => {
        const leased = below(times)
        const token = leased + below(times)
        return { leased, token, finished: token + 1 + below(times) }
      }).sort((a, b) => a.leased - b.leased)
      const column = (name: 'leased' | 'token' | 'finished') => Uint32Array.from(calls, (call) => call[name])
      const first = below(1000)
      const model = new InstanceModel('x', 3, first, column('leased'), column('token'), column('finished'))
      for (let k = 0; k < 8; k++) {
        const from = below(2 * times)
        const to = from + (1 + below(times)) / 4
        const range = model.visible(from, to)
        for (const [i, { leased, finished }] of calls.entries()) {
          if (finished > from && leased <= to) assert(first + i >= range.first && first + i < range.end)
        }
        const overlap = (a: number, b: number) => Math.max(0, Math.min(b, to) - Math.max(a, from))
        const mean = (a: 'leased' | 'token', b: 'token' | 'finished') =>
          calls.reduce((sum, call) => sum + overlap(call[a], call[b]), 0) / (to - from)
        const running = model.running(from, to)
        const close = (a: number, b: number) => Math.abs(a - b) < 1e-4
        assert(close(running.all, mean('leased', 'finished')), `${running.all} ${mean('leased', 'finished')}`)
        assert(close(running.prefill, mean('leased', 'token')))
      }
    }
  })
})
