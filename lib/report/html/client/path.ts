import * as Plot from '@observablehq/plot'
import type { PathFigure, PathRow } from '../figure.ts'
import { boxItem, clipped, drawLegend, layOut, textWidth } from './legend.ts'
import { timeUnit, written } from './scales.ts'
import { FONT, type Theme } from './theme.ts'

const ITEMS = [
  boxItem(
    'waiting',
    () => 'none',
    (theme) => theme.muted,
  ),
  boxItem(
    'prefill',
    (theme) => theme.prefill,
    (theme) => theme.prefill,
  ),
  boxItem(
    'decode',
    (theme) => theme.decode,
    (theme) => theme.decode,
  ),
  boxItem(
    '▸ critical prefill',
    (theme) => theme.accent,
    (theme) => theme.accent,
  ),
  boxItem(
    '▸ critical decode',
    (theme) => theme.accentLight,
    (theme) => theme.accentLight,
  ),
]

/** Bars of calls by row; names stand left, on narrow pages above their bars. */
export function drawPath({ rows }: PathFigure, width: number, theme: Theme, hasTips: boolean): SVGSVGElement {
  const { name: unit, per } = timeUnit(Math.max(...rows.map((row) => row.finishedMs)))
  const isNarrow = width < 560
  const names = rows.map((row) => `${row.isCritical ? '▸ ' : ''}${row.name}`)
  const marginLeft = isNarrow ? 6 : Math.min(250, 14 + Math.max(...names.map((name) => textWidth(name))))
  const height = isNarrow ? 36 : 22
  const legend = layOut(ITEMS, width - marginLeft).height
  const data = rows.map((row, i) => ({ ...row, i, label: names[i]! }))
  type Row = (typeof data)[number]
  const bar = (from: keyof PathRow, to: keyof PathRow, fill: (row: Row) => string, stroke?: string) =>
    Plot.barX(data, {
      y: 'i',
      x1: (row: Row) => (row[from] as number) / per,
      x2: (row: Row) => (row[to] as number) / per,
      fill: stroke === undefined ? fill : 'none',
      ...(stroke !== undefined && { stroke, strokeWidth: 1, strokeDasharray: '2 2' }),
      insetTop: isNarrow ? 18 : 4,
      insetBottom: isNarrow ? 5 : 4,
    })
  const critical = data.filter((row) => row.isCritical)
  const steps = critical.slice(1).map((row, k) => ({ from: critical[k]!, to: row }))
  const title = (row: Row) =>
    `${row.name}\non ${row.instance}\nwait ${written(row.leasedMs - row.readyMs, 'ms')}\nprefill ${written(row.tokenMs - row.leasedMs, 'ms')}\ndecode ${written(row.finishedMs - row.tokenMs, 'ms')}`
  const svg = Plot.plot({
    width,
    height: height * rows.length + legend + 26 + 42,
    marginLeft,
    marginRight: 14,
    marginTop: legend + 26,
    marginBottom: 42,
    style: {
      fontFamily: FONT,
      fontSize: '12px',
      color: theme.muted,
      background: 'none',
      overflow: 'visible',
    },
    x: {
      label: `Time since arrival (${unit})`,
      labelAnchor: 'center',
      labelArrow: 'none',
      tickSize: 4,
      ticks: isNarrow ? 5 : 10,
    },
    y: { axis: null, domain: data.map(({ i }) => i), padding: 0 },
    marks: [
      Plot.gridX({ stroke: theme.grid, strokeOpacity: 1, ticks: isNarrow ? 5 : 10 }),
      bar('readyMs', 'leasedMs', () => 'none', theme.muted),
      bar('leasedMs', 'tokenMs', (row) => (row.isCritical ? theme.accent : theme.prefill)),
      bar('tokenMs', 'finishedMs', (row) => (row.isCritical ? theme.accentLight : theme.decode)),
      Plot.link(steps, {
        x1: ({ from }) => from.finishedMs / per,
        x2: ({ from }) => from.finishedMs / per,
        y1: ({ from }) => from.i,
        y2: ({ to }) => to.i,
        stroke: theme.accent,
        strokeWidth: 1,
        strokeDasharray: '1 2',
      }),
      Plot.text(data, {
        y: 'i',
        text: ({ label }) => clipped(label, isNarrow ? width - 24 : marginLeft - 12),
        frameAnchor: 'left',
        textAnchor: isNarrow ? 'start' : 'end',
        dx: isNarrow ? 0 : -8,
        dy: isNarrow ? -9 : 0,
        fill: (row: Row) => (row.isCritical ? theme.ink : theme.muted),
        ...(isNarrow && { stroke: theme.ground, strokeWidth: 3 }),
      }),
      ...(hasTips
        ? [
            Plot.tip(
              data,
              Plot.pointerY({
                y: 'i',
                x: (row: Row) => row.finishedMs / per,
                title,
                fill: theme.ground,
                stroke: theme.muted,
              }),
            ),
          ]
        : []),
    ],
  }) as SVGSVGElement
  drawLegend(svg, ITEMS, width - marginLeft, marginLeft, theme)
  return svg
}
