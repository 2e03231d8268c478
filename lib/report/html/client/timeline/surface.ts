import { FONT } from '../theme.ts'

/** What a timeline is drawn on: the canvas of the page, or the text of an SVG. */
export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string): void
  outline(x: number, y: number, width: number, height: number, stroke: string): void
  /** Between the x axis of the area at `base` and the heights. */
  area(xs: readonly number[], ys: readonly number[], base: number, fill: string): void
  line(x1: number, y1: number, x2: number, y2: number, stroke: string): void
  text(
    x: number,
    y: number,
    text: string,
    fill: string,
    anchor: 'start' | 'middle' | 'end',
    isBold: boolean,
  ): void
}

const SIZE = 12

export function canvasSurface(context: CanvasRenderingContext2D): Surface {
  return {
    rect(x, y, width, height, fill) {
      context.fillStyle = fill
      context.fillRect(x, y, width, height)
    },
    outline(x, y, width, height, stroke) {
      context.strokeStyle = stroke
      context.lineWidth = 2
      context.strokeRect(x, y, width, height)
    },
    area(xs, ys, base, fill) {
      context.fillStyle = fill
      context.beginPath()
      context.moveTo(xs[0]!, base)
      for (let i = 0; i < xs.length; i++) context.lineTo(xs[i]!, ys[i]!)
      context.lineTo(xs.at(-1)!, base)
      context.fill()
    },
    line(x1, y1, x2, y2, stroke) {
      context.strokeStyle = stroke
      context.lineWidth = 1
      context.beginPath()
      context.moveTo(x1, y1)
      context.lineTo(x2, y2)
      context.stroke()
    },
    text(x, y, text, fill, anchor, isBold) {
      context.font = `${isBold ? '600 ' : ''}${SIZE}px ${FONT}`
      context.textAlign = anchor === 'middle' ? 'center' : anchor
      context.textBaseline = 'middle'
      context.fillStyle = fill
      context.fillText(text, x, y)
    },
  }
}

/** Collects an SVG's content; `finish` gives the whole document. */
export class SvgSurface implements Surface {
  readonly #parts: string[] = []

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.#parts.push(
      `<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" fill="${fill}"/>`,
    )
  }

  outline(x: number, y: number, width: number, height: number, stroke: string): void {
    this.#parts.push(
      `<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" fill="none" stroke="${stroke}" stroke-width="2"/>`,
    )
  }

  area(xs: readonly number[], ys: readonly number[], base: number, fill: string): void {
    const points = xs.map((x, i) => `L${r(x)},${r(ys[i]!)}`).join('')
    this.#parts.push(
      `<path d="M${r(xs[0]!)},${r(base)}${points}L${r(xs.at(-1)!)},${r(base)}Z" fill="${fill}"/>`,
    )
  }

  line(x1: number, y1: number, x2: number, y2: number, stroke: string): void {
    this.#parts.push(`<path d="M${r(x1)},${r(y1)}L${r(x2)},${r(y2)}" stroke="${stroke}"/>`)
  }

  text(x: number, y: number, text: string, fill: string, anchor: string, isBold: boolean): void {
    const weight = isBold ? ' font-weight="600"' : ''
    this.#parts.push(
      `<text x="${r(x)}" y="${r(y)}" dy="0.35em" text-anchor="${anchor}" fill="${fill}"${weight}>${escapeXml(text)}</text>`,
    )
  }

  finish(width: number, height: number, title: string, description: string): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="${escapeXml(FONT)}" font-size="${SIZE}"><title>${escapeXml(title)}</title><desc>${escapeXml(description)}</desc>${this.#parts.join('\n')}</svg>\n`
  }
}

function r(value: number): string {
  return String(Math.round(value * 100) / 100)
}

export function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
