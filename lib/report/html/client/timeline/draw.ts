import { clipped } from '../legend.ts'
import { timeUnit } from '../scales.ts'
import type { Theme } from '../theme.ts'
import type { InstanceModel } from './instance.ts'
import type { TimelineModel } from './model.ts'
import type { Surface } from './surface.ts'

export interface View {
  /** Ticks. */
  from: number
  to: number
  /** Index of the only instance to show; undefined = all. */
  instance: number | undefined
}

/** What is marked: the calls of one workflow, and one call. */
export interface Marked {
  calls: readonly number[]
  selected: number | undefined
}

export interface Band {
  instance: number
  /** Of its lanes; the label stands above. */
  top: number
  height: number
}

export interface Layout {
  width: number
  height: number
  bands: readonly Band[]
}

const AXIS = 26
const LABEL = 20
const GAP = 10
/** More calls than this are shown as areas. */
export const MOST_BARS = 20_000

export function layOut(model: TimelineModel, width: number, shown: number | undefined): Layout {
  const instances = shown === undefined ? [...model.instances.keys()] : [shown]
  const height =
    shown !== undefined ? 300 : Math.max(26, Math.min(84, Math.round(560 / instances.length) - LABEL - GAP))
  const bands = instances.map((instance, i) => ({
    instance,
    top: AXIS + i * (LABEL + height + GAP) + LABEL,
    height,
  }))
  return { width, height: AXIS + instances.length * (LABEL + height + GAP), bands }
}

/** Whether single calls are drawn, or areas. */
export function hasBars(model: TimelineModel, { from, to, instance }: View): boolean {
  let calls = 0
  for (const [i, own] of model.instances.entries()) {
    if (instance !== undefined && instance !== i) continue
    const { first, end } = own.visible(from, to)
    calls += end - first
  }
  return calls <= MOST_BARS
}

export function draw(
  surface: Surface,
  model: TimelineModel,
  layout: Layout,
  view: View,
  marked: Marked,
  theme: Theme,
): void {
  const { width, height, bands } = layout
  surface.rect(0, 0, width, height, theme.ground)
  drawAxis(surface, model, layout, view, theme)
  const bars = hasBars(model, view)
  for (const band of bands) {
    const instance = model.instances[band.instance]!
    const calls = instance.end - instance.first
    const at = width < 480 ? '≤' : 'at most'
    const most = `${calls.toLocaleString('en-US')} calls, ${at} ${instance.lanes.toLocaleString('en-US')} at once`
    surface.text(0, band.top - LABEL / 2, clipped(instance.label, width * 0.5), theme.ink, 'start', true)
    surface.text(width, band.top - LABEL / 2, clipped(most, width * 0.46), theme.muted, 'end', false)
    if (bars) drawBars(surface, model, instance, band, width, view, theme)
    else drawAreas(surface, instance, band, width, view, theme)
    surface.line(0, band.top + band.height + 0.5, width, band.top + band.height + 0.5, theme.muted)
  }
  drawMarked(surface, model, layout, view, marked, theme)
}

function drawAreas(
  surface: Surface,
  instance: InstanceModel,
  band: Band,
  width: number,
  { from, to }: View,
  theme: Theme,
): void {
  const xs: number[] = []
  const all: number[] = []
  const prefill: number[] = []
  const base = band.top + band.height
  const per = (to - from) / width
  for (let x = 0; x < width; x++) {
    const running = instance.running(from + x * per, from + (x + 1) * per)
    xs.push(x + 0.5)
    all.push(base - (band.height * running.all) / instance.lanes)
    prefill.push(base - (band.height * running.prefill) / instance.lanes)
  }
  surface.area(xs, all, base, theme.decode)
  surface.area(xs, prefill, base, theme.prefill)
}

function drawBars(
  surface: Surface,
  model: TimelineModel,
  instance: InstanceModel,
  band: Band,
  width: number,
  view: View,
  theme: Theme,
): void {
  const { first, end } = instance.visible(view.from, view.to)
  for (let call = first; call < end; call++) {
    const box = boxOf(model, call, instance, band, width, view)
    if (box === undefined) continue
    if (box.token < box.to) surface.rect(box.token, box.top, box.to - box.token, box.height, theme.decode)
    if (box.from < box.token) surface.rect(box.from, box.top, box.token - box.from, box.height, theme.prefill)
  }
}

interface Box {
  from: number
  token: number
  to: number
  top: number
  height: number
}

/** Lane 0 lies lowest, as in the areas. Undefined where nothing of it is in view. */
function boxOf(
  model: TimelineModel,
  call: number,
  instance: InstanceModel,
  band: Band,
  width: number,
  { from, to }: View,
): Box | undefined {
  if (model.finished[call]! < from || model.columns.leased[call]! > to) return undefined
  const x = (t: number) => Math.max(-4, Math.min(width + 4, ((t - from) / (to - from)) * width))
  const lane = band.height / instance.lanes
  const gap = lane >= 4 ? 1 : 0
  const left = x(model.columns.leased[call]!)
  // One pixel is seen, and its neighbours are told apart.
  const right = Math.max(left + 0.75, x(model.finished[call]!) - (gap > 0 ? 0.5 : 0))
  return {
    from: left,
    token: Math.min(right, x(model.token[call]!)),
    to: right,
    top: band.top + band.height - (model.columns.lane[call]! + 1) * lane + gap / 2,
    height: Math.max(0.75, lane - gap),
  }
}

function drawMarked(
  surface: Surface,
  model: TimelineModel,
  { width, bands }: Layout,
  view: View,
  { calls, selected }: Marked,
  theme: Theme,
): void {
  const box = (call: number) => {
    const i = model.instanceOf(call)
    const band = bands.find(({ instance }) => instance === i)
    return band && boxOf(model, call, model.instances[i]!, band, width, view)
  }
  for (const call of calls) {
    const own = box(call)
    if (own === undefined) continue
    const size = Math.max(3, own.height)
    const top = own.top - (size - own.height) / 2
    surface.rect(own.from, top, Math.max(2, own.to - own.from), size, theme.accentLight)
    surface.rect(own.from, top, Math.max(2, own.token - own.from), size, theme.accent)
  }
  const own = selected === undefined ? undefined : box(selected)
  if (own !== undefined) {
    const size = Math.max(5, own.height)
    surface.outline(
      own.from - 1,
      own.top - (size - own.height) / 2 - 1,
      own.to - own.from + 2,
      size + 2,
      theme.accent,
    )
  }
}

function drawAxis(
  surface: Surface,
  model: TimelineModel,
  { width, height }: Layout,
  { from, to }: View,
  theme: Theme,
): void {
  const { tickMs, fromMs } = model.figure
  const startMs = fromMs + from * tickMs
  const spanMs = (to - from) * tickMs
  const { name, per } = timeUnit(fromMs + model.length * tickMs)
  const step = niceStep(spanMs / per / Math.max(2, width / 110))
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9))
  const first = Math.ceil(startMs / per / step)
  for (let k = first; k * step <= (startMs + spanMs) / per; k++) {
    const x = ((k * step * per - startMs) / spanMs) * width
    surface.line(Math.round(x) + 0.5, AXIS - 6, Math.round(x) + 0.5, height, theme.grid)
    const label = `${(k * step).toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${name}`
    const anchor = x < 30 ? 'start' : x > width - 30 ? 'end' : 'middle'
    surface.text(x, AXIS / 2 - 3, label, theme.muted, anchor, false)
  }
}

function niceStep(atLeast: number): number {
  const power = 10 ** Math.floor(Math.log10(atLeast))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= atLeast * (1 - 1e-9))!
}
