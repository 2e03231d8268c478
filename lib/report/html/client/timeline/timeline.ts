import type { TimelineFigure } from '../../figure.ts'
import { timeUnit, written } from '../scales.ts'
import { currentTheme, paperTheme } from '../theme.ts'
import { draw, hasBars, type Layout, layOut, type Marked, type View } from './draw.ts'
import { TimelineModel } from './model.ts'
import { canvasSurface, SvgSurface } from './surface.ts'

/** Shortest time in view, ticks. */
const SHORTEST = 20
const ZOOM = 1.6
const PAN = 0.2
const MOTION_MS = 140

const HELP =
  'Keys: ← → move, + − zoom, Home the whole run, ↑ ↓ choose an instance, N P next and previous call, Escape clears. Drag to move; pinch, Ctrl and wheel, or double click to zoom.'

/** The timeline of one run: a canvas with its controls. */
export class Timeline {
  readonly #model: TimelineModel
  readonly #canvas = document.createElement('canvas')
  readonly #status = document.createElement('p')
  readonly #select = document.createElement('select')
  readonly #toggle = document.createElement('button')
  readonly #host: HTMLElement
  #layout: Layout
  #view: View
  #marked: Marked = { calls: [], selected: undefined }
  /** Where a motion leads; what is asked during one starts from there. */
  #goal: { from: number; to: number }
  #frame = 0

  static async open(figure: TimelineFigure, host: HTMLElement): Promise<Timeline> {
    return new Timeline(await TimelineModel.open(figure), host)
  }

  private constructor(model: TimelineModel, host: HTMLElement) {
    this.#model = model
    this.#host = host
    this.#view = { from: 0, to: model.length, instance: undefined }
    this.#goal = { from: 0, to: model.length }
    this.#layout = layOut(model, host.clientWidth, undefined)
    host.append(
      this.#controls(),
      this.#legend(),
      this.#prepareCanvas(),
      this.#prepareStatus(),
      help(model.figure.id),
    )
    const { highlight } = model.figure
    if (highlight !== undefined)
      this.#marked = { calls: model.callsOf(highlight.workflow), selected: undefined }
    this.redraw()
  }

  /** Now, at the present width and theme. */
  redraw(): void {
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
    const width = Math.max(240, Math.floor(this.#host.clientWidth))
    this.#layout = layOut(this.#model, width, this.#view.instance)
    const ratio = devicePixelRatio
    const { height } = this.#layout
    const canvas = this.#canvas
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio)
      canvas.height = Math.round(height * ratio)
      canvas.style.height = `${height}px`
    }
    const context = canvas.getContext('2d')!
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    draw(canvasSurface(context), this.#model, this.#layout, this.#view, this.#marked, currentTheme())
  }

  /** What is in view, as a figure for paper. */
  svg(width: number): string {
    const layout = layOut(this.#model, width, this.#view.instance)
    const surface = new SvgSurface()
    draw(surface, this.#model, layout, this.#view, this.#marked, paperTheme)
    const { title, caption } = this.#model.figure
    return surface.finish(width, layout.height, title, caption)
  }

  /** Every call in view. */
  *csv(): Generator<readonly (string | number)[], void, undefined> {
    const { columns, token, finished, figure, instances } = this.#model
    const ms = (ticks: number) => Math.round((figure.fromMs + ticks * figure.tickMs) * 1e6) / 1e6
    yield [
      'instance',
      'lane',
      'workflow',
      'position',
      'stage',
      'prompt_tokens',
      'output_tokens',
      'ready_ms',
      'leased_ms',
      'first_token_ms',
      'finished_ms',
    ]
    for (const [i, instance] of instances.entries()) {
      if (this.#view.instance !== undefined && this.#view.instance !== i) continue
      const { first, end } = instance.visible(this.#view.from, this.#view.to)
      for (let call = first; call < end; call++) {
        if (finished[call]! < this.#view.from) continue
        yield [
          instance.label,
          columns.lane[call]!,
          this.#model.workflowName(columns.workflow[call]!),
          columns.position[call]!,
          figure.stages[columns.stage[call]!]!,
          columns.promptTokens[call]!,
          columns.outputTokens[call]!,
          ms(columns.leased[call]! - columns.wait[call]!),
          ms(columns.leased[call]!),
          ms(token[call]!),
          ms(finished[call]!),
        ]
      }
    }
  }

  #request(): void {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.redraw())
  }

  #controls(): HTMLElement {
    const bar = document.createElement('div')
    bar.className = 'controls'
    bar.setAttribute('role', 'toolbar')
    bar.setAttribute('aria-label', 'Timeline')
    const label = document.createElement('label')
    label.textContent = 'Instance '
    this.#select.append(option('all', ''))
    for (const [i, { label: name }] of this.#model.instances.entries())
      this.#select.append(option(name, String(i)))
    this.#select.addEventListener('change', () =>
      this.#show(this.#select.value === '' ? undefined : Number(this.#select.value)),
    )
    label.append(this.#select)
    bar.append(
      label,
      button('−', 'Zoom out', () => this.#zoom(ZOOM)),
      button('+', 'Zoom in', () => this.#zoom(1 / ZOOM)),
      button('←', 'Earlier', () => this.#pan(-PAN)),
      button('→', 'Later', () => this.#pan(PAN)),
      button('Whole run', undefined, () => this.#move(0, this.#model.length)),
    )
    const { highlight } = this.#model.figure
    if (highlight !== undefined) {
      this.#toggle.type = 'button'
      this.#toggle.textContent = `Workflow ${highlight.label}`
      this.#toggle.setAttribute('aria-pressed', 'true')
      this.#toggle.setAttribute('aria-label', `Highlight the calls of workflow ${highlight.label}`)
      this.#toggle.addEventListener('click', () => {
        const isOn = this.#toggle.getAttribute('aria-pressed') === 'true'
        this.#mark(isOn ? undefined : highlight.workflow, undefined)
      })
      bar.append(this.#toggle)
    }
    return bar
  }

  #legend(): HTMLElement {
    const list = document.createElement('ul')
    list.className = 'legend'
    for (const [kind, text] of [
      ['prefill', 'prefill'],
      ['decode', 'decode'],
      ['marked', 'highlighted workflow'],
    ]) {
      const item = document.createElement('li')
      item.className = kind!
      item.textContent = text!
      list.append(item)
    }
    return list
  }

  #prepareCanvas(): HTMLElement {
    const canvas = this.#canvas
    const { id } = this.#model.figure
    canvas.tabIndex = 0
    canvas.setAttribute('role', 'application')
    canvas.setAttribute('aria-roledescription', 'timeline')
    canvas.setAttribute('aria-label', 'Timeline of calls by instance')
    canvas.setAttribute('aria-describedby', `${id}-summary ${id}-help`)
    canvas.addEventListener('keydown', (event) => this.#key(event))
    canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false })
    canvas.addEventListener('dblclick', (event) => this.#zoom(1 / (ZOOM * ZOOM), this.#timeAt(event.offsetX)))
    this.#followPointers()
    return canvas
  }

  #prepareStatus(): HTMLElement {
    this.#status.className = 'status'
    this.#status.setAttribute('role', 'status')
    this.#status.textContent = 'Choose a call to see its times.'
    return this.#status
  }

  #timeAt(x: number): number {
    const { from, to } = this.#view
    return from + (x / this.#layout.width) * (to - from)
  }

  #zoom(factor: number, about = (this.#goal.from + this.#goal.to) / 2): void {
    const { from, to } = this.#goal
    const span = Math.max(SHORTEST, Math.min(this.#model.length, (to - from) * factor))
    const share = (about - from) / (to - from)
    this.#move(about - share * span, about - share * span + span)
  }

  #pan(share: number): void {
    const { from, to } = this.#goal
    this.#move(from + share * (to - from), to + share * (to - from))
  }

  /** To a view inside the run, in a short motion unless the reader wants none. */
  #move(from: number, to: number, isDirect = false): void {
    const span = Math.min(this.#model.length, Math.max(SHORTEST, to - from))
    const start = Math.max(0, Math.min(this.#model.length - span, from))
    const target = { from: start, to: start + span }
    this.#goal = target
    const detail = hasBars(this.#model, { ...this.#view, ...target }) ? '' : ' Zoom in to see single calls.'
    this.#say(`${this.#at(target.from)} to ${this.#at(target.to)} in view.${detail}`)
    if (isDirect || matchMedia('(prefers-reduced-motion: reduce)').matches) {
      Object.assign(this.#view, target)
      this.#request()
      return
    }
    const before = { ...this.#view }
    const began = performance.now()
    const step = (now: number) => {
      const share = Math.min(1, Math.max(0, (now - began) / MOTION_MS))
      const eased = 1 - (1 - share) ** 3
      this.#view.from = before.from + (target.from - before.from) * eased
      this.#view.to = before.to + (target.to - before.to) * eased
      this.redraw()
      if (share < 1) this.#frame = requestAnimationFrame(step)
    }
    cancelAnimationFrame(this.#frame)
    this.#frame = requestAnimationFrame(step)
  }

  /** A time of the run, as fine as a thousandth of what is in view. */
  #at(ticks: number): string {
    const { figure, length } = this.#model
    const { name, per } = timeUnit(figure.fromMs + this.#model.toMs(length))
    const finest = this.#model.toMs(this.#goal.to - this.#goal.from) / per / 1000
    const digits = Math.max(0, Math.min(7, Math.ceil(-Math.log10(finest))))
    const value = (figure.fromMs + this.#model.toMs(ticks)) / per
    return `${value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${name}`
  }

  #show(instance: number | undefined): void {
    this.#view.instance = instance
    this.#select.value = instance === undefined ? '' : String(instance)
    this.#say(
      instance === undefined ? 'All instances.' : `Instance ${this.#model.instances[instance]!.label}.`,
    )
    this.#request()
  }

  #mark(workflow: number | undefined, selected: number | undefined): void {
    const calls = workflow === undefined ? [] : this.#model.callsOf(workflow)
    this.#marked = { calls, selected }
    const isOwn = workflow !== undefined && workflow === this.#model.figure.highlight?.workflow
    this.#toggle.setAttribute('aria-pressed', String(isOwn))
    this.#request()
  }

  #choose(call: number): void {
    this.#mark(this.#model.columns.workflow[call]!, call)
    const { from, to } = this.#view
    const half = (to - from) / 2
    const leased = this.#model.columns.leased[call]!
    if (leased < from || leased > to) this.#move(leased - half, leased + half, true)
    this.#say(this.#describe(call))
  }

  #describe(call: number): string {
    const { columns, figure, instances } = this.#model
    const ms = (ticks: number) => written(this.#model.toMs(ticks), 'ms')
    const instance = instances[this.#model.instanceOf(call)]!
    return `${figure.stages[columns.stage[call]!]}, call ${columns.position[call]} of workflow ${this.#model.workflowName(columns.workflow[call]!)}, on ${instance.label}: leased at ${this.#at(columns.leased[call]!)} after waiting ${ms(columns.wait[call]!)}, prefill ${ms(columns.prefill[call]!)}, decode ${ms(columns.decode[call]!)}; ${columns.promptTokens[call]!.toLocaleString('en-US')} + ${columns.outputTokens[call]!.toLocaleString('en-US')} tokens.`
  }

  #say(text: string): void {
    this.#status.textContent = text
  }

  /** The call after or before the chosen one on its instance; at first the first one in view. */
  #step(by: 1 | -1): void {
    const { selected } = this.#marked
    const { instances } = this.#model
    if (selected !== undefined) {
      const own = instances[this.#model.instanceOf(selected)]!
      const next = selected + by
      if (next >= own.first && next < own.end) this.#choose(next)
      return
    }
    const shown = this.#view.instance ?? instances.findIndex((one) => one.end > one.first)
    const own = instances[shown]!
    const { first } = own.visible(this.#view.from, this.#view.to)
    if (own.end > own.first) this.#choose(Math.min(first, own.end - 1))
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const count = this.#model.instances.length
    const shown = this.#view.instance ?? -1
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.#pan(-PAN),
      ArrowRight: () => this.#pan(PAN),
      ArrowUp: () => this.#show(shown <= 0 ? (shown < 0 ? count - 1 : undefined) : shown - 1),
      ArrowDown: () => this.#show(shown + 1 >= count ? undefined : shown + 1),
      '+': () => this.#zoom(1 / ZOOM),
      '=': () => this.#zoom(1 / ZOOM),
      '-': () => this.#zoom(ZOOM),
      Home: () => this.#move(0, this.#model.length),
      n: () => this.#step(1),
      p: () => this.#step(-1),
      Escape: () => {
        this.#mark(undefined, undefined)
        this.#say('Nothing is chosen.')
      },
    }
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
  }

  /** The page scrolls as usual: only a pinch, Ctrl and a wheel, or a sideways wheel are ours. */
  #wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      const about = this.#timeAt(event.offsetX)
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01)
      const { from, to } = this.#view
      const span = Math.max(SHORTEST, Math.min(this.#model.length, (to - from) * factor))
      const share = (about - from) / (to - from)
      this.#move(about - share * span, about - share * span + span, true)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault()
      const by = (event.deltaX / this.#layout.width) * (this.#view.to - this.#view.from)
      this.#move(this.#view.from + by, this.#view.to + by, true)
    }
  }

  /** One pointer moves, or chooses where it did not; two zoom. */
  #followPointers(): void {
    const canvas = this.#canvas
    const held = new Map<number, number>()
    let wasMoved = false
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return
      if (held.size === 0) wasMoved = false
      held.set(event.pointerId, event.offsetX)
      canvas.setPointerCapture(event.pointerId)
    })
    canvas.addEventListener('pointermove', (event) => {
      const before = held.get(event.pointerId)
      if (before === undefined) return
      const { from, to } = this.#view
      const perPixel = (to - from) / this.#layout.width
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, x]) => x)
      if (other !== undefined) {
        const [was, is] = [Math.abs(before - other), Math.abs(event.offsetX - other)]
        if (was > 4 && is > 4) {
          const about = from + other * perPixel
          const span = Math.max(SHORTEST, Math.min(this.#model.length, ((to - from) * was) / is))
          const share = (about - from) / (to - from)
          this.#move(about - share * span, about - share * span + span, true)
        }
        wasMoved = true
      } else {
        if (!wasMoved && Math.abs(event.offsetX - before) < 4) return
        wasMoved = true
        const by = (before - event.offsetX) * perPixel
        this.#move(from + by, to + by, true)
      }
      held.set(event.pointerId, event.offsetX)
    })
    const release = (event: PointerEvent) => {
      if (!held.delete(event.pointerId) || wasMoved || event.type === 'pointercancel') return
      this.#click(event.offsetX, event.offsetY)
    }
    canvas.addEventListener('pointerup', release)
    canvas.addEventListener('pointercancel', release)
  }

  #click(x: number, y: number): void {
    const band = this.#layout.bands.find(({ top, height }) => y >= top - 4 && y <= top + height + 4)
    if (band === undefined) return
    const { lanes } = this.#model.instances[band.instance]!
    const lane = Math.floor(((band.top + band.height - y) / band.height) * lanes)
    const call = this.#model.callAt(band.instance, lane, this.#timeAt(x))
    if (call !== undefined) this.#choose(call)
  }
}

function option(text: string, value: string): HTMLOptionElement {
  const made = document.createElement('option')
  made.textContent = text
  made.value = value
  return made
}

function button(text: string, label: string | undefined, act: () => void): HTMLButtonElement {
  const made = document.createElement('button')
  made.type = 'button'
  made.textContent = text
  if (label !== undefined) {
    made.setAttribute('aria-label', label)
    made.title = label
  }
  made.addEventListener('click', act)
  return made
}

function help(id: string): HTMLElement {
  const made = document.createElement('p')
  made.id = `${id}-help`
  made.className = 'help'
  made.textContent = HELP
  return made
}
