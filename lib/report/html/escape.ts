/** Text that is HTML already. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = string | number | Html | undefined | readonly Part[]

/** A template whose values are escaped, unless they are Html themselves; lists are joined, undefined is nothing. */
export function html(strings: TemplateStringsArray, ...values: Part[]): Html {
  let text = strings[0]!
  for (const [i, value] of values.entries()) text += render(value) + strings[i + 1]!
  return new Html(text)
}

function render(part: Part): string {
  if (part === undefined) return ''
  if (part instanceof Html) return part.text
  if (typeof part === 'object') return part.map(render).join('')
  return escapeText(String(part))
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Safe as content and inside quoted attributes. Control characters, which no font shows, become U+FFFD. */
export function escapeText(text: string): string {
  return text
    .replace(/[&<>"']/g, (character) => ENTITIES[character]!)
    .replace(/[^\P{Cc}\n\t]|\p{Cs}/gu, '\u{fffd}')
}

/** No line ends between a number and its unit, nor around a sign before a number. */
export function typeset(text: string): string {
  return text
    .replace(/(\d) (?=(?:µs|ms|s|min|h|%)(?![\p{L}\d]))/gu, '$1\u00a0')
    .replace(/ (=|×|\+) (?=\d)/gu, '\u00a0$1\u00a0')
}

/** JSON for a script element of a data type: no text in it can end the element or open a comment. */
export function scriptJson(value: unknown): Html {
  return new Html(JSON.stringify(value).replaceAll('<', '\\u003c'))
}
