import './style.css'
import type { Figure } from '../figure.ts'
import { drawDots } from './dots.ts'
import { download, rowsOf, standalone, toCsv } from './download.ts'
import { drawLines } from './line.ts'
import { drawPath } from './path.ts'
import { currentTheme, onThemeChange, paperTheme, type Theme } from './theme.ts'
import { Timeline } from './timeline/timeline.ts'

/** Width of a saved figure, px: a column and a half of most journals. */
const PAPER_WIDTH = 680

type Drawn = Exclude<Figure, { kind: 'timeline' }>

function drawSvg(figure: Drawn, width: number, theme: Theme, hasTips: boolean): SVGSVGElement {
  switch (figure.kind) {
    case 'line':
      return drawLines(figure, width, theme, hasTips)
    case 'path':
      return drawPath(figure, width, theme, hasTips)
    case 'dot':
      return drawDots(figure, width, theme, hasTips)
  }
}

/** On the page a figure is one picture: its words are in title, caption and table. */
function show(figure: Drawn, host: HTMLElement): void {
  const width = Math.max(240, Math.floor(host.clientWidth))
  const svg = drawSvg(figure, width, currentTheme(), true)
  svg.setAttribute('role', 'img')
  svg.setAttribute('aria-label', figure.title)
  for (const group of svg.querySelectorAll('[aria-label]')) group.removeAttribute('aria-label')
  host.replaceChildren(svg)
}

function save(figure: Figure, format: string, timelines: ReadonlyMap<string, Timeline>): void {
  const timeline = timelines.get(figure.id)
  if (format === 'csv') {
    const rows = figure.kind === 'timeline' ? (timeline?.csv() ?? []) : rowsOf(figure)
    download(`${figure.id}.csv`, 'text/csv', toCsv(rows))
    return
  }
  const text =
    figure.kind === 'timeline'
      ? (timeline?.svg(PAPER_WIDTH) ?? '')
      : standalone(drawSvg(figure, PAPER_WIDTH, paperTheme, false), figure.title, figure.caption)
  download(`${figure.id}.svg`, 'image/svg+xml', [text])
}

async function main(): Promise<void> {
  const figures = JSON.parse(document.getElementById('figures')!.textContent) as Figure[]
  const timelines = new Map<string, Timeline>()
  const hostOf = ({ id }: Figure) => document.getElementById(`${id}-plot`)!
  const redraw = (figure: Figure) => {
    if (figure.kind === 'timeline') timelines.get(figure.id)?.redraw()
    else show(figure, hostOf(figure))
  }
  for (const figure of figures) if (figure.kind !== 'timeline') show(figure, hostOf(figure))
  for (const figure of figures) {
    if (figure.kind === 'timeline') timelines.set(figure.id, await Timeline.open(figure, hostOf(figure)))
  }

  const widths = new Map<Element, number>()
  const observer = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const before = widths.get(target)
      widths.set(target, contentRect.width)
      if (before === undefined || before === contentRect.width) continue
      redraw(figures.find((figure) => `${figure.id}-plot` === target.id)!)
    }
  })
  for (const figure of figures) observer.observe(hostOf(figure))
  onThemeChange(() => figures.forEach(redraw))
  for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-save]')) {
    const figure = figures.find(({ id }) => id === button.dataset.figure)!
    button.addEventListener('click', () => save(figure, button.dataset.save!, timelines))
  }
  performance.mark('laxity-report-ready')
  document.documentElement.dataset.ready = 'true'
}

void main()
