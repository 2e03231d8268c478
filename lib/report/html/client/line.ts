import * as Plot from '@observablehq/plot'
import type { LineFigure, Series } from '../figure.ts'
import { drawLegend, layOut, lineItem } from './legend.ts'
import { largest, type Shown, shownAs, written } from './scales.ts'
import { DASHES, FONT, SYMBOLS, seriesColor, type Theme } from './theme.ts'

interface Point {
  x: number
  y: number
  low: number
  high: number
  name: string
}

export function drawLines(figure: LineFigure, width: number, theme: Theme, hasTips: boolean): SVGSVGElement {
  const x = shownAs(figure.x, largest(figure.series.map((series) => series.x)))
  const y = shownAs(figure.y, largest(figure.series.flatMap(({ y: own, high = [] }) => [own, high])))
  return figure.hasPanels
    ? drawPanels(figure, x, y, width, theme, hasTips)
    : drawTogether(figure, x, y, width, theme, hasTips)
}

function style(theme: Theme) {
  return {
    fontFamily: FONT,
    fontSize: '12px',
    color: theme.muted,
    background: 'none',
    overflow: 'visible',
  }
}

function pointsOf(series: Series, x: Shown, y: Shown): Point[] {
  return series.x.flatMap((at, i) => {
    const value = series.y[i] ?? null
    if (value === null) return []
    const low = series.low?.[i] ?? value
    const high = series.high?.[i] ?? value
    return [{ x: at / x.per, y: value / y.per, low: low / y.per, high: high / y.per, name: series.name }]
  })
}

function drawTogether(
  figure: LineFigure,
  x: Shown,
  y: Shown,
  width: number,
  theme: Theme,
  hasTips: boolean,
): SVGSVGElement {
  const { series, isStep, hasPoints, marks = [], rules = [] } = figure
  const isNarrow = width < 480
  const marginLeft = isNarrow ? 44 : 56
  const items = series.length > 1 ? series.map(({ name }, i) => lineItem(name, i)) : []
  const room = width - marginLeft - 8
  const legend = layOut(items, room).height
  const groups = series.map((one) => pointsOf(one, x, y))
  const all = groups.flat()
  const layers: Plot.Markish[] = [
    Plot.gridY({ stroke: theme.grid, strokeOpacity: 1 }),
    Plot.ruleY([figure.y.zero === true ? 0 : []].flat(), { stroke: theme.muted }),
  ]
  for (const [i, { x: at, label }] of rules.entries()) {
    layers.push(
      Plot.ruleX([at / x.per], { stroke: theme.muted, strokeDasharray: '2 3' }),
      Plot.text([label], {
        x: at / x.per,
        frameAnchor: 'bottom',
        dy: -6 - 15 * i,
        dx: 5,
        textAnchor: 'start',
        fill: theme.muted,
      }),
    )
  }
  for (const [i, points] of groups.entries()) {
    const stroke = seriesColor(theme, i)
    if (series[i]!.low !== undefined) {
      layers.push(
        Plot.areaY(points, { x: 'x', y1: 'low', y2: 'high', fill: stroke, fillOpacity: 0.12 }),
        Plot.lineY(points, {
          x: 'x',
          y: 'low',
          stroke,
          strokeOpacity: 0.45,
          strokeWidth: 1,
          strokeDasharray: '3 2',
        }),
        Plot.lineY(points, {
          x: 'x',
          y: 'high',
          stroke,
          strokeOpacity: 0.45,
          strokeWidth: 1,
          strokeDasharray: '3 2',
        }),
      )
    }
    const path = isStep && points.length > 0 ? [{ ...points[0]!, y: 0 }, ...points] : points
    layers.push(
      Plot.line(path, {
        x: 'x',
        y: 'y',
        stroke,
        strokeWidth: 1.75,
        strokeDasharray: DASHES[i % DASHES.length]!,
        ...(isStep && { curve: 'step-after' as const }),
      }),
    )
    const marked = hasPoints ? points : groups.length > 1 ? spread(points, i / groups.length) : []
    if (marked.length > 0) {
      const symbol = SYMBOLS[i % SYMBOLS.length]!
      layers.push(
        Plot.dot(marked, { x: 'x', y: 'y', symbol, stroke, fill: theme.ground, r: 3.2, strokeWidth: 1.5 }),
      )
    }
  }
  const middle = (Math.min(...all.map((p) => p.x)) + Math.max(...all.map((p) => p.x))) / 2
  for (const mark of marks) {
    const isLeft = mark.x / x.per <= middle
    layers.push(
      Plot.dot([mark], {
        x: mark.x / x.per,
        y: mark.y / y.per,
        r: 5,
        fill: theme.accent,
        stroke: theme.ground,
        strokeWidth: 1.5,
      }),
      Plot.text([mark.label], {
        x: mark.x / x.per,
        y: mark.y / y.per,
        dy: 20,
        dx: isLeft ? -4 : 4,
        textAnchor: isLeft ? 'start' : 'end',
        fill: theme.accent,
        stroke: theme.ground,
        strokeWidth: 4,
        fontWeight: 600,
      }),
    )
  }
  layers.push(yLabel(y.label, marginLeft, theme))
  if (hasTips) layers.push(tip(all, figure, x, y, theme))
  const svg = Plot.plot({
    width,
    height: (isNarrow ? 240 : 320) + legend,
    marginLeft,
    marginRight: 12,
    marginTop: 34 + legend,
    marginBottom: 44,
    style: style(theme),
    x: {
      label: x.label,
      labelAnchor: 'center',
      labelArrow: 'none',
      ticks: isNarrow ? 5 : 10,
      tickSize: 4,
      ...(figure.x.zero && { zero: true }),
    },
    y: {
      label: null,
      ticks: 5,
      tickSize: 0,
      nice: true,
      ...(figure.y.zero && { zero: true }),
      ...(figure.y.unit === 'share' && { domain: [0, 100] }),
      ...(marks.length > 0 && figure.y.unit !== 'share' && { insetBottom: 22 }),
    },
    marks: layers,
  }) as SVGSVGElement
  drawLegend(svg, items, room, marginLeft, theme)
  return svg
}

/** Some points along a dense line, at other places on each: its marker tells it from the others. */
function spread(points: readonly Point[], phase: number): Point[] {
  const step = points.length / 7
  return Array.from({ length: Math.min(7, points.length) }, (_, k) => points[Math.floor((k + phase) * step)]!)
}

const PANEL = 58

/** A panel per series, with its name inside; all have the same axes. */
function drawPanels(
  figure: LineFigure,
  x: Shown,
  y: Shown,
  width: number,
  theme: Theme,
  hasTips: boolean,
): SVGSVGElement {
  const groups = figure.series.map((one) => pointsOf(one, x, y))
  const all = groups.flat()
  const top = Math.max(...all.map((point) => point.y), figure.y.unit === 'share' ? 1 : 1 / y.per)
  const marginLeft = width < 480 ? 44 : 56
  return Plot.plot({
    width,
    height: PANEL * groups.length + 34 + 44,
    marginLeft,
    marginRight: 12,
    marginTop: 34,
    marginBottom: 44,
    style: style(theme),
    x: {
      label: x.label,
      labelAnchor: 'center',
      labelArrow: 'none',
      ticks: width < 480 ? 5 : 10,
      tickSize: 4,
    },
    y: { label: null, ticks: 2, tickSize: 0, domain: [0, top * 1.35] },
    fy: { axis: null, domain: figure.series.map(({ name }) => name), padding: 0.16 },
    marks: [
      Plot.gridY({ stroke: theme.grid, strokeOpacity: 1, ticks: 2 }),
      Plot.areaY(all, { x: 'x', y: 'y', fy: 'name', fill: theme.decode, fillOpacity: 0.55 }),
      Plot.line(all, { x: 'x', y: 'y', fy: 'name', stroke: theme.ink, strokeWidth: 1 }),
      Plot.ruleY([0], { stroke: theme.muted }),
      Plot.text(figure.series, {
        fy: 'name',
        text: 'name',
        frameAnchor: 'top-left',
        dx: 6,
        dy: 2,
        fill: theme.ink,
        stroke: theme.ground,
        strokeWidth: 4,
        fontWeight: 600,
      }),
      yLabel(y.label, marginLeft, theme, figure.series[0]!.name),
      ...(hasTips ? [tip(all, figure, x, y, theme, true)] : []),
    ],
  }) as SVGSVGElement
}

/** Above the axis, from the left edge of the figure; with panels above the first. */
function yLabel(label: string, marginLeft: number, theme: Theme, panel?: string): Plot.Markish {
  return Plot.text([label], {
    ...(panel !== undefined && { fy: () => panel }),
    frameAnchor: 'top-left',
    dx: -marginLeft,
    dy: -22,
    fill: theme.muted,
  })
}

function tip(
  points: Point[],
  figure: LineFigure,
  x: Shown,
  y: Shown,
  theme: Theme,
  hasPanels = false,
): Plot.Markish {
  const title = (point: Point) => {
    const own = figure.series.length > 1 ? `${point.name}\n` : ''
    return `${own}${figure.x.label}: ${written(point.x * x.per, figure.x.unit)}\n${figure.y.label}: ${written(point.y * y.per, figure.y.unit)}`
  }
  const channels = { x: 'x', y: 'y', title, ...(hasPanels && { fy: 'name' }) }
  return Plot.tip(
    points,
    Plot.pointer({ ...channels, fill: theme.ground, stroke: theme.muted, maxRadius: 60 }),
  )
}
