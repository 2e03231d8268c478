import * as Plot from '@observablehq/plot'
import type { DotFigure } from '../figure.ts'
import { clipped, textWidth } from './legend.ts'
import { shownAs, written } from './scales.ts'
import { FONT, type Theme } from './theme.ts'

type Row = DotFigure['rows'][number]
type Limit = NonNullable<DotFigure['limits']>[number]

/** A row per name, a panel per group; the smallest of each group is marked. */
export function drawDots(figure: DotFigure, width: number, theme: Theme, hasTips: boolean): SVGSVGElement {
  const { rows, limits = [] } = figure
  const x = shownAs(figure.x, Math.max(...rows.map((row: Row) => row.high ?? row.x)))
  const groups = [...new Set(rows.map(({ group }) => group))]
  const names = [...new Set(rows.map(({ name }) => name))]
  const marginLeft = Math.min(width * 0.42, 16 + Math.max(...names.map((name) => textWidth(name))))
  const isBest = (row: Row) => rows.every((other) => other.group !== row.group || other.x >= row.x)
  const head = groups.length > 1 ? 22 : 0
  return Plot.plot({
    width,
    height: groups.length * (names.length * 24 + head) + 20 + 44,
    marginLeft,
    marginRight: 16,
    marginTop: 20,
    marginBottom: 44,
    style: {
      fontFamily: FONT,
      fontSize: '12px',
      color: theme.muted,
      background: 'none',
      overflow: 'visible',
    },
    x: {
      label: x.label,
      labelAnchor: 'center',
      labelArrow: 'none',
      zero: true,
      tickSize: 4,
      ticks: width < 480 ? 5 : 10,
    },
    y: {
      label: null,
      domain: names,
      tickSize: 0,
      tickFormat: (name: string) => clipped(name, marginLeft - 10),
    },
    fy: { axis: null, domain: groups, padding: groups.length > 1 ? 0.2 : 0 },
    marks: [
      Plot.gridX({ stroke: theme.grid, strokeOpacity: 1 }),
      Plot.ruleX(limits, {
        fy: 'group',
        x: (limit: Limit) => limit.x / x.per,
        stroke: theme.ink,
        strokeDasharray: '4 3',
      }),
      Plot.text(limits, {
        fy: 'group',
        x: (limit: Limit) => limit.x / x.per,
        text: (limit: Limit) => `${limit.label} ${written(limit.x, figure.x.unit)}`,
        frameAnchor: 'bottom',
        dy: 3,
        dx: -4,
        textAnchor: 'end',
        fill: theme.muted,
        stroke: theme.ground,
        strokeWidth: 3,
      }),
      Plot.link(
        rows.filter((row: Row) => row.low !== undefined),
        {
          fy: 'group',
          y: 'name',
          x1: (row: Row) => row.low! / x.per,
          x2: (row: Row) => row.high! / x.per,
          stroke: theme.ink,
        },
      ),
      Plot.dot(rows, {
        fy: 'group',
        y: 'name',
        x: (row: Row) => row.x / x.per,
        r: 4.5,
        symbol: (row: Row) => (isBest(row) ? 'diamond' : 'circle'),
        fill: (row: Row) => (isBest(row) ? theme.accent : theme.ink),
      }),
      Plot.text(rows, {
        fy: 'group',
        y: 'name',
        x: (row: Row) => row.x / x.per,
        text: (row: Row) => written(row.x, figure.x.unit),
        dx: 10,
        textAnchor: 'start',
        fill: theme.ink,
        stroke: theme.ground,
        strokeWidth: 3,
      }),
      ...(groups.length > 1
        ? [
            Plot.text(groups, {
              fy: (group: string) => group,
              text: (group: string) => group,
              frameAnchor: 'top-left',
              dx: -marginLeft + 4,
              dy: -16,
              fill: theme.ink,
              fontWeight: 600,
            }),
          ]
        : []),
      ...(hasTips
        ? [
            Plot.tip(
              rows,
              Plot.pointer({
                fy: 'group',
                y: 'name',
                x: (row: Row) => row.x / x.per,
                title: (row: Row) => `${row.name}\n${row.group}\n${written(row.x, figure.x.unit)}`,
                fill: theme.ground,
                stroke: theme.muted,
              }),
            ),
          ]
        : []),
    ],
  }) as SVGSVGElement
}
