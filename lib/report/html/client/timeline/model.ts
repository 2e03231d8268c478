import type { TimelineFigure } from '../../figure.ts'
import { readColumns } from './columns.ts'
import { InstanceModel } from './instance.ts'

type Columns = Awaited<ReturnType<typeof readColumns>>

/** A run's calls, in ticks since the start. */
export class TimelineModel {
  readonly figure: TimelineFigure
  readonly columns: Columns
  readonly token: Uint32Array
  readonly finished: Uint32Array
  readonly instances: readonly InstanceModel[]
  readonly length: number

  static async open(figure: TimelineFigure): Promise<TimelineModel> {
    return new TimelineModel(figure, await readColumns(figure))
  }

  private constructor(figure: TimelineFigure, columns: Columns) {
    this.figure = figure
    this.columns = columns
    const { leased, prefill, decode } = columns
    const calls = leased.length
    this.token = new Uint32Array(calls)
    this.finished = new Uint32Array(calls)
    let length = 1
    for (let i = 0; i < calls; i++) {
      const token = leased[i]! + prefill[i]!
      const finished = token + decode[i]!
      this.token[i] = token
      this.finished[i] = finished
      if (finished > length) length = finished
    }
    this.length = length
    let first = 0
    this.instances = figure.instances.map(({ label, lanes, calls: own }) => {
      const [from, to] = [first, first + own]
      first = to
      const part = (column: Uint32Array) => column.subarray(from, to)
      return new InstanceModel(label, lanes, from, part(leased), part(this.token), part(this.finished))
    })
  }

  instanceOf(call: number): number {
    return this.instances.findIndex(({ first, end }) => call >= first && call < end)
  }

  workflowName(workflow: number): string {
    return this.figure.workflowIds?.[workflow] ?? `w${workflow}`
  }

  callsOf(workflow: number): number[] {
    const found: number[] = []
    const { workflow: column } = this.columns
    for (let i = 0; i < column.length; i++) if (column[i] === workflow) found.push(i)
    return found
  }

  /** The call that runs at t on a lane; else the one that runs then on the nearest lane; undefined where none does. */
  callAt(instance: number, lane: number, t: number): number | undefined {
    const { first, end } = this.instances[instance]!.visible(t, t)
    let nearest: number | undefined
    let distance = Number.POSITIVE_INFINITY
    for (let i = first; i < end; i++) {
      if (this.finished[i]! < t) continue
      const away = Math.abs(this.columns.lane[i]! - lane)
      if (away >= distance) continue
      nearest = i
      distance = away
    }
    return nearest
  }

  toMs(ticks: number): number {
    return ticks * this.figure.tickMs
  }
}
