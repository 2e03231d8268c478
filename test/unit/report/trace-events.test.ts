import assert from 'node:assert/strict'
import { isFinished } from '../../../lib/report/result/call-table.ts'
import { traceEvents } from '../../../lib/report/trace-events.ts'
import { randomTable } from './shared.ts'

interface Event {
  ph: string
  pid: number
  tid: number
  name: string
  ts: number
  dur: number
  cat: string
  id: number
  args: { name: string; workflow: string; call: string }
}

const nanos = (micros: number) => Math.round(micros * 1000)

describe('trace events', () => {
  it('are one slice per finished call on its instance, with phases inside and a flow per edge', () => {
    for (let seed = 0; seed < 300; seed++) {
      const shape = {
        instances: 3,
        workflows: 5,
        calls: 6,
        times: [9, 1e9][seed % 2]!,
        unfinished: (seed % 3) * 10,
      }
      const table = randomTable(seed, shape)
      const text = [...traceEvents(table)].join('')
      const { traceEvents: events, displayTimeUnit } = JSON.parse(text) as {
        traceEvents: Event[]
        displayTimeUnit: string
      }
      assert.equal(displayTimeUnit, 'ms')
      const slices = events.filter(({ cat }) => cat === 'call')
      const expected: string[] = []
      const found = slices.map(
        ({ pid, ts, dur, name, args }) =>
          `${args.workflow} ${args.call} ${pid} ${nanos(ts)} ${nanos(dur)} ${name}`,
      )
      let edges = 0
      for (let w = 0; w + 1 < table.firstCall.length; w++) {
        for (let call = table.firstCall[w]!; call < table.firstCall[w + 1]!; call++) {
          if (!isFinished(table, call)) continue
          const leased = table.leasedNs[call]!
          expected.push(
            `w${w} c${call - table.firstCall[w]!} ${table.instance[call]! + 1} ${leased} ${table.finishedNs[call]! - leased} ${table.stages[table.stage[call]!]}`,
          )
          const own = table.parents.subarray(table.parentOffset[call], table.parentOffset[call + 1])
          edges += [...own].filter((p) => isFinished(table, table.firstCall[w]! + p)).length
        }
      }
      assert.deepEqual(found.sort(), expected.sort())

      // Slices of one track never overlap: viewers would nest them.
      for (const track of new Set(slices.map(({ pid, tid }) => `${pid}.${tid}`))) {
        const own = slices.filter(({ pid, tid }) => `${pid}.${tid}` === track)
        const sorted = own.toSorted((a, b) => a.ts - b.ts)
        for (const [i, slice] of sorted.slice(1).entries())
          assert(nanos(sorted[i]!.ts) + nanos(sorted[i]!.dur) <= nanos(slice.ts))
      }
      const holds = ({ pid, tid, ts }: Event) =>
        slices.some(
          (slice) =>
            slice.pid === pid &&
            slice.tid === tid &&
            nanos(slice.ts) <= nanos(ts) &&
            nanos(ts) < nanos(slice.ts) + nanos(slice.dur),
        )
      const starts = events.filter(({ ph }) => ph === 's')
      const ends = events.filter(({ ph }) => ph === 'f')
      assert.equal(starts.length, edges)
      assert.deepEqual(
        starts.map(({ id }) => id),
        ends.map(({ id }) => id),
      )
      assert.equal(new Set(starts.map(({ id }) => id)).size, edges)
      for (const [i, start] of starts.entries()) {
        assert(holds(start) && holds(ends[i]!))
        assert(nanos(start.ts) <= nanos(ends[i]!.ts))
      }
      for (const { pid, tid, ts, dur } of events.filter(({ cat }) => cat === 'phase'))
        assert(
          slices.some(
            (s) => s.pid === pid && s.tid === tid && s.ts <= ts && nanos(ts + dur) <= nanos(s.ts + s.dur),
          ),
        )
      const names = events.filter(({ name }) => name === 'process_name').map(({ args }) => args.name)
      assert.deepEqual(names, ['0 gpu-0', '1 gpu-1', '2 gpu-2'])
    }
  })
})
