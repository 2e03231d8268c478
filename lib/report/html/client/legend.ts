import { DASHES, FONT, SYMBOLS, seriesColor, type Theme } from './theme.ts'

const SVG = 'http://www.w3.org/2000/svg'
const ROW = 20
const SAMPLE = 26

export interface LegendItem {
  name: string
  /** Draws the sample around the origin, 26 px wide. */
  sample: (theme: Theme) => SVGElement[]
}

export function lineItem(name: string, i: number): LegendItem {
  return {
    name,
    sample: (theme) => {
      const stroke = seriesColor(theme, i)
      const line = element('line', {
        x1: 0,
        x2: SAMPLE,
        y1: 0,
        y2: 0,
        stroke,
        'stroke-width': 1.75,
        'stroke-dasharray': DASHES[i % DASHES.length]!,
      })
      return [
        line,
        element('path', {
          d: SHAPES[SYMBOLS[i % SYMBOLS.length]!],
          transform: `translate(${SAMPLE / 2},0)`,
          fill: theme.ground,
          stroke,
          'stroke-width': 1.5,
        }),
      ]
    },
  }
}

export function boxItem(
  name: string,
  fill: (theme: Theme) => string,
  stroke: (theme: Theme) => string,
): LegendItem {
  return {
    name,
    sample: (theme) => [
      element('rect', { x: 4, y: -5, width: 18, height: 10, fill: fill(theme), stroke: stroke(theme) }),
    ],
  }
}

/** Where the items of a legend go: as many in a row as fit. */
export function layOut(
  items: readonly LegendItem[],
  width: number,
): { height: number; at: { x: number; y: number }[] } {
  let x = 0
  let y = 0
  const at = items.map(({ name }) => {
    const size = Math.min(width, SAMPLE + 8 + textWidth(name) + 18)
    if (x > 0 && x + size > width) {
      x = 0
      y += ROW
    }
    const place = { x, y }
    x += size
    return place
  })
  return { height: items.length === 0 ? 0 : y + ROW, at }
}

export function drawLegend(
  svg: SVGSVGElement,
  items: readonly LegendItem[],
  width: number,
  left: number,
  theme: Theme,
): void {
  const { at } = layOut(items, width)
  const group = element('g', {
    'aria-label': 'legend',
    'font-family': FONT,
    'font-size': 12,
    'text-anchor': 'start',
  })
  for (const [i, { name, sample }] of items.entries()) {
    const item = element('g', { transform: `translate(${left + at[i]!.x},${at[i]!.y + ROW / 2})` })
    item.append(...sample(theme))
    const text = element('text', { x: SAMPLE + 8, dy: '0.35em', fill: theme.ink })
    text.textContent = clipped(name, width - SAMPLE - 8)
    item.append(text)
    group.append(item)
  }
  svg.append(group)
}

export function element(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value))
  return made
}

const pen = document.createElement('canvas').getContext('2d')!

export function textWidth(text: string, size = 12): number {
  pen.font = `${size}px ${FONT}`
  return pen.measureText(text).width
}

/** The text, or its beginning and an ellipsis where it is wider than that. */
export function clipped(text: string, width: number, size = 12): string {
  if (textWidth(text, size) <= width) return text
  let end = text.length
  while (end > 1 && textWidth(`${text.slice(0, end)}…`, size) > width) end--
  return `${text.slice(0, end)}…`
}

const SHAPES: Readonly<Record<(typeof SYMBOLS)[number], string>> = {
  circle: 'M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0Z',
  square: 'M-3,-3h6v6h-6Z',
  triangle: 'M0,-4L3.8,2.8L-3.8,2.8Z',
  diamond: 'M0,-4.5L3,0L0,4.5L-3,0Z',
  star: 'M0,-4.5L1.1,-1.4L4.3,-1.4L1.7,0.5L2.6,3.6L0,1.7L-2.6,3.6L-1.7,0.5L-4.3,-1.4L-1.1,-1.4Z',
  wye: 'M-1.2,0L-4,-2.4L-2.6,-4L0,-1.6L2.6,-4L4,-2.4L1.2,0L1.2,4L-1.2,4Z',
}
