// Curves on two logarithmic axes as SVG text: points, the fitted power as a line, a legend with the exponents. The same bytes
// from the same numbers.
import { number } from './text.js'

const [WIDTH, HEIGHT] = [760, 440]
const BOX = { left: 70, top: 44, right: 490, bottom: 390 }
/** Okabe and Ito: told apart without all of colour vision. */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#999999']

const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const fixed = (value) => value.toFixed(1)

function decades(values) {
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9)
  const high = Math.ceil(Math.log10(Math.max(...values)) - 1e-9)
  return Array.from({ length: Math.max(high, low + 1) - low + 1 }, (_, i) => low + i)
}

function power(exponent) {
  const digits = [...String(exponent)].map((c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]))
  return `10${digits.join('')}`
}

/** @param curves of curvesOf, all with one axis and one unit */
export function plot(title, curves) {
  const points = curves.flatMap((curve) => curve.points)
  const xs = decades(points.map(({ x }) => x))
  const ys = decades(points.map(({ y }) => y))
  const across = (x) => BOX.left + ((Math.log10(x) - xs[0]) / (xs.at(-1) - xs[0])) * (BOX.right - BOX.left)
  const up = (y) => BOX.bottom - ((Math.log10(y) - ys[0]) / (ys.at(-1) - ys[0])) * (BOX.bottom - BOX.top)
  const parts = []
  const text = (x, y, what, more = '') =>
    parts.push(`<text x="${fixed(x)}" y="${fixed(y)}"${more}>${escaped(what)}</text>`)
  const line = (x1, y1, x2, y2, more) =>
    parts.push(`<line x1="${fixed(x1)}" y1="${fixed(y1)}" x2="${fixed(x2)}" y2="${fixed(y2)}" ${more}/>`)

  text(BOX.left, 24, title, ' font-size="15" font-weight="bold"')
  for (const x of xs) {
    line(across(10 ** x), BOX.top, across(10 ** x), BOX.bottom, 'stroke="#ddd"')
    text(across(10 ** x), BOX.bottom + 18, power(x), ' text-anchor="middle"')
  }
  for (const y of ys) {
    line(BOX.left, up(10 ** y), BOX.right, up(10 ** y), 'stroke="#ddd"')
    text(BOX.left - 8, up(10 ** y) + 4, power(y), ' text-anchor="end"')
  }
  text((BOX.left + BOX.right) / 2, BOX.bottom + 38, curves[0].axis, ' text-anchor="middle"')
  text(
    18,
    (BOX.top + BOX.bottom) / 2,
    curves[0].unit,
    ` text-anchor="middle" transform="rotate(-90 18 ${fixed((BOX.top + BOX.bottom) / 2)})"`,
  )

  for (const [i, { series, points: own, fit }] of curves.entries()) {
    const colour = COLOURS[i % COLOURS.length]
    const y = BOX.top + 14 + 36 * i
    if (fit && !fit.vague) {
      const ends = [own[0].x, own.at(-1).x].map((x) => [across(x), up(fit.c * x ** fit.k)])
      line(...ends[0], ...ends[1], `stroke="${colour}" stroke-dasharray="4 3"`)
    }
    for (const point of own)
      parts.push(
        `<circle cx="${fixed(across(point.x))}" cy="${fixed(up(point.y))}" r="3.5" fill="${colour}"/>`,
      )
    parts.push(`<circle cx="506" cy="${y - 4}" r="4" fill="${colour}"/>`)
    text(516, y, series)
    if (fit) text(516, y + 14, exponent(fit), ' fill="#555"')
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" role="img" aria-label="${escaped(title)}">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

export const exponent = ({ k, error, vague }) => {
  const power = `${k.toFixed(2)}${error === undefined ? '' : ` ± ${error < 0.005 ? number(error) : error.toFixed(2)}`}`
  return vague ? `no single exponent (${power})` : `exponent ${power}`
}
